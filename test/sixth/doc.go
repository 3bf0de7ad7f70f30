// Package sixth is the smallest system there can be: it keeps a name from being used. Tests add it to the list of a
// host, to show that a system is one package and one line.
package sixth
