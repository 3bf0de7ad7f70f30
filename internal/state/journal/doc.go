// Package journal keeps who changed which policy when, in etcd beside the policy (TR-15).
//
// Place in the request path: around the storage of policy. A change is written to the journal before it is made, and
// its revision when it is made. So a change that was acknowledged is in the journal; a server that dies in between
// leaves an entry without a revision, and never a change without an entry.
package journal
