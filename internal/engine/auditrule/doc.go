// Package auditrule decides how much detail of a request each audit sink gets. It compiles the policies of all sinks,
// with the classes that they refer to, into one immutable index that answers the level of every sink in one pass
// (Compile, Index.Levels), merges that with the static audit policy into the one answer that the API server asks for
// (Evaluator), and converts between sinks with classes and audit.k8s.io/v1 policies (ToPolicy, FromPolicy).
//
// A sink that cannot be compiled, or that refers to a class that does not exist, is inactive: it gets level None and
// says why. All other sinks keep working.
package auditrule
