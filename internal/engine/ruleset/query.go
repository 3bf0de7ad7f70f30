package ruleset

import (
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// inlineSubjects is how many subjects of a request are kept; a caller with more groups that are bound to something is
// looked up again per tier, which costs time but no memory.
const inlineSubjects = 16

// Query is one request to the index: its attributes, and what was found about its subjects. Declare one on the stack,
// Reset it and ask it; nothing is allocated. The zero value matches nothing. It is not safe for concurrent use.
type Query struct {
	ix *Index

	user   string
	groups []string

	req matching.Request

	subjects [inlineSubjects]*subject
	found    int
	resume   int // group from which on subjects are not kept
}

// Reset prepares the query for one request.
func (q *Query) Reset(ix *Index, a authorizer.Attributes) {
	q.setRequest(ix, a)
	q.setUser(a.GetUser())
}

// ResetFor prepares the query for one request by exactly these subjects: an unnamed member of a group
// has no user name. At most 16 of them count.
func (q *Query) ResetFor(ix *Index, a authorizer.Attributes, subjects ...Subject) {
	q.setRequest(ix, a)
	q.setUser(nil)
	for _, s := range subjects {
		if found, ok := ix.subjects.Get(ix.hashSubject(s), s); ok && q.found < inlineSubjects {
			q.subjects[q.found] = found
			q.found++
		}
	}
}

// setRequest fills in everything except the user.
func (q *Query) setRequest(ix *Index, a authorizer.Attributes) {
	q.ix = ix
	q.req.Set(ix.seed, a)
}

func (q *Query) setUser(u user.Info) {
	q.user, q.groups, q.found, q.resume = "", nil, 0, 0
	if u == nil {
		return
	}
	q.user, q.groups = u.GetName(), u.GetGroups()
	if s, ok := q.ix.subjects.Get(q.ix.hash(q.user), Subject{Name: q.user}); ok {
		q.subjects[0] = s
		q.found = 1
	}
	for i, g := range q.groups {
		if q.found == inlineSubjects {
			q.resume = i
			return
		}
		if s := q.groupSubject(g); s != nil {
			q.subjects[q.found] = s
			q.found++
		}
	}
	q.resume = len(q.groups)
}

func (q *Query) groupSubject(name string) *subject {
	s, _ := q.ix.subjects.Get(^q.ix.hash(name), Subject{Group: true, Name: name})
	return s
}

// next returns the subjects of the request one by one: the user first, then the groups in their order. Begin with 0.
func (q *Query) next(i int) (*subject, int) {
	if i < q.found {
		return q.subjects[i], i + 1
	}
	for g := q.resume + i - q.found; g < len(q.groups); g++ {
		i++
		if s := q.groupSubject(q.groups[g]); s != nil {
			return s, i
		}
	}
	return nil, i
}

// grants returns what a subject has in a scope of the request.
func (q *Query) grants(s *subject, kind Scope) grants {
	switch kind {
	case ScopeMaster:
		return s.master()
	case ScopeCluster:
		return s.cluster
	}
	if q.req.Namespace == "" || s.rest == nil {
		return nil
	}
	l, ok := s.rest.local.Get(q.req.NamespaceHash, q.req.Namespace)
	if !ok {
		return nil
	}
	if kind == ScopePolicy {
		return l.policy
	}
	return l.rbac
}
