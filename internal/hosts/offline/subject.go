package offline

import (
	"strings"

	"proviso.dev/proviso/internal/engine/ruleset"
)

// Subject is who a report speaks of: one of a user, a group or a service account as NAMESPACE/NAME.
type Subject struct {
	User           string `json:"user,omitempty"`
	Group          string `json:"group,omitempty"`
	ServiceAccount string `json:"serviceAccount,omitempty"`
}

func (s Subject) String() string {
	switch {
	case s.Group != "":
		return "group " + s.Group
	case s.ServiceAccount != "":
		return "service account " + s.ServiceAccount
	}
	return s.User
}

// SubjectOf names a subject of rules as reports do.
func SubjectOf(s ruleset.Subject) Subject {
	if s.Group {
		return Subject{Group: s.Name}
	}
	if account, ok := strings.CutPrefix(s.Name, "system:serviceaccount:"); ok {
		return Subject{ServiceAccount: strings.Replace(account, ":", "/", 1)}
	}
	return Subject{User: s.Name}
}
