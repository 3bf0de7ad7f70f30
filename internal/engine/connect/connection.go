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

// StandsIn reports whether a verb of Policy stands for a connection. No request has such a verb.
func StandsIn(verb string) bool { return verb == "exec" || verb == "proxy" }

// Subresource returns the subresource of a question: a question for a verb that stands in does not name one.
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

// Of returns how a request to a subresource connects. All of them are admitted with operation CONNECT.
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

// Name returns the name of the object that a request of this kind is about. Proxies accept name, name:port or
// scheme:name:port; a name that the endpoint would refuse is returned unchanged.
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
