// Package game is the part of the hunt that needs no server: cases (who may do what, what is there, what is tried), an
// oracle that says from the specification who may do it, a grammar that draws cases, and the shrinking of what was
// found.
//
// The oracle shares no code with the product. It is an upper bound: where a rule leaves something open, it says that
// the step was allowed, so that what the hunt reports is wrong whatever one thinks of the open points.
package game
