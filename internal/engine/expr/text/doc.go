// Package text handles the source form of expressions: macros before expansion, values as literals, and printing an
// expression such that it parses back to the same one. It does not know about requests and objects.
package text
