// Package matching says what one compiled rule makes of one request: a Request is what rules see of a request, a Rule
// has verbs, patterns of kinds and names, and a Table finds the rules that a request could be about. It knows the Kinds
// that are served, and nothing of roles, bindings and subjects.
package matching
