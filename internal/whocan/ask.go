package whocan

import (
	"cmp"
	"slices"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/ruleset"
)

// Groups that mean something without being bound.
const (
	mastersGroup         = "system:masters"
	authenticatedGroup   = "system:authenticated"
	unauthenticatedGroup = "system:unauthenticated"
	anonymousUser        = "system:anonymous"
)

// Question asks who can make a request.
type Question struct {
	// Request is what is asked about; its user is not looked at.
	Request authorizer.Attributes
	// IncludeBlocked asks also for those whom a deny rule keeps from it.
	IncludeBlocked bool
	// Judge decides for one subject, if it is not the index in its usual order that does. It is asked once per subject
	// that has anything to do with the request.
	Judge func(ruleset.Subject) ruleset.Certainty
}

// Judged is a subject as it is judged, since memberships are not known: whoever has logged in is in
// system:authenticated, and nothing else is assumed. A group stands for an unnamed member of it.
func Judged(s ruleset.Subject) []ruleset.Subject {
	everybody := ruleset.Subject{Group: true, Name: authenticatedGroup}
	if s == (ruleset.Subject{Name: anonymousUser}) {
		everybody.Name = unauthenticatedGroup
	}
	if s == everybody || s == (ruleset.Subject{Group: true, Name: unauthenticatedGroup}) {
		return []ruleset.Subject{s}
	}
	return []ruleset.Subject{s, everybody}
}

// Answer lists who can. Everything is in order: users before groups, each by name.
type Answer struct {
	// Users and Groups can, always. system:masters is always among the groups.
	Users, Groups []string
	// Conditional can under conditions.
	Conditional []Conditional
	// Blocked cannot because of a deny rule; only if asked for.
	Blocked []Blocked
	// Err names bindings that grant nothing because their role does not exist. The rest holds all the same.
	Err error
}

// Conditional is a subject that can under conditions.
type Conditional struct {
	Subject ruleset.Subject
	// Standing has the conditions in the order in which they are evaluated, and with Allow what allows if none denies.
	Standing ruleset.Standing
}

// Blocked is a subject that a deny rule keeps from the request.
type Blocked struct {
	Subject ruleset.Subject
	// Deny is the rule and the binding that brings it in. It applies always if it has neither a condition nor names.
	Deny ruleset.Hit
}

// involved is what the bindings of a subject have to do with the request.
type involved struct {
	allowed bool
	denies  []ruleset.Hit
}

// Ask answers the question.
func Ask(ix *ruleset.Index, q Question) Answer {
	subjects := map[ruleset.Subject]*involved{}
	ix.Everyone(q.Request, func(h ruleset.Hit) {
		s := subjects[h.Subject()]
		if s == nil {
			s = &involved{}
			subjects[h.Subject()] = s
		}
		if h.Effect() == ruleset.Allows {
			s.allowed = true
		} else {
			s.denies = append(s.denies, h)
		}
	})
	answer := Answer{Groups: []string{mastersGroup}, Err: ix.Unresolved(q.Request.GetNamespace())}
	for subject, s := range subjects {
		if subject != (ruleset.Subject{Group: true, Name: mastersGroup}) { // nobody of ours is asked about them
			answer.judge(ix, q, subject, s)
		}
	}
	answer.sort()
	return answer
}

// judge decides the request for one subject and puts it where it belongs.
func (a *Answer) judge(ix *ruleset.Index, q Question, subject ruleset.Subject, s *involved) {
	var query ruleset.Query
	query.ResetFor(ix, q.Request, Judged(subject)...)
	v := query.Decide(nil)
	certainty := v.Certainty
	if q.Judge != nil {
		certainty = q.Judge(subject)
	}
	switch {
	case certainty == ruleset.Always && s.allowed && subject.Group:
		a.Groups = append(a.Groups, subject.Name)
	case certainty == ruleset.Always && s.allowed:
		a.Users = append(a.Users, subject.Name)
	case certainty == ruleset.Sometimes:
		a.Conditional = append(a.Conditional, Conditional{subject, v})
	case certainty == ruleset.Never && q.IncludeBlocked:
		for _, d := range s.denies {
			a.Blocked = append(a.Blocked, Blocked{subject, d})
		}
		if v.Deny.Found() && v.Deny.Subject() != subject {
			a.Blocked = append(a.Blocked, Blocked{subject, v.Deny})
		}
	}
}

func (a *Answer) sort() {
	slices.Sort(a.Users)
	slices.Sort(a.Groups)
	slices.SortFunc(a.Conditional, func(x, y Conditional) int { return x.Subject.Compare(y.Subject) })
	slices.SortFunc(a.Blocked, func(x, y Blocked) int {
		return cmp.Or(x.Subject.Compare(y.Subject), x.Deny.Compare(y.Deny))
	})
}
