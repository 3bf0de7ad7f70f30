// Package evasion finds deny rules that their subjects can evade: the rule looks at a label, an annotation or a field
// of the object that the subject can change first.
package evasion
