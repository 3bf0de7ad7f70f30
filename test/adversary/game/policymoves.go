package game

import (
	"slices"
	"strings"
)

// define makes a custom resource definition whose names are another kind's.
func define(d *draw, _ *Actor) (Step, bool) {
	if refs := d.made[definitions]; len(refs) > 0 && d.chance(15) {
		return Step{Verb: "delete", Resource: definitions, Name: pick(d, refs).Name}, true
	}
	r, _ := d.catalog.Find(pick(d, append(d.resources(), "secrets", "policies.policy.proviso.dev", "roles.rbac.authorization.k8s.io")))
	singular := strings.ToLower(r.Kind)
	plural := pick(d, []string{singular, singular, r.Plural, "things"})
	group := pick(d, []string{customGroup, customGroup, customGroup, customGroup, "policy.proviso.dev", "authorization.proviso.dev"})
	kind := pick(d, []string{CustomKind(plural), CustomKind(plural), r.Kind})
	names := map[string]any{"plural": plural, "kind": kind, "listKind": kind + "List", "singular": strings.ToLower(kind)}
	if d.chance(30) {
		names["shortNames"] = []any{singular}
	}
	s := Step{Verb: "create", Resource: definitions, Name: plural + "." + group, Edits: []Edit{
		{"spec group", group}, {"spec names", names}, {"spec scope", pick(d, []string{"Namespaced", "Namespaced", "Cluster"})},
	}}
	d.add(s)
	d.made[plural+"."+group] = append(d.made[plural+"."+group], Ref{plural + "." + group, Home, d.fresh("c")})
	return s, true
}

// redefine is about the definition of a prey: with it, all objects of the kind go.
func redefine(d *draw, _ *Actor) (Step, bool) {
	s := Step{Resource: definitions, Name: customPrey}
	schema := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	version := map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": schema}}
	switch d.IntN(7) {
	case 0, 1:
		s.Verb = "delete"
	case 2:
		s.Verb, s.Query, s.Name = "deletecollection", ByName+s.Name, ""
	case 3: // what all objects have from then on
		schema["properties"] = map[string]any{"given": map[string]any{"type": "string", "default": "yes"}}
		s.Verb, s.Edits = "patch", []Edit{{"spec versions", []any{version}}}
	case 4: // the main resource does not write the status then
		version["subresources"] = map[string]any{"status": map[string]any{}}
		s.Verb, s.Edits = "patch", []Edit{{"spec versions", []any{version}}}
	default: // what is not served cannot be looked at
		version["served"] = d.chance(20)
		s.Verb, s.Edits = "patch", []Edit{{"spec versions", []any{version}}}
	}
	return s, slices.ContainsFunc(d.Prey, func(p Prey) bool { return p.Resource == customPrey })
}

// instance makes an object of a custom resource.
func instance(d *draw, _ *Actor) (Step, bool) {
	var custom []string
	for resource := range d.made {
		if strings.HasSuffix(resource, "."+customGroup) {
			custom = append(custom, resource)
		}
	}
	if len(custom) == 0 {
		return Step{}, false
	}
	slices.Sort(custom)
	return Step{Verb: "create", Resource: pick(d, custom), NS: Home, Name: d.fresh("c")}, true
}

// life is about the namespace itself.
func life(d *draw, _ *Actor) (Step, bool) {
	ns := pick(d, []string{Home, Home, Home, Other})
	s := Step{Resource: "namespaces", Name: ns}
	switch d.IntN(6) {
	case 0, 1:
		s.Verb = "delete"
	case 2:
		s.Verb = "create"
	case 3:
		s.Resource, s.Verb, s.Edits = "namespaces/finalize", "update", []Edit{{"spec finalizers", []any{}}}
	case 4:
		s.Verb, s.Edits = "patch", []Edit{pick(d, []Edit{{"metadata labels pod-security.kubernetes.io/enforce", "privileged"}, {"metadata finalizers", []any{keeper}}, {"metadata ownerReferences", []any{map[string]any{"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "00000000-0000-4000-8000-000000000000"}}}})}
	case 5:
		s.Resource, s.Verb, s.Edits = "namespaces/status", "patch", []Edit{{"status phase", "Terminating"}}
	}
	return s, true
}

const (
	rbacRoles, rbacBindings     = "roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io"
	clusterRoles, clusterBinds  = "clusterroles.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io"
	policyRoles, policyBindings = "roles.authorization.proviso.dev", "rolebindings.authorization.proviso.dev"
)

// author writes a role: mostly with a right on the prey.
func author(d *draw, _ *Actor) (Step, bool) {
	s := Step{Verb: "create", Resource: pick(d, []string{rbacRoles, rbacRoles, clusterRoles, policyRoles, policyRoles}), NS: Home, Name: d.fresh("r")}
	if refs := d.made[s.Resource]; len(refs) > 0 && d.chance(20) {
		s.Verb, s.Name = "update", pick(d, refs).Name
	}
	verbs := pick(d, [][]any{{"get", "list"}, {"*"}, {"delete"}, {"get", "list", "create", "update", "patch", "delete"}, {"impersonate"}, {"get", "bind", "escalate"}})
	p, _ := d.catalog.Find(pick(d, append(d.resources(), "secrets", "serviceaccounts")))
	rule := map[string]any{"verbs": verbs}
	if s.Resource == policyRoles {
		rule["resourceKinds"] = pick(d, [][]any{{p.Plural}, {p.Kind}, {"*"}, {"*", "-" + p.Kind}, {"-roles"}})
		if d.chance(20) {
			rule["deny"] = true
		}
		if d.chance(20) && !slices.Contains(verbs, "get") {
			rule["where"] = "resource.metadata.name != 'x'"
		}
	} else {
		rule["apiGroups"], rule["resources"] = []any{p.Group}, []any{p.Plural}
		if d.chance(15) {
			rule["apiGroups"], rule["resources"] = []any{"*"}, []any{"*"}
		}
	}
	if s.Resource == clusterRoles {
		s.NS = ""
	}
	s.Edits = []Edit{{"rules", []any{rule}}}
	return d.add(s), true
}

// bind binds a role that is there, or was made: to the actor, to a service account, to another user.
func bind(d *draw, a *Actor) (Step, bool) {
	s := Step{Verb: "create", Resource: pick(d, []string{rbacBindings, rbacBindings, clusterBinds, policyBindings, policyBindings}), NS: Home, Name: d.fresh("b")}
	if s.Resource == clusterBinds {
		s.NS = ""
	}
	who := pick(d, []string{"user:" + a.Name, "user:" + d.Actors[0].Name, "sa:" + Home + "/" + Bot, "group:team" + Run, "user:" + Bystander})
	kind, name, _ := strings.Cut(who, ":")
	if s.Resource == policyBindings {
		role := map[string]any{"namespace": Home, "name": d.role(policyRoles)}
		if d.chance(20) {
			role = map[string]any{"namespace": "master", "name": pick(d, []string{"view", "edit", "admin", "cluster-admin"})}
		}
		s.Edits = []Edit{{"roleRef", role}}
		switch kind {
		case "group":
			s.Edits = append(s.Edits, Edit{"groupNames", []any{name}})
		case "sa":
			name = "system:serviceaccount:" + strings.Replace(name, "/", ":", 1)
			fallthrough
		default:
			s.Edits = append(s.Edits, Edit{"userNames", []any{name}})
		}
		return d.add(s), true
	}
	subject := map[string]any{"kind": map[string]string{"user": "User", "group": "Group", "sa": "ServiceAccount"}[kind], "name": name}
	if kind == "sa" {
		subject["namespace"], subject["name"], _ = strings.Cut(name, "/")
	} else {
		subject["apiGroup"] = "rbac.authorization.k8s.io"
	}
	role := map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": d.role(rbacRoles)}
	if s.Resource == clusterBinds || d.chance(40) {
		role["kind"], role["name"] = "ClusterRole", d.role(clusterRoles)
	}
	s.Edits = []Edit{{"roleRef", role}, {"subjects", []any{subject}}}
	return d.add(s), true
}

// role is the name of one that exists.
func (d *draw) role(resource string) string {
	var names []string
	for _, ref := range d.made[resource] {
		names = append(names, ref.Name, ref.Name)
	}
	how := map[string][]string{rbacRoles: {ByLocalRole}, clusterRoles: {ByClusterRole}, policyRoles: {ByNamespace}}[resource]
	for _, g := range d.Grants {
		if slices.Contains(how, g.How) && g.Role == "" {
			names = append(names, g.Name)
		}
	}
	if len(names) == 0 || resource == clusterRoles && d.chance(20) {
		return pick(d, []string{"view", "edit", "admin", "cluster-admin"})
	}
	return pick(d, names)
}

// unbind takes a binding away, or changes whom it binds: one of the beginning, mostly one that denies.
func unbind(d *draw, _ *Actor) (Step, bool) {
	g := pick(d, append([]Grant{{Name: "none"}}, d.Grants...))
	s := Step{Verb: pick(d, []string{"delete", "delete", "update"}), NS: g.NS, Name: g.Name}
	switch g.How {
	case ByNamespace:
		s.Resource = pick(d, []string{policyBindings, policyBindings, policyRoles, "policybindings.policy.proviso.dev", "policies.policy.proviso.dev"})
	case ByMaster:
		s.Resource, s.NS = policyBindings, "master"
	case ByLocalRole:
		s.Resource = rbacBindings
	default:
		return s, false
	}
	switch s.Resource {
	case "policybindings.policy.proviso.dev":
		s.Verb, s.Name = "delete", pick(d, []string{Home, "master"})
	case "policies.policy.proviso.dev":
		s.Verb, s.Name = "delete", "default"
	case policyRoles:
		s.Verb, s.Edits = "update", []Edit{{"rules", []any{}}}
	case policyBindings:
		s.Edits = []Edit{{"userNames", []any{Bystander}}, {"groupNames", nil}}
	default:
		s.Verb = "delete"
	}
	return s, true
}

// token gets a token of the service account: by asking for one, or by having one written to a secret.
func token(d *draw, _ *Actor) (Step, bool) {
	if d.chance(25) {
		s := Step{Verb: "create", Resource: "secrets", NS: Home, Name: d.fresh("t"), Edits: []Edit{{"type", "kubernetes.io/service-account-token"},
			{"metadata annotations kubernetes.io/service-account.name", Bot}, {"data", nil}}}
		return d.add(s), true
	}
	return Step{Verb: "create", Resource: "serviceaccounts/token", NS: Home, Name: Bot}, true
}

// touchAs does something to a prey as another identity.
func touchAs(d *draw, a *Actor) (Step, bool) {
	s, ok := touch(d, a)
	s.As = pick(d, []string{"token:" + Home + "/" + Bot, "token:" + Home + "/" + Bot, "user:" + d.Actors[0].Name, "user:" + "system:serviceaccount:" + Home + ":" + Bot})
	return s, ok
}

// inquire asks what a user may do, with everything that a review can tell.
func inquire(d *draw, a *Actor) (Step, bool) {
	p := pick(d, d.Prey)
	r, _ := d.catalog.Find(p.Resource)
	who := pick(d, []string{a.Name, d.Actors[0].Name, Bystander})
	verb := pick(d, []string{"get", "update", "delete", "create"})
	attributes := map[string]any{"namespace": p.NS, "verb": verb, "group": r.Group, "version": r.Version, "resource": r.Plural, "name": p.Name}
	s := Step{Verb: "create"}
	switch d.IntN(5) {
	case 0:
		s.Resource, s.Edits = "selfsubjectaccessreviews.authorization.k8s.io", []Edit{{"spec resourceAttributes", attributes}, {"spec conditionalAuthorization", map[string]any{"mode": pick(d, []string{"HumanReadable", "Optimized"})}}}
	case 1:
		s.Resource, s.Edits = "subjectaccessreviews.authorization.k8s.io", []Edit{{"spec user", who}, {"spec resourceAttributes", attributes}, {"spec conditionalAuthorization", map[string]any{"mode": "HumanReadable"}}}
	case 2:
		s.Resource, s.NS, s.Edits = "resourceaccessreviews.authorization.proviso.dev", Home, []Edit{{"spec", map[string]any{"verb": verb, "resourceKind": r.String(), "includeBlocked": true}}}
	default:
		s.Resource, s.NS, s.Edits = "subjectaccessreviews.authorization.proviso.dev", Home, []Edit{{"spec verb", verb}, {"spec resourceKind", r.String()}, {"spec trace", true}}
		if d.chance(50) {
			s.Edits = append(s.Edits, Edit{"spec userName", who})
		}
	}
	return s, true
}

// burden writes a role whose conditions are work.
func burden(d *draw, _ *Actor) (Step, bool) {
	s := Step{Verb: "create", Resource: policyRoles, NS: Home, Name: d.fresh("r")}
	rule := map[string]any{"verbs": []any{"create", "update"}, "resourceKinds": []any{"configmaps"}}
	rules := []any{rule}
	switch d.IntN(4) {
	case 0:
		depth := 20 + d.IntN(240)
		rule["when"] = "size(" + strings.Repeat("[", depth) + "1" + strings.Repeat("]", depth) + ") == 1"
	case 1:
		rule["when"] = strings.Repeat("(", 30+d.IntN(200)) + "true" // closed below
		rule["when"] = rule["when"].(string) + strings.Repeat(")", strings.Count(rule["when"].(string), "("))
	case 2:
		rule["when"] = "true" + strings.Repeat(" && request.user != 'x'", 10+d.IntN(400))
	case 3:
		rule["deny"], rule["verbs"], rule["where"] = true, []any{"update"}, "resource.metadata.name == 'x'"
		for range d.IntN(1500) {
			rules = append(rules, rule)
		}
	}
	s.Edits = []Edit{{"rules", rules}}
	return d.add(s), true
}

// anything is any request that the server serves.
func anything(d *draw, _ *Actor) (Step, bool) {
	r := pick(d, d.catalog)
	if strings.HasPrefix(r.Group, "admissionregistration") || strings.HasPrefix(r.Group, "apiregistration") || strings.HasPrefix(r.Group, "flowcontrol") {
		return Step{}, false // a user who may write these is trusted with everybody's requests
	}
	s := Step{Resource: r.String(), NS: Home, Name: d.fresh("m")}
	if !r.Namespaced {
		s.NS = ""
	}
	if len(r.Subs) > 0 && d.chance(30) {
		s.Resource += "/" + pick(d, r.Subs)
	}
	s.Verb = pick(d, append([]string{"get"}, r.Verbs...))
	if s.Verb == "watch" {
		s.Verb = "list"
	}
	switch s.Verb {
	case "create":
		if !strings.Contains(s.Resource, "/") {
			d.add(s)
		}
	case "list", "deletecollection":
		s.Name = ""
	default:
		if ref, ok := d.target(r.String()); ok {
			s.Name, s.NS = ref.Name, ref.NS
		}
		if s.Verb == "update" || s.Verb == "patch" {
			s.Edits = []Edit{d.edit()}
		}
	}
	if s.Verb == "deletecollection" && s.NS == "" {
		return s, false // what others need
	}
	return s, true
}
