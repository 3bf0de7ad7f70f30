package adversary

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"proviso.dev/proviso/test/adversary/game"
)

func decode(v any) string {
	s, _ := v.(string)
	raw, _ := base64.StdEncoding.DecodeString(s)
	return string(raw)
}

// writes reports whether a step may have changed something.
func (d *doing) writes() bool {
	return !slices.Contains([]string{"get", "list", "connect"}, d.Verb) && !strings.Contains(d.Query, "dryRun")
}

// aboutPolicy tells the resources that say who may do what.
func aboutPolicy(resource string) bool {
	return strings.HasSuffix(resource, "."+rbacGroup) || strings.HasSuffix(resource, ".proviso.dev") && !strings.Contains(resource, "review")
}

// await waits until what a step set in motion has happened.
func (g *table) await(d *doing) {
	if !d.writes() {
		return
	}
	main, _, _ := strings.Cut(d.Resource, "/")
	switch {
	case main == game.AccessRequests:
		g.accessed(d)
	case aboutPolicy(main):
		g.policyWritten = true
		g.party.Grants(d.actor, d.who)
		g.settle()
	}
	switch main {
	case definitions:
		g.policyWritten = true
		g.defined(d)
	case "namespaces":
		g.policyWritten = true
		g.lived(d.Name)
		return
	}
	if d.Verb == "delete" || d.Verb == "deletecollection" || d.Resource == "pods/eviction" || strings.Contains(edits(d.Edits), "ownerReferences") {
		g.collected(main)
	}
}

// defined waits until a definition is served, and knows its names from then on.
func (g *table) defined(d *doing) {
	if d.Name == "" { // a collection of one
		d = &doing{Step: game.Step{Resource: d.Resource, Name: strings.TrimPrefix(d.Query, game.ByName)}}
	}
	o := g.get(game.Ref{Resource: d.Resource, Name: d.Name})
	if o == nil {
		time.Sleep(300 * time.Millisecond)
		return
	}
	g.leave(g.place(d.Resource, "", d.Name))
	group, _ := game.Dig(o, "spec", "group").(string)
	plural, _ := game.Dig(o, "spec", "names", "plural").(string)
	kind, _ := game.Dig(o, "spec", "names", "kind").(string)
	r := game.Resource{Group: group, Version: "v1", Plural: plural, Kind: kind, Namespaced: game.Dig(o, "spec", "scope") == "Namespaced"}
	g.custom[r.String()] = r
	is := func(condition, status string) bool {
		conditions, _ := game.Dig(g.get(game.Ref{Resource: d.Resource, Name: d.Name}), "status", "conditions").([]any)
		return slices.ContainsFunc(conditions, func(c any) bool {
			m, _ := c.(map[string]any)
			return m["type"] == condition && m["status"] == status
		})
	}
	g.poll("the definition of "+d.Name, func() bool {
		return is("Established", "True") || is("Established", "False") || is("NamesAccepted", "False")
	})
	served := func() bool { return g.sudo("GET", "/apis/"+group+"/v1/"+plural, nil).code != http.StatusNotFound }
	wait := 3 * time.Second // whether it is served at all is not known
	switch {
	case g.dormant(plural+"."+group) || game.Dig(o, "metadata", "deletionTimestamp") != nil:
		wait = 0
	case is("Established", "True"):
		wait = patience
	}
	for deadline := time.Now().Add(wait); !served() && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(300 * time.Millisecond) // nothing tells when the policy has seen what is served; with less the attack is weaker
}

// definitions is the resource of custom resource definitions.
const definitions = "customresourcedefinitions.apiextensions.k8s.io"

// define makes the definition of a prey that has none.
func (g *table) define(p game.Prey) {
	r, builtIn := g.catalog.Find(p.Resource)
	if _, known := g.custom[p.Resource]; builtIn || known {
		return
	}
	body := g.stub(definitions, "", p.Resource, "")
	put(body, "spec group", r.Group)
	put(body, "spec names", object{"plural": r.Plural, "kind": r.Kind, "listKind": r.Kind + "List", "singular": strings.ToLower(r.Kind)})
	g.must("POST", g.place(definitions, "", ""), body)
	g.defined(&doing{Step: game.Step{Resource: definitions, Name: p.Resource}})
}

// dormant reports whether a custom resource is defined and not served: its objects are there, and nobody sees them.
func (g *table) dormant(resource string) bool {
	if _, custom := g.custom[resource]; !custom {
		return false
	}
	o := g.get(game.Ref{Resource: definitions, Name: resource})
	return o != nil && game.Dig(o, "metadata", "deletionTimestamp") == nil && !slices.ContainsFunc(list(game.Dig(o, "spec", "versions")), func(v any) bool {
		version, _ := v.(map[string]any)
		return version["served"] == true
	})
}

// wake has everything served that is defined.
func (g *table) wake() {
	for resource, r := range g.custom {
		if !g.dormant(resource) {
			continue
		}
		versions := list(game.Dig(g.get(game.Ref{Resource: definitions, Name: resource}), "spec", "versions"))
		for _, v := range versions {
			if version, ok := v.(map[string]any); ok {
				version["served"] = true
			}
		}
		g.must("PATCH", g.place(definitions, "", resource), object{"spec": object{"versions": versions}})
		g.poll(resource+" to be served again", func() bool { return g.sudo("GET", "/apis/"+r.Group+"/v1/"+r.Plural, nil).ok() })
	}
}

// lived waits until a namespace that is deleted is gone, or cannot go. The controller begins after five seconds.
func (g *table) lived(ns string) {
	var state map[string]any
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		state = g.get(game.Ref{Resource: "namespaces", Name: ns})
		if finalizers, _ := game.Dig(state, "spec", "finalizers").([]any); state == nil || game.Dig(state, "metadata", "deletionTimestamp") == nil || len(finalizers) == 0 {
			break
		}
		conditions, _ := game.Dig(state, "status", "conditions").([]any)
		if slices.ContainsFunc(conditions, func(c any) bool {
			m, _ := c.(map[string]any)
			return m["type"] == "NamespaceFinalizersRemaining" && m["status"] == "True"
		}) {
			break
		}
	}
	if uid, _ := game.Dig(state, "metadata", "uid").(string); uid != g.uids[ns] {
		g.oracle.Gone[ns] = true
	}
	g.settle()
}

// collected waits until the garbage collector has looked at everything that was changed before: it deletes an object of
// the same kind that has no owner left.
func (g *table) collected(resource string) {
	r := g.resource(resource)
	if !r.Namespaced || strings.HasSuffix(r.Group, "proviso.dev") || strings.HasPrefix(r.Group, "hunt") {
		resource = "configmaps"
	}
	g.marks++
	name := fmt.Sprintf("mark-%s%d", g.lane, g.marks)
	body := g.stub(resource, yard, name, "x")
	put(body, "metadata ownerReferences", []any{object{"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "00000000-0000-4000-8000-000000000001"}})
	if !g.sudo("POST", g.place(resource, yard, ""), body).ok() {
		return
	}
	at := game.Ref{Resource: resource, NS: yard, Name: name}
	for deadline := time.Now().Add(10 * time.Second); g.get(at) != nil && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
}

// clean removes what has no namespace. Namespaces stay: removing one costs more than it is worth.
func (g *table) clean() {
	for _, p := range g.c.Prey {
		if p.Kept {
			g.sudo("PATCH", g.place(p.Resource, p.NS, p.Name), object{"metadata": object{"finalizers": nil}})
		}
	}
	for _, grant := range g.c.Grants {
		if grant.Kept {
			g.sudo("PATCH", g.place("rolebindings."+rbacGroup, grant.NS, grant.Name), object{"metadata": object{"finalizers": nil}})
		}
	}
	for _, s := range g.c.Steps {
		if r := g.resource(s.Resource); s.Verb == "create" && !r.Namespaced && !strings.Contains(s.Resource, "/") && s.Resource != "namespaces" && s.Name != "" {
			g.leave(g.place(s.Resource, "", s.Name))
		}
		if s.NS == "master" {
			g.leave(g.place(s.Resource, s.NS, s.Name))
		}
	}
	for _, at := range g.left {
		g.sudo("DELETE", at, nil)
	}
	for name := range g.custom {
		group := g.custom[name].Group
		for deadline := time.Now().Add(10 * time.Second); g.sudo("GET", "/apis/"+group+"/v1/"+g.custom[name].Plural, nil).ok() && time.Now().Before(deadline); {
			time.Sleep(20 * time.Millisecond)
		}
		delete(g.custom, name)
	}
}
