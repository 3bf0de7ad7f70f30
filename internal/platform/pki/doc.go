// Package pki keeps the keys and certificates of a server under its data directory, so `proviso serve` needs no flag:
// authorities, the serving certificate, the service-account key, the clients towards kubelets, extension servers and
// etcd, and the administrator's kubeconfig.
//
// Three invariants hold everything together:
//
//   - A file is whole or absent: it is written beside its name, synced and renamed. A key is written before its
//     certificate, and a renewal keeps the key, so the two always match, whenever the process is killed.
//   - An existing file is reused or refused, never overwritten: a file that is corrupt, not signed by its authority or
//     readable by others is an error that names it. Only a valid certificate that is about to expire, or that no longer
//     covers the configuration, is replaced.
//   - An authority is created only if no earlier one has signed anything. Losing it is an error, because a new one
//     would silently lock out all holders of a certificate of the old one.
//
// File names are those of kubeadm, so that an existing set can be copied in.
package pki
