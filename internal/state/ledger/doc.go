// Package ledger keeps which narrowed tokens have been issued, in etcd beside the journal of policy (TK-6). It has
// their ids and what people call them, and nothing that could be made into a token.
//
// Place in the request path: a token is entered before it is handed out. If it cannot be entered, it is not issued; so
// every token that a caller holds is listed by every replica, also after a crash. What is kept is bounded for each
// user and in all; a list from which something was dropped that has not ended says so.
package ledger
