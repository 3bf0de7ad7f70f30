// Package auditrule decides how much detail each audit sink gets of a request. It compiles the policies of all sinks,
// with the classes that they refer to, into one immutable index that answers the level of every sink in one pass
// (Compile, Index.Levels), unites that with the static audit policy into the one answer that the API server asks for
// (Evaluator), and converts between sinks and classes on one side and audit.k8s.io/v1 policies on the other (ToPolicy,
// FromPolicy).
//
// A sink that cannot be compiled, or that refers to a class that does not exist, is inactive alone: it gets level None
// and says why, and every other sink keeps working.
package auditrule
