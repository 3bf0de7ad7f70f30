package adversary

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"proviso.dev/proviso/test/adversary/game"
)

const (
	ownGroup  = "/apis/policy.proviso.dev/v1alpha1/"
	rbacGroup = "rbac.authorization.k8s.io"
	keeper    = "keep.example.com/it"
	// yard is a namespace of the hunt's own.
	yard = "yard"
)

type object = map[string]any

// must makes a request as an admin that has to succeed; that something is there already is success.
func (h *hunt) must(method, at string, body any) object {
	a := h.sudo(method, at, body)
	if !a.ok() && a.code != http.StatusConflict {
		panic(unsettled(fmt.Sprintf("%s %s: %d %.300s", method, at, a.code, a.body)))
	}
	return a.object()
}

// unsettled is the panic of a case that could not be set up. It says nothing about the product.
type unsettled string

// canary is what only the prey holds.
func (g *table) canary(i int) string { return fmt.Sprintf("canary-%s-%d", g.run, i) }

// install makes what a case begins with.
func (g *table) install() {
	h, c := g.hunt, g.c
	for _, ns := range c.Namespaces() {
		h.must("POST", "/api/v1/namespaces", object{"metadata": object{"name": ns}})
		h.must("POST", ownGroup+"namespaces/"+ns+"/policies", object{"metadata": object{"name": "default"}})
		h.must("POST", ownGroup+"namespaces/"+ns+"/policybindings", object{"metadata": object{"name": ns}, "policyRef": object{"namespace": ns}})
		g.uids[ns], _ = game.Dig(h.get(game.Ref{Resource: "namespaces", Name: ns}), "metadata", "uid").(string)
	}
	for i, p := range c.Prey {
		g.define(p)
		g.bait(i, p)
	}
	for _, f := range c.Fields {
		h.must("POST", ownGroup+"fieldpermissions", object{"metadata": object{"name": f.Name}, "spec": object{"resources": f.Resources, "field": f.Path, "permission": f.Permission, "exclusive": true}})
		g.leave(ownGroup + "fieldpermissions/" + f.Name)
	}
	for _, p := range c.Protected {
		role := h.place("clusterroles."+rbacGroup, "", "")
		h.must("POST", role, object{"metadata": object{"name": p.Name}, "rules": []any{}})
		g.leave(role + "/" + p.Name)
		h.must("POST", ownGroup+"clusterprotectedattributes", object{"metadata": object{"name": p.Name}, "attributeKind": p.Kind, "attributeName": p.Attribute, "protectedValues": p.Values,
			"roleRef": object{"apiGroup": rbacGroup, "kind": "ClusterRole", "name": p.Name}})
		g.leave(ownGroup + "clusterprotectedattributes/" + p.Name)
	}
	for _, grant := range c.Grants {
		g.grant(grant)
	}
	h.settle()
	g.welcome()
	if len(c.Fields)+len(c.Protected) > 0 {
		h.settleAttributes()
	}
}

// leave remembers what has to be removed.
func (g *table) leave(at string) { g.left = append(g.left, at) }

func (g *table) bait(i int, p game.Prey) {
	h := g.hunt
	body := h.stub(p.Resource, p.NS, p.Name, g.canary(i))
	put(body, "metadata annotations canary", g.canary(i))
	for key, value := range p.Labels {
		put(body, "metadata labels "+key, value)
		if slices.ContainsFunc(g.c.Protected, func(p game.Protected) bool { return p.Kind == "Annotation" && p.Attribute == key }) {
			put(body, "metadata annotations "+key, value)
		}
	}
	if p.Kept {
		put(body, "metadata finalizers", []any{keeper})
	}
	if p.Owner != "" {
		for _, other := range g.c.Prey[:i] {
			if owner := h.get(other.Ref()); other.Name == p.Owner && owner != nil {
				put(body, "metadata ownerReferences", []any{object{"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": p.Owner, "uid": game.Dig(owner, "metadata", "uid")}})
			}
		}
	}
	h.poll(p.Resource+" to be served", func() bool { // the definition may be new
		a := h.sudo("POST", h.place(p.Resource, p.NS, ""), body)
		return a.code != http.StatusNotFound && a.code != http.StatusServiceUnavailable
	})
	if h.get(p.Ref()) == nil {
		h.must("POST", h.place(p.Resource, p.NS, ""), body)
	}
	if p.Shared {
		for manager := range shared {
			h.reapply(p, manager)
		}
	}
	if p.NS == "" {
		g.leave(h.place(p.Resource, "", p.Name))
	}
}

// shared are the labels of the two appliers.
var shared = map[string]string{game.Gitops: game.GitopsLabel, game.Second: game.SecondKey}

// reapply is what an applier does all the time: it applies what it has always applied.
func (h *hunt) reapply(p game.Prey, manager string) answer {
	r := h.resource(p.Resource)
	version := r.Version
	if r.Group != "" {
		version = r.Group + "/" + r.Version
	}
	body := object{"apiVersion": version, "kind": r.Kind, "metadata": object{"name": p.Name, "labels": object{shared[manager]: "kept"}}}
	return send(h.admin, h.url, nil, call{method: "PATCH", path: h.place(p.Resource, p.NS, p.Name), query: "force=true&fieldManager=" + manager, contentType: applyType, body: body})
}

// grant makes a role and its binding.
func (g *table) grant(grant game.Grant) {
	h := g.hunt
	meta := object{"name": grant.Name}
	switch grant.How {
	case game.ByMaster, game.ByNamespace:
		ns := grant.NS
		if grant.How == game.ByMaster {
			ns = "master"
		}
		role := object{"namespace": ns, "name": grant.Name}
		if grant.Role != "" {
			role = object{"namespace": "master", "name": grant.Role}
		} else {
			h.must("POST", h.place("roles.authorization.proviso.dev", ns, ""), object{"metadata": meta, "rules": policyRules(grant.Rules)})
		}
		binding := object{"metadata": meta, "roleRef": role}
		var users, groups []any
		for _, to := range grant.To {
			switch kind, name, _ := strings.Cut(to, ":"); kind {
			case "user":
				users = append(users, name)
			case "group":
				groups = append(groups, name)
			default:
				users = append(users, "system:serviceaccount:"+strings.Replace(name, "/", ":", 1))
			}
		}
		binding["userNames"], binding["groupNames"] = users, groups
		h.must("POST", h.place("rolebindings.authorization.proviso.dev", ns, ""), binding)
		if grant.How == game.ByMaster {
			g.leave(h.place("rolebindings.authorization.proviso.dev", ns, grant.Name))
			g.leave(h.place("roles.authorization.proviso.dev", ns, grant.Name))
		}
	default:
		roles, bindings, kind := "clusterroles."+rbacGroup, "clusterrolebindings."+rbacGroup, "ClusterRole"
		if grant.How == game.ByLocalRole {
			roles, bindings, kind = "roles."+rbacGroup, "rolebindings."+rbacGroup, "Role"
		} else {
			g.leave(h.place(bindings, "", grant.Name))
			g.leave(h.place(roles, "", grant.Name))
		}
		h.must("POST", h.place(roles, grant.NS, ""), object{"metadata": meta, "rules": rbacRules(grant.Rules)})
		if grant.Kept {
			meta = object{"name": grant.Name, "finalizers": []any{keeper}}
		}
		h.must("POST", h.place(bindings, grant.NS, ""), object{"metadata": meta, "roleRef": object{"apiGroup": rbacGroup, "kind": kind, "name": grant.Name}, "subjects": subjects(grant.To)})
	}
}

func subjects(to []string) (out []any) {
	for _, s := range to {
		kind, name, _ := strings.Cut(s, ":")
		switch kind {
		case "user":
			out = append(out, object{"apiGroup": rbacGroup, "kind": "User", "name": name})
		case "group":
			out = append(out, object{"apiGroup": rbacGroup, "kind": "Group", "name": name})
		default:
			ns, account, _ := strings.Cut(name, "/")
			out = append(out, object{"kind": "ServiceAccount", "namespace": ns, "name": account})
		}
	}
	return out
}

func rbacRules(rules []game.Rule) (out []any) {
	for _, r := range rules {
		for _, k := range r.Kinds {
			name, sub, hasSub := strings.Cut(k, "/")
			plural, group, _ := strings.Cut(name, ".")
			if hasSub {
				plural += "/" + sub
			}
			if k == "*" {
				group = "*"
			}
			rule := object{"verbs": r.Verbs, "apiGroups": []any{group}, "resources": []any{plural}}
			if r.Names != nil {
				rule["resourceNames"] = r.Names
			}
			out = append(out, rule)
		}
	}
	return out
}

func policyRules(rules []game.Rule) (out []any) {
	for _, r := range rules {
		rule := object{"verbs": r.Verbs, "resourceKinds": r.Kinds, "description": "of the hunt"}
		if r.Deny {
			rule["deny"] = true
		}
		if r.Names != nil {
			rule["resourceNames"] = r.Names
		}
		switch kind, arg, _ := strings.Cut(r.If, ":"); kind {
		case "has":
			rule["attributeRestrictions"] = object{"labelsContain": []any{arg}}
		case "where":
			rule["where"] = fmt.Sprintf("has(resource.metadata.labels) && '%s' in resource.metadata.labels", arg)
		case "named":
			rule["when"] = fmt.Sprintf("request.name == '%s'", arg)
		case "only":
			rule["attributeRestrictions"] = object{"fieldsMutable": []any{arg}}
		}
		out = append(out, rule)
	}
	return out
}

// settle waits until everything that was written to Policy and RBAC before is in effect: a watch keeps the order of
// what it tells.
func (h *hunt) settle() time.Duration {
	h.marks++
	mark, name := fmt.Sprintf("mark-%s%d", h.lane, h.marks), "mark-"+h.lane
	policy := object{"rules": []any{object{"verbs": []any{"get"}, "resourceKinds": []any{"configmaps"}, "resourceNames": []any{mark}}}}
	h.write("roles.authorization.proviso.dev", "master", name, policy)
	h.write("rolebindings.authorization.proviso.dev", "master", name, object{"roleRef": object{"namespace": "master", "name": name}, "userNames": []any{mark + "-policy"}})
	rule := object{"rules": []any{object{"verbs": []any{"get"}, "apiGroups": []any{""}, "resources": []any{"configmaps"}, "resourceNames": []any{mark}}}}
	bind := func(kind, user string) object {
		return object{"roleRef": object{"apiGroup": rbacGroup, "kind": kind, "name": name}, "subjects": []any{object{"apiGroup": rbacGroup, "kind": "User", "name": user}}}
	}
	h.write("clusterroles."+rbacGroup, "", name, rule)
	h.write("clusterrolebindings."+rbacGroup, "", name, bind("ClusterRole", mark+"-cluster"))
	h.write("roles."+rbacGroup, yard, name, rule)
	h.write("rolebindings."+rbacGroup, yard, name, bind("Role", mark+"-local"))
	begin := time.Now()
	for _, user := range []string{mark + "-policy", mark + "-cluster", mark + "-local"} {
		h.poll("the policy of "+user, func() bool { return h.allowed(game.Who{User: user}.Wants("get", "configmaps", yard, mark)) })
	}
	return time.Since(begin)
}

// settleAttributes waits until the field permissions and protected attributes are in effect.
func (h *hunt) settleAttributes() {
	h.marks++
	name := "mark-" + h.lane
	label := fmt.Sprintf("%s%d.example.com/", name, h.marks)
	h.sudo("DELETE", ownGroup+"fieldpermissions/"+name, nil)
	h.sudo("DELETE", ownGroup+"clusterprotectedattributes/"+name, nil)
	h.must("POST", ownGroup+"fieldpermissions", object{"metadata": object{"name": name}, "spec": object{"resources": []any{"configmaps"}, "field": ".metadata.labels[" + label + "field]", "permission": "example.com/mark", "exclusive": true}})
	h.must("POST", ownGroup+"clusterprotectedattributes", object{"metadata": object{"name": name}, "attributeKind": "Label", "attributeName": label + "protected",
		"roleRef": object{"apiGroup": rbacGroup, "kind": "ClusterRole", "name": "nobody-has-this"}})
	for _, key := range []string{label + "field", label + "protected"} {
		h.poll("the guard of "+key, func() bool {
			return h.by(who{user: "prober"}, call{method: "POST", path: h.place("configmaps", yard, ""), query: "dryRun=All", body: object{"metadata": object{"generateName": "x", "labels": object{key: "x"}}}}).code == http.StatusForbidden
		})
	}
}

// write creates or replaces.
func (h *hunt) write(resource, ns, name string, body object) {
	body["metadata"] = object{"name": name}
	a := h.sudo("PUT", h.place(resource, ns, name), body)
	if a.code == http.StatusNotFound {
		h.must("POST", h.place(resource, ns, ""), body)
	} else if !a.ok() {
		panic(unsettled(fmt.Sprintf("PUT %s %s: %d %.300s", resource, name, a.code, a.body)))
	}
}

// poll waits for a condition.
func (h *hunt) poll(what string, condition func() bool) {
	deadline := time.Now().Add(4 * patience)
	for pause := 2 * time.Millisecond; !condition(); pause = min(2*pause, 50*time.Millisecond) {
		if time.Now().After(deadline) {
			panic(unsettled("waiting for " + what))
		}
		time.Sleep(pause)
	}
}

// allowed asks the server.
func (h *hunt) allowed(a game.Ask) bool {
	r := h.resource(a.Resource)
	_, sub, _ := strings.Cut(a.Resource, "/")
	groups := append([]string{"system:authenticated"}, a.Groups...)
	if rest, ok := strings.CutPrefix(a.User, "system:serviceaccount:"); ok {
		ns, _, _ := strings.Cut(rest, ":")
		groups = append(groups, "system:serviceaccounts", "system:serviceaccounts:"+ns)
	}
	ns := a.NS
	if a.Resource == "namespaces" {
		ns = a.Name
	}
	review := h.sudo("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", object{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": object{"user": a.User, "groups": groups,
		"resourceAttributes": object{"verb": a.Verb, "group": r.Group, "version": r.Version, "resource": r.Plural, "subresource": sub, "namespace": ns, "name": a.Name}}})
	if !review.ok() {
		panic(unsettled(fmt.Sprintf("review: %d %.200s", review.code, review.body)))
	}
	allowed, _ := game.Dig(review.object(), "status", "allowed").(bool)
	return allowed
}
