package matching

import (
	"hash/maphash"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/connect"
)

// Request is one request as rules see it, by any caller. The zero value matches nothing.
type Request struct {
	Verb, Group, Resource, Sub, Name string
	Namespace, path                  string

	target                 string // the object of a proxy request, which the request can spell with a scheme and a port
	RawSub                 string // as requested, see splitResource
	Kind                   string // that the resource will have if it is ever served; used by escalation checks only
	ResourceRequest        bool
	evicts                 bool // it deletes a pod without asking for delete
	HasSub                 bool
	Special                Special
	Wild                   bool // the request, a review, asks about all verbs, resources, groups or subresources
	ByName                 bool // allow rules with names apply to this request without a name, if the object has one of them
	Bit                    VerbBit
	Family                 Family
	resHash, NamespaceHash uint64
	kindHash               uint64
}

// Set fills in everything except the user. Names are hashed with the seed of the rules.
func (q *Request) Set(seed maphash.Seed, a authorizer.Attributes) {
	q.read(a)
	q.Bit = BitOf(q.Verb)
	q.Special = ordinary
	if q.Bit == 0 {
		q.Special = SpecialOf(q.Verb)
	}
	q.NamespaceHash = 0
	if q.Namespace != "" {
		q.NamespaceHash = maphash.String(seed, q.Namespace)
	}
	q.ByName = false
	q.target, q.evicts, q.Wild, q.Family, q.resHash, q.Kind, q.kindHash = "", false, false, FamilyNone, 0, "", 0
	if !q.ResourceRequest {
		q.Group, q.Resource, q.Sub, q.RawSub, q.Name, q.HasSub = "", "", "", "", "", false
		return
	}
	q.path = ""
	q.RawSub, q.HasSub = q.Sub, q.Sub != ""
	if i := strings.IndexByte(q.Resource, '/'); i >= 0 {
		q.splitResource(i)
	}
	q.Family = FamilyOf(q.Group, q.Resource, q.Sub)
	q.evicts = q.Sub == SubEviction && q.Resource == "pods" && q.Group == "" && q.Bit == BitCreate
	q.Wild = q.Verb == "*" || q.Resource == "*" || q.Group == "*" || q.Sub == "*"
	if q.Family == familyProxy || q.Wild {
		q.target = connect.Name(connect.Proxy, q.Name)
	}
	q.resHash = maphash.String(seed, q.Resource)
}

// AsKind turns the request into one for a resource with the kind.
func (q *Request) AsKind(seed maphash.Seed, kind string) {
	q.Kind, q.kindHash = kind, 0
	if kind != "" {
		q.kindHash = HashOf(seed, kind)
	}
}

// HashOf returns the hash of a name, which is never 0.
func HashOf(seed maphash.Seed, name string) uint64 { return maphash.String(seed, name) | 1 }

// read fills in the action. The server passes a record, whose fields are read directly: eight calls through the
// interface take a sixth of a whole decision.
func (q *Request) read(a authorizer.Attributes) {
	if r, ok := a.(*authorizer.AttributesRecord); ok {
		q.Verb, q.Namespace, q.ResourceRequest, q.path = r.Verb, r.Namespace, r.ResourceRequest, r.Path
		q.Group, q.Resource, q.Sub, q.Name = r.APIGroup, r.Resource, r.Subresource, r.Name
		return
	}
	q.Verb, q.Namespace, q.ResourceRequest, q.path = a.GetVerb(), a.GetNamespace(), a.IsResourceRequest(), a.GetPath()
	q.Group, q.Resource, q.Sub, q.Name = a.GetAPIGroup(), a.GetResource(), a.GetSubresource(), a.GetName()
}

// splitResource treats a review that asks for resource "pods/exec" like one that asks for resource "pods" and
// subresource "exec", as RBAC does by comparing the joined text.
func (q *Request) splitResource(i int) {
	rest := q.Resource[i+1:]
	if q.Sub != "" {
		rest += "/" + q.Sub
	}
	q.Resource, q.Sub, q.HasSub = q.Resource[:i], rest, true
}
