// Package controllers runs the controllers without which a lone API server is broken, inside the server's process:
// namespaces that are deleted would never go away, owned objects would outlive their owners, pods and clients would
// find no service account, no token and no root certificate, aggregated cluster roles would be empty, quotas would not
// count, claims and volumes could not be deleted.
//
// They are upstream's own controllers, each started by itself: the controller manager's application around them would
// bring thirty more and eleven times their weight.
//
// Of several servers on one store only the one that holds a lease runs them. A server that loses the lease stops its
// controllers, goes on serving, and campaigns again.
package controllers
