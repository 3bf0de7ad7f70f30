package connect

import (
	"slices"
	"strings"
)

// Kind says how a request connects.
type Kind uint8

// The kinds.
const (
	None  Kind = iota
	Exec       // pods/exec, pods/attach, pods/portforward
	Proxy      // pods/proxy, services/proxy, nodes/proxy
)

// Verb is the verb that a connection counts as, whichever HTTP method it uses (CA-9).
const Verb = "create"

// StandsIn tells the verbs of Policy that stand for a connection. No request has them.
func StandsIn(verb string) bool { return verb == "exec" || verb == "proxy" }

// Subresource is the subresource that a question is about: one that asks for a verb that stands in names none.
func Subresource(verb, subresource string) string {
	if subresource == "" && StandsIn(verb) {
		return verb // their subresources have the same names
	}
	return subresource
}

// subresources are those that connect, whatever resource they belong to.
var subresources = []string{"exec", "attach", "portforward", "proxy"}

// Subresources lists the subresources that connect.
func Subresources() []string { return slices.Clone(subresources) }

// Connects reports whether a subresource is one that connects, whatever resource it belongs to.
func Connects(subresource string) bool { return slices.Contains(subresources, subresource) }

// Of tells how a request to a subresource connects. All of them are admitted with operation CONNECT.
func Of(group, resource, subresource string) Kind {
	switch {
	case group != "" || !Connects(subresource):
		return None
	case subresource == "proxy" && (resource == "pods" || resource == "services" || resource == "nodes"):
		return Proxy
	case subresource != "proxy" && resource == "pods":
		return Exec
	}
	return None
}

// Name is the name of the object that a request of this kind is about. Proxies take it with a scheme and a port, as
// name, name:port or scheme:name:port; what the endpoint itself would refuse is left as it is.
func Name(kind Kind, name string) string {
	if kind != Proxy {
		return name
	}
	first, rest, found := strings.Cut(name, ":")
	if !found {
		return name
	}
	second, port, three := strings.Cut(rest, ":")
	target := first
	switch {
	case three && (strings.Contains(port, ":") || first != "" && first != "http" && first != "https"):
		return name
	case three:
		target = second
	}
	if target == "" {
		return name
	}
	return target
}
