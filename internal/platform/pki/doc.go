// Package pki keeps the keys and certificates of a server under its data directory, so that `proviso serve` needs no
// flag: authorities, the serving certificate, the service-account key, the clients towards kubelets, extension servers
// and etcd, and the administrator's kubeconfig.
//
// Three invariants hold everything together:
//
//   - A file is whole or absent: it is written beside its name, synced and renamed. A key is written before the
//     certificate made for it, and a renewal keeps the key, so a pair never disagrees, whenever the process is killed.
//   - What exists is reused or refused, never overwritten: a file that is corrupt, foreign to its authority or readable
//     by others is an error that names it. Only a sound certificate that is about to expire, or that no longer covers
//     the configuration, is replaced.
//   - An authority is created only where nothing was signed by one before. Losing it is an error, because a new one
//     would silently lock out everybody who holds a certificate of the old one.
//
// File names are those of kubeadm, so that an existing set can be copied in.
package pki
