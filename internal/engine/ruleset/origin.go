package ruleset

import rbacv1 "k8s.io/api/rbac/v1"

// MatchedSubject returns the entry of the binding that matches the user: its kind, its name and, for a service account,
// its namespace.
func (h Hit) MatchedSubject() (kind, name, namespace string) {
	switch to := h.entry(); to.kind {
	case boundAccount:
		name, namespace = to.account()
		return rbacv1.ServiceAccountKind, name, namespace
	case boundGroup:
		return rbacv1.GroupKind, to.name, ""
	}
	return rbacv1.UserKind, h.Subject().Name, ""
}

// entry returns the first entry of the binding that matches the user, as spelled there.
func (h Hit) entry() boundSubject {
	want := h.Subject()
	for _, s := range h.bound().subjects {
		if s.subject() == want {
			return s
		}
	}
	if want.Group {
		return boundSubject{want.Name, boundGroup}
	}
	return boundSubject{want.Name, boundUser}
}
