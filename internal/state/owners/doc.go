// Package owners finds the stored objects that an owner owns (PO-20): those that the garbage collector would delete
// with it. The watch cache of each resource gets an index by the owners' UIDs, so that a search costs what it finds,
// however many objects are stored.
//
// The index of a resource is read consistently. Only resources are searched of which some object has an owner of that
// kind. This is noted when an object is written here, when the watch cache learns of it, and when all that is stored is
// read without one. Before the first search every resource is read once; what other replicas write afterwards is at
// most some seconds late, since every watch cache must have caught up with etcd a short while ago.
package owners
