// Package replicas keeps servers on one etcd from deciding differently. Each server registers, under a lease, which
// client authorities and service account keys it accepts; one that shares none of them with the others does not start.
// A record holds the settings that decide requests: the gates of our systems and the master namespace. A server that
// differs from the record is not ready and serves only system:masters, until it is restarted with other settings or the
// record is changed.
//
// It fails closed: a server that has not read the record yet counts as different.
package replicas
