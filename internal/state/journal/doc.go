// Package journal records who changed which policy when, in etcd beside the policy (TR-15).
//
// Place in the request path: around the storage of policy. A change is entered in the journal before it is made, and
// its revision is added when it is made. So every acknowledged change is in the journal: a server that dies in between
// leaves an entry without a revision, but never a change without an entry.
package journal
