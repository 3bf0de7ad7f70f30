package ruleset

import (
	"hash/maphash"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/connection"
)

// request is one request as rules see it, whoever makes it. The zero value matches nothing.
type request struct {
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
}

// set takes over everything but the user. Names are hashed with the seed of the rules.
func (q *request) set(seed maphash.Seed, a authorizer.Attributes) {
	q.verb, q.namespace = a.GetVerb(), a.GetNamespace()
	q.resourceRequest = a.IsResourceRequest()
	q.bit = bitOf(q.verb)
	q.special = ordinary
	if q.bit == 0 {
		q.special = specialOf(q.verb)
	}
	q.nsHash = 0
	if q.namespace != "" {
		q.nsHash = maphash.String(seed, q.namespace)
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
	q.resHash = maphash.String(seed, q.resource)
}

// splitResource treats a review that asks for resource "pods/exec" like one that asks for resource "pods" and
// subresource "exec", as RBAC does by comparing the joined text.
func (q *request) splitResource(i int) {
	rest := q.resource[i+1:]
	if q.sub != "" {
		rest += "/" + q.sub
	}
	q.resource, q.sub, q.hasSub = q.resource[:i], rest, true
}
