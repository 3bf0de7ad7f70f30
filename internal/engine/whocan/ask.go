package whocan

import (
	"cmp"
	"container/heap"
	"slices"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/ruleset"
)

// Groups with a built-in meaning.
const (
	mastersGroup         = "system:masters"
	authenticatedGroup   = "system:authenticated"
	unauthenticatedGroup = "system:unauthenticated"
	anonymousUser        = "system:anonymous"
)

// Question asks who can make a request.
type Question struct {
	// Request is the request in question; its user is ignored.
	Request authorizer.Attributes
	// Also are related requests: subjects who may make one of them are judged, too.
	Also []authorizer.Attributes
	// Others are further subjects that may be allowed although no rule that applies to the request says so. A subject
	// can occur more than once.
	Others []ruleset.Subject
	// IncludeBlocked also asks for subjects that a deny rule blocks.
	IncludeBlocked bool
	// Judge decides for one subject; nil uses the index in its usual order. It is called once per subject that is
	// related to the request.
	Judge func(ruleset.Subject) ruleset.Certainty
	// Page asks for a part of the answer.
	Page Page
}

// Page is a part of an answer, which is sorted by subject: users before groups, each by name. The pages together are
// the whole answer, whatever their size.
type Page struct {
	// After is the last subject of the previous page; nil asks for the first page.
	After *ruleset.Subject
	// Limit is the maximum number of listed subjects; 0 means all.
	Limit int
	// Named selects the subjects by name; nil means all.
	Named func(name string) bool
}

// has reports whether a subject is on the page or on one after it.
func (p Page) has(s ruleset.Subject) bool {
	return (p.After == nil || s.Compare(*p.After) > 0) && (p.Named == nil || p.Named(s.Name))
}

// Judged returns the subjects by which a subject is judged, since memberships are not known: every user is in
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
	// Conditional lists the subjects that can under conditions.
	Conditional []Conditional
	// Blocked lists the subjects that a deny rule blocks; only if asked for.
	Blocked []Blocked
	// Last is the last subject of the page if more follow, and Left how many follow at most: only those on the page
	// have been judged.
	Last *ruleset.Subject
	Left int
	// Err names bindings that grant nothing because their role does not exist. The rest of the answer is valid
	// nevertheless.
	Err error
}

// Conditional is a subject that can under conditions.
type Conditional struct {
	Subject ruleset.Subject
	// Standing has the conditions in the order in which they are evaluated, and in Allow the rule that allows if none
	// denies.
	Standing ruleset.Standing
}

// Blocked is a subject that a deny rule blocks.
type Blocked struct {
	Subject ruleset.Subject
	// Deny is the rule with its binding. It always applies if it has neither a condition nor names.
	Deny ruleset.Hit
}

// candidate is a subject with its bindings that are related to the request.
type candidate struct {
	subject ruleset.Subject
	allowed bool
	denies  []ruleset.Hit
}

// queue holds the candidates in order: a page only needs the first of them.
type queue []candidate

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].subject.Compare(q[j].subject) < 0 }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push is not used: no candidate is added.
func (q *queue) Push(any) {}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := len(*q) - 1
	c := (*q)[last]
	*q = (*q)[:last]
	return c
}

// Ask answers the question.
func Ask(ix *ruleset.Index, q Question) Answer {
	at, all := map[ruleset.Subject]int{}, []candidate{}
	find := func(s ruleset.Subject) *candidate {
		i, known := at[s]
		if !known {
			i = len(all)
			at[s], all = i, append(all, candidate{subject: s})
		}
		return &all[i]
	}
	ix.Everyone(q.Request, func(h ruleset.Hit) {
		if !q.Page.has(h.Subject()) {
			return
		}
		c := find(h.Subject())
		if h.Effect() == ruleset.Allows {
			c.allowed = true
		} else {
			c.denies = append(c.denies, h)
		}
	})
	for _, also := range q.Also {
		ix.Everyone(also, func(h ruleset.Hit) {
			if q.Page.has(h.Subject()) && h.Effect() == ruleset.Allows {
				find(h.Subject())
			}
		})
	}
	for _, s := range q.Others {
		if q.Page.has(s) {
			find(s).allowed = true
		}
	}
	masters := ruleset.Subject{Group: true, Name: mastersGroup}
	if q.Page.has(masters) {
		find(masters)
	}
	waiting := queue(all)
	heap.Init(&waiting)
	answer := Answer{Err: ix.Unresolved(q.Request.GetNamespace())}
	for listed := 0; len(waiting) > 0; {
		c, _ := heap.Pop(&waiting).(candidate)
		switch {
		case c.subject == masters: // nobody of ours is asked about them
			answer.Groups = append(answer.Groups, mastersGroup)
			listed++
		case answer.judge(ix, q, c):
			listed++
		}
		if listed == q.Page.Limit && listed > 0 && len(waiting) > 0 {
			answer.Last, answer.Left = &c.subject, len(waiting)
			break
		}
	}
	slices.SortStableFunc(answer.Blocked, func(x, y Blocked) int {
		return cmp.Or(x.Subject.Compare(y.Subject), x.Deny.Compare(y.Deny))
	})
	return answer
}

// judge decides the request for one subject, adds it to the right list, and reports whether it is listed.
func (a *Answer) judge(ix *ruleset.Index, q Question, s candidate) bool {
	subject := s.subject
	var query ruleset.Query
	query.ResetFor(ix, q.Request, Judged(subject)...)
	v := query.Decide(nil)
	certainty := v.Certainty
	if q.Judge != nil {
		certainty = q.Judge(subject)
	}
	before := len(a.Blocked)
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
		return len(a.Blocked) > before
	default:
		return false
	}
	return true
}
