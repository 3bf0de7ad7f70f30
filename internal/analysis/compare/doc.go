// Package compare tells how what one set of conditions allows relates to what another allows: equivalent, wider,
// narrower, neither, or unknown (TR-3). A difference comes with a witness: a request and objects that the one allows
// and the other refuses, checked with the conditions themselves before it is returned.
//
// # How
//
// A condition is a combination, with CEL's three-valued logic, of atoms. An atom is compiled by itself and evaluated by
// the engine that decides requests; this package never says what an atom means. It knows which paths an atom reads, and
// finds finitely many values for each path that are enough to tell all atoms apart: the constants, one value for each
// way of being none of them, and the ways of being absent. Then it searches for a choice of values that one side allows
// and the other does not, and stops looking where both sides are decided.
//
// # What is exact
//
// Atoms that compare one path with constants or known values of the request (equality, order, in, presence, prefix,
// suffix, contains, size), two paths by equality, and all and exists over the elements of one path. For anything else
// the values are samples: a witness found with them is a witness, and that there is none proves nothing. Then the atoms
// concerned may be true, false or failing as they like, and only what holds for all of that is said to hold. What is
// left is unknown, and so is what exceeds the budget.
//
// # The universe
//
// Objects that conform to the shape of their kind. A path that a shape does not have is never there.
package compare
