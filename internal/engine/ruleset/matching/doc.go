// Package matching matches one compiled rule against one request: a Request is what rules see of a request, a Rule has
// verbs, patterns of kinds and names, and a Table finds the rules that could apply to a request. It knows the Kinds
// that are served, but no roles, bindings or subjects.
package matching
