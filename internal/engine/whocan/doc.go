// Package whocan answers the inverse question of authorization from the same index: who can do this, always or under
// which conditions, and who is denied it by which rule (PO-14).
//
// The answer is exact for Policy and RBAC together. A user is judged with system:authenticated as the only group, and a
// group as an unnamed, authenticated member of it, since the server does not know who is in which group. Users and
// groups that can only because every authenticated user can are not listed one by one: the group system:authenticated
// is. Webhooks and the Node authorizer are not asked; a host that runs them reports that the answer is incomplete.
//
// The work is proportional to the size of the answer: the index knows which roles concern a resource and who is bound
// to them in the scope of the request.
package whocan
