// Package evasion finds deny rules that their subjects can get round: the rule looks at a label, an annotation or a
// field of the object, and the subject can change that first.
package evasion
