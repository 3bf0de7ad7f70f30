package bypass

import (
	"slices"
	"strings"

	"proviso.dev/proviso/internal/state/policycodec"
	"proviso.dev/proviso/test/stock/beside"
)

// besideStock is set if the hunt is on a stock server with a sidecar (SC-11).
func besideStock() bool { return beside.Program() != "" }

// notBeside are the kinds of which a stock server has no objects (SC-9).
func notBeside(e endpoint) bool { return besideStock() && e.Resource == "namespaceauditsinks" }

// tells are the answers by which a stock server shows a conditional caller that something exists, or what is wrong with
// his request, before admission refuses it (SC-9).
func tells(o outcome) bool { return besideStock() && o.code >= 400 && o.code < 500 }

// withoutConditions tells the refusals of conditions that a stock server cannot honour (SC-9).
func withoutConditions(o outcome) bool {
	return besideStock() && o.code == 403 && slices.ContainsFunc([]string{"nodes", "proxies", "reviews"}, func(of string) bool {
		return strings.Contains(string(o.answer), "a conditional permission cannot be used for "+of+" on a stock server")
	})
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
	return besideStock() && slices.Contains(policycodec.Groups(), o.endpoint.Group)
}

// typed is the selector that implies what a reader may see.
const typed = "labelSelector=mine%3Dyes"

// showing are the reads that show a reader what he may see: beside a stock server nothing is narrowed, and he has to
// type the selector (SC-9). Without it they are tried as well.
func showing(all []request) []request {
	if !besideStock() {
		return all
	}
	for _, r := range slices.Clone(all) {
		if (r.verb == "list" || r.verb == "watch") && !strings.Contains(r.query, "labelSelector") {
			r.query = strings.TrimPrefix(r.query+"&"+typed, "&")
			all = append(all, r)
		}
	}
	return all
}

// unnarrowed tells the reads that show nothing beside a stock server: those without the selector, and all of nodes
// (SC-9).
func unnarrowed(o outcome) bool {
	return besideStock() && o.code == 403 && (!strings.Contains(o.query, typed) || o.endpoint.Group == "" && o.endpoint.Resource == "nodes")
}
