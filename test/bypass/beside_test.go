package bypass

import (
	"slices"
	"strings"

	"proviso.dev/proviso/internal/registry"
	"proviso.dev/proviso/test/stock/beside"
)

// besideStock is set if the hunt is on a stock server with a side-car (SC-11).
func besideStock() bool { return beside.Program() != "" }

// tells are the answers by which a stock server shows a conditional caller that something exists, or what is wrong with
// his request, before admission refuses it (SC-9).
func tells(o outcome) bool { return besideStock() && o.code >= 400 && o.code < 500 }

// withoutConditions tells the refusals of conditions that a stock server cannot honour (SC-9).
func withoutConditions(o outcome) bool {
	return besideStock() && strings.Contains(string(o.answer), "a conditional permission does not reach")
}

// ownVerb tells the connections that need no create on a stock server, but the verb of their method, which the caller
// has (SC-9).
func ownVerb(o outcome) bool { return besideStock() && o.endpoint.isConnect() && o.verb == "get" }

// notAudited are the health paths, for which the audit policy beside a stock server has None (SC-10).
func notAudited(o outcome) bool {
	return besideStock() && slices.ContainsFunc(alwaysOpen, func(path string) bool { return strings.HasPrefix(o.path, path) })
}

// bodiless are our own groups: a stock server passes their requests on, and has no bodies of them (SC-9).
func bodiless(o outcome) bool {
	return besideStock() && slices.Contains(registry.Groups(), o.endpoint.Group)
}
