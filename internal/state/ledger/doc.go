// Package ledger records which narrowed tokens have been issued, in etcd beside the journal of policy (TK-6). It has
// their ids and display names, and nothing from which a token could be made.
//
// Place in the request path: a token is recorded before it is returned. If it cannot be recorded, it is not issued. So
// every replica lists every token that a caller holds, also after a crash. The ledger is bounded per user and in total;
// a list from which an unexpired token was dropped says so.
package ledger
