package refmodel

import (
	"slices"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Request is what is decided. It has no wildcards.
type Request struct {
	authorizer.AttributesRecord
}

var standardVerbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

func special(verb string) bool {
	return slices.Contains([]string{"escalate", "bind", "deny", "unsafe-delete-ignore-read-errors"}, verb) ||
		strings.HasPrefix(verb, "impersonate") || strings.HasPrefix(verb, "granular:") || strings.HasPrefix(verb, "reveal:")
}

// connect says which connect subresource the request is about: exec, proxy or none.
func (r *Request) connect() string {
	if !r.ResourceRequest || r.APIGroup != "" {
		return ""
	}
	switch r.Resource + "/" + r.Subresource {
	case "pods/exec", "pods/attach", "pods/portforward":
		return "exec"
	case "pods/proxy", "services/proxy", "nodes/proxy":
		return "proxy"
	}
	return ""
}

// verbNamed reports whether a verb that a Policy rule does not negate is about the request: the * of a deny is about
// every verb.
func (r *Request) verbNamed(deny bool) func(string) bool {
	return func(entry string) bool { return deny && entry == "*" || r.verbEntry(entry) }
}

// proxies reports whether the request is a proxy to the object of that name, whatever scheme and port either of them
// says (PO-20).
func (r *Request) proxies(name string) bool {
	return r.connect() == "proxy" && r.Name != "" && bare(name) == bare(r.Name)
}

func bare(name string) string {
	if _, b, _, ok := utilnet.SplitSchemeNamePort(name); ok {
		return b
	}
	return name
}

// verbEntry reports whether one verb of a Policy rule, without its sign, is about the request (PO-9).
func (r *Request) verbEntry(entry string) bool {
	verb := r.Verb
	if special(verb) {
		return entry == verb || (entry == "impersonate*" || entry == "granular:*" || entry == "reveal:*") && strings.HasPrefix(verb, strings.TrimSuffix(entry, "*"))
	}
	if entry == "*" {
		return true
	}
	if c := r.connect(); c != "" && slices.Contains(standardVerbs, verb) {
		switch entry {
		case "exec":
			return c == "exec" && (verb == "create" || verb == "get")
		case "proxy":
			return c == "proxy"
		}
		return entry == "create" && verb == "create"
	}
	if entry == "proxy" && r.connect() == "proxy" {
		return true
	}
	switch entry {
	case "update":
		return verb == "update" || verb == "patch"
	case "delete":
		return verb == "delete" || verb == "deletecollection"
	}
	return entry == verb
}

// signed splits a list into what it names and what it negates; a list of only negations names everything.
func signed(list []string) (positive, negative []string) {
	for _, e := range list {
		if n, ok := strings.CutPrefix(e, "-"); ok {
			negative = append(negative, n)
		} else {
			positive = append(positive, e)
		}
	}
	if len(positive) == 0 && len(negative) > 0 {
		positive = []string{"*"}
	}
	return positive, negative
}
