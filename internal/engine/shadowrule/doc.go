// Package shadowrule names the rules that are recorded but not enforced: rules of roles, protected attributes and field
// permissions whose enforcement is not Enforce. The snapshot lists them; package shadow records what they would change.
package shadowrule
