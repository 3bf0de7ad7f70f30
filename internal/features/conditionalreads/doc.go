// Package conditionalreads is the system for reads under a condition (RD): a user who may see some objects of a
// resource can get, list and watch those and no others. It needs conditional authorization.
package conditionalreads
