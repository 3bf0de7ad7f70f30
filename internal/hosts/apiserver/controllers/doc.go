// Package controllers runs, inside the server's process, the controllers without which an API server alone is broken:
// deleted namespaces would never go away, owned objects would outlive their owners, pods and clients would find no
// service account, token or root certificate, aggregated cluster roles would be empty, quotas would not count, and
// claims and volumes could not be deleted.
//
// They are upstream's own controllers, each started separately: the controller manager would bring thirty more and
// eleven times the weight.
//
// Of several servers on one store, only the one that holds the lease runs them. A server that loses the lease stops its
// controllers, goes on serving, and campaigns again.
package controllers
