package subject

import (
	"strings"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// IsSystem reports whether a user or group is one of Kubernetes' own. Service accounts of other namespaces than
// kube-system belong to users.
func IsSystem(name string) bool {
	if namespace, _, err := serviceaccount.SplitUsername(name); err == nil {
		return namespace == "kube-system"
	}
	return strings.HasPrefix(name, "system:")
}

// Folds reports whether a table may only count a user or group: one of Kubernetes' own that people are not in. What
// everybody may do, logged in or not, is always shown.
func Folds(name string) bool {
	switch {
	case name == user.AllAuthenticated, name == user.AllUnauthenticated, name == user.Anonymous:
		return false
	case name == serviceaccount.AllServiceAccountsGroup, strings.HasPrefix(name, serviceaccount.ServiceAccountGroupPrefix):
		return false
	}
	return IsSystem(name)
}
