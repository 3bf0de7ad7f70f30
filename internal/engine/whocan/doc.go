// Package whocan answers the inverse question of authorization from the same index: who can do this, always or under
// which conditions, and who is kept from it by which deny rule (PO-14).
//
// The answer is exact for Policy and RBAC together. A user is judged with system:authenticated as the only group, and a
// group as an unnamed member of it who has logged in, since the server does not know who is in which group. Users and
// groups who can only because everybody who is authenticated can are not listed one by one: the group
// system:authenticated is. Webhooks and the Node authorizer are not asked; who runs them says that the answer is
// incomplete.
//
// The work is proportional to the answer: the index knows which roles concern a resource and who is bound to them where
// the request is.
package whocan
