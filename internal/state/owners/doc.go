// Package owners finds the stored objects that an owner owns (PO-20): those that the garbage collector would delete
// with it. The watch cache of each resource gets an index by the owners' UIDs, so a search costs only what it finds,
// however many objects are stored.
//
// The index of a resource is read consistently. A search only looks at resources of which some object has an owner of
// that kind. This is recorded when an object is written here, when the watch cache learns of it, and when all stored
// objects are read without a watch cache. Before the first search every resource is read once. Later writes of other
// replicas are known with at most a few seconds of delay, since every watch cache must have caught up with etcd
// recently.
package owners
