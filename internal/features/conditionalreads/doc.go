// Package conditionalreads is reads under a condition (RD): who may see some objects of a resource lists and watches
// those, and gets those, and nothing else. It needs conditional authorization.
package conditionalreads
