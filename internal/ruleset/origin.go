package ruleset

import "strings"

// MatchedSubject is the entry of the binding that is about the user: its kind, its name and, of a service account, its
// namespace.
func (h Hit) MatchedSubject() (kind, name, namespace string) {
	want := h.Subject()
	for _, s := range h.bound().subjects {
		if s.Subject == want && s.account != "" {
			name, namespace, _ = strings.Cut(s.account, "/")
			return "ServiceAccount", name, namespace
		}
	}
	if want.Group {
		return "Group", want.Name, ""
	}
	return "User", want.Name, ""
}
