package ruleset

import (
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/connection"
)

// inlineSubjects is how many subjects of a request are kept; a caller with more groups that are bound to something is
// looked up again per tier, which costs time but no memory.
const inlineSubjects = 16

// Query is one request on its way through the index: its attributes, and what was found about its subjects. Declare one
// on the stack, Reset it and ask it; nothing is allocated. The zero value matches nothing. It is not safe for
// concurrent use.
type Query struct {
	ix *Index

	user   string
	groups []string

	verb, group, resource, sub, name string
	namespace, path                  string

	target          string // the object that a proxy request is about, which it can spell with a scheme and a port
	rawSub          string // as requested, see splitResource
	kind            string // that the resource will have if it is ever served; used by escalation checks only
	resourceRequest bool
	evicts          bool // it deletes a pod without asking for delete
	hasSub          bool
	special         special
	wild            bool // the request, a review, asks about all verbs, resources, groups or subresources
	bit             verbBit
	family          family
	resHash, nsHash uint64

	subjects [inlineSubjects]*subject
	found    int
	resume   int // group from which on subjects are not kept
}

// Reset prepares the query for one request.
func (q *Query) Reset(ix *Index, a authorizer.Attributes) {
	q.setRequest(ix, a)
	q.setUser(a.GetUser())
}

// ResetFor prepares the query for one request by exactly these subjects, whoever makes it: an unnamed member of a group
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

// setRequest takes over everything but the user.
func (q *Query) setRequest(ix *Index, a authorizer.Attributes) {
	q.ix = ix
	q.verb, q.namespace = a.GetVerb(), a.GetNamespace()
	q.resourceRequest = a.IsResourceRequest()
	q.bit = bitOf(q.verb)
	q.special = ordinary
	if q.bit == 0 {
		q.special = specialOf(q.verb)
	}
	q.nsHash = 0
	if q.namespace != "" {
		q.nsHash = ix.hash(q.namespace)
	}
	q.group, q.resource, q.sub, q.rawSub, q.name, q.target, q.path = "", "", "", "", "", "", ""
	q.evicts, q.hasSub, q.wild, q.family, q.resHash, q.kind = false, false, false, familyNone, 0, ""
	if !q.resourceRequest {
		q.path = a.GetPath()
		return
	}
	q.group, q.resource, q.name = a.GetAPIGroup(), a.GetResource(), a.GetName()
	q.sub = a.GetSubresource()
	q.rawSub, q.hasSub = q.sub, q.sub != ""
	if i := strings.IndexByte(q.resource, '/'); i >= 0 {
		q.splitResource(i)
	}
	q.family = familyOf(q.group, q.resource, q.sub)
	q.evicts = q.sub == subEviction && q.resource == "pods" && q.group == "" && q.bit == bitCreate
	q.wild = q.verb == "*" || q.resource == "*" || q.group == "*" || q.sub == "*"
	if q.family == familyProxy || q.wild {
		q.target = connection.Name(connection.Proxy, q.name)
	}
	q.resHash = ix.hash(q.resource)
}

// splitResource treats a review that asks for resource "pods/exec" like one that asks for resource "pods" and
// subresource "exec", as RBAC does by comparing the joined text.
func (q *Query) splitResource(i int) {
	rest := q.resource[i+1:]
	if q.sub != "" {
		rest += "/" + q.sub
	}
	q.resource, q.sub, q.hasSub = q.resource[:i], rest, true
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
func (q *Query) grants(s *subject, kind scopeKind) grants {
	switch kind {
	case scopeMaster:
		return s.master
	case scopeCluster:
		return s.cluster
	}
	if q.namespace == "" || s.local.Len() == 0 {
		return nil
	}
	l, ok := s.local.Get(q.nsHash, q.namespace)
	if !ok {
		return nil
	}
	if kind == scopePolicy {
		return l.policy
	}
	return l.rbac
}
