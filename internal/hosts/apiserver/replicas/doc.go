// Package replicas keeps servers on one etcd from deciding differently. Each server registers, under a lease, which
// client authorities and service account keys it accepts; one that shares none of them with the others does not start.
// What decides requests — the gates of our systems and the master namespace — is agreed on in a record; a server that
// differs from it is not ready and serves only system:masters, until it is started with other settings or the
// record is changed.
//
// It fails closed: a server that has not read the record yet does not agree with it.
package replicas
