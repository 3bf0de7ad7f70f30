// Package snapshot keeps the compiled policy of the server: informers → compile → immutable Snapshot → atomic swap.
//
// Place in the request path: a request pins the current snapshot when it arrives and is decided against exactly that
// one, from its authorization to its admission. Until every source has synced once, the current snapshot says so, and
// the gate admits only the callers that SV-8 lists.
package snapshot
