// Package compare compares what two sets of conditions allow: equivalent, wider, narrower, neither, or unknown (TR-3).
// A difference comes with a witness: a request and objects that one set allows and the other refuses. The witness is
// checked with the conditions themselves before it is returned.
//
// # How
//
// A condition is a combination, with CEL's three-valued logic, of atoms. An atom is compiled by itself and evaluated by
// the engine that decides requests; this package never interprets an atom. It knows which paths an atom reads. For each
// path it finds a finite set of values that is enough to tell all atoms apart: the constants, one value for each way of
// differing from all of them, and the ways of being absent. Then it searches for a choice of values that one side
// allows and the other does not. It does not search further once both sides are decided.
//
// # What is exact
//
// Results are exact for atoms that compare one path with constants or known values of the request (equality, order, in,
// presence, prefix, suffix, contains, size), two paths by equality, and all and exists over the elements of one path.
// For anything else the values are samples: a witness found with them is valid, but finding none proves nothing. In
// that case each such atom may be true, false or failing, and a result is reported only if it holds for every
// combination. Otherwise the result is unknown, as it is when the budget runs out.
//
// # The universe
//
// Objects that conform to the shape of their kind. A path that a shape does not have is never there.
package compare
