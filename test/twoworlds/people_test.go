package twoworlds

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/engine/narrowedtoken"
)

const (
	// everything is a template that only a caller with a token has: the token alone hides.
	everything = "everything"
	// asker is the template of a caller who may ask for access, and see what they have asked for.
	asker = "asks"
	// binder is the template of a caller who may write roles and bindings in one namespace, and not ask who can do
	// what.
	binder = "binds"
	// reviewer is the template of a caller who may ask what others may do in one namespace, and not read roles.
	reviewer = "reviews"

	askers, approvers = "askers", "approvers"
	accessRoot        = "/apis/access.proviso.dev/v1alpha1/"
	requestsHome      = accessRoot + "namespaces/home/accessrequests"
	bobs              = "bobs"
	bobsReason        = "what-bob-is-up-to"
)

// linkTemplates are what the links of a narrowed token are made of. Secrets and workloads have to be named (TK-4).
var linkTemplates = map[string]template{
	"link-a":     {rules: rule(everyVerb, "KINDS", teamA), reaches: ofTeamA},
	"link-reads": {rules: `[{"verbs": ["get", "list", "watch"], "resourceKinds": [KINDS]}]`, reaches: func(Object) bool { return true }},
	"link-star":  {rules: `[{"verbs": ["*"], "resourceKinds": ["*"]}]`, reaches: func(Object) bool { return true }},
	"link-not-b": {rules: `[{"verbs": [` + writeVerbs + `], "resourceKinds": [KINDS]}, {"deny": true, "verbs": [` + writeVerbs + `], "resourceKinds": [KINDS], "where": "resource.metadata.labels.team == \"b\""}]`, reaches: notTeamB},
	"link-home":  {rules: `[{"verbs": [` + everyVerb + `], "resourceKinds": [KINDS], "namespaces": ["home"]}]`, reaches: func(o Object) bool { return o.NS == home }},
	"link-named": {rules: `[{"verbs": [` + everyVerb + `], "resourceKinds": [KINDS], "resourceNames": ["ours1"]}]`, reaches: func(o Object) bool { return o.Name == "ours1" }},
	"link-match": {rules: rule(everyVerb, "KINDS", `resource.metadata.labels.team.matches(\"^[a]$\")`), reaches: ofTeamA},
}

const (
	writeVerbs = `"create", "update", "patch", "delete", "deletecollection"`
	everyVerb  = `"get", "list", "watch", ` + writeVerbs
)

func init() {
	templates[everything] = template{rules: `[{"verbs": [` + everyVerb + `], "resourceKinds": [KINDS]}]`, reaches: func(Object) bool { return true }, verbs: append(slices.Clone(reads), writes...)}
	templates[asker] = template{asks: true, reaches: func(Object) bool { return false }, verbs: []string{"request", "request", "ask"}}
	templates[binder] = template{local: map[string]string{home: `[{"verbs": ["get", "create", "update", "bind", "escalate", "deny"], "resourceKinds": ["roles.authorization.proviso.dev", "rolebindings.authorization.proviso.dev"]}]`},
		reaches: func(Object) bool { return false }, verbs: []string{"bind"}}
	templates[reviewer] = template{local: map[string]string{home: `[{"verbs": ["create"], "resourceKinds": ["localsubjectaccessreviews.authorization.k8s.io"]}]`},
		reaches: func(Object) bool { return false }, verbs: []string{"review", "review"}}
}

// review asks what bob may do, whose rights have other conditions in the other world.
func (d *draw) review() Step {
	who := "nobody"
	if d.Change.What == changeRules {
		who = "bob"
	}
	spec := object{"user": who, "groups": []any{"system:authenticated"}, "resourceAttributes": object{"verb": pick(d, "get", "list", "create", "update", "delete"), "version": "v1",
		"resource": pick(d, "configmaps", "secrets"), "namespace": home, "name": pick(d, "", "ours1", "mark")}}
	switch d.IntN(5) {
	case 0, 1:
		spec["conditionalAuthorization"] = object{"mode": pick(d, "HumanReadable", "Optimized")}
	case 2, 3:
		spec["authorizationOptions"] = object{"handledDecisionTypes": []any{"Allow", "Deny", "NoOpinion", "ConditionsMap", "Union"}}
	}
	return Step{Method: "POST", Path: "/apis/authorization.k8s.io/v1/namespaces/home/localsubjectaccessreviews", Type: jsonType,
		Body: text(object{"metadata": object{"namespace": home}, "spec": spec}), Accept: pick(d, "", "", yamlType, cborType)}
}

// bobsRules makes what the worlds differ in: who looks at the roles sees it, and nobody else does.
func (w *world) bobsRules() {
	rule := func(name, more string) object {
		return object{"verbs": []any{"get", "list", "create", "update", "delete"}, "resourceKinds": []any{"configmaps", "secrets"}, "description": bobsReason,
			"where": `resource.metadata.name == "` + bobsReason + name + `"` + more}
	}
	rules := []any{rule("", "")}
	if w.second {
		rules = []any{rule("-2", ` && resource.metadata.labels.team == "b"`), rule("-3", ""), rule("-4", "")}
	}
	w.bound++
	settled := fmt.Sprintf("bobs-%d", w.bound)
	w.must("POST", master+"roles", object{"metadata": named("bobs"), "rules": rules})
	w.must("POST", master+"rolebindings", object{"metadata": named("bobs"), "roleRef": object{"namespace": "master", "name": "bobs"}, "userNames": []any{"bob"}})
	w.must("POST", master+"rolebindings", object{"metadata": named(settled), "roleRef": object{"namespace": "master", "name": "mark"}, "userNames": []any{settled}})
	w.settled(settled)
	w.sudo("DELETE", master+"rolebindings/"+settled, nil)
}

const keptRole = `[{"deny": true, "verbs": ["delete"], "resourceKinds": ["configmaps"], "attributeRestrictions": {"labelsContain": ["team"]}}]`

// bind writes roles and bindings for bob, and leaves none.
func (d *draw) bind() Step {
	bound := text(object{"metadata": named("bound"), "roleRef": object{"namespace": home, "name": "kept"}, "userNames": []any{pick(d, "bob", "bob", "nobody")}})
	deny := strings.Replace(keptRole, `"delete"`, pick(d, `"delete"`, `"get", "delete"`, `"update"`), 1)
	switch d.IntN(3) {
	case 0:
		return Step{Method: "POST", Path: bindings, Type: jsonType, Query: "dryRun=All", Body: bound}
	case 1:
		return Step{Method: "PATCH", Path: policyHome + "roles/kept", Type: mergeType, Query: "dryRun=All", Body: `{"rules": ` + deny + `}`}
	}
	return Step{Method: "POST", Path: policyHome + "roles", Type: jsonType, Query: "dryRun=All", Body: `{"metadata": {"name": "more"}, "rules": ` + deny + `}`}
}

const (
	policyHome = "/apis/authorization.proviso.dev/v1alpha1/namespaces/home/"
	bindings   = policyHome + "rolebindings"
)

// actors picks one sort of caller for every case: tokens, grants, askers, binders or reviewers.
var actors = os.Getenv("TWOWORLDS_ACTORS")

// people makes some callers such that carry a token, act by what they were granted, or ask.
func (d *draw) people() {
	n := d.IntN(100)
	switch {
	case actors == "tokens" || actors == "" && n < 8:
		if d.chance(50) {
			d.Caller = []string{everything}
		}
		names := []string{"link-a", "link-home", "link-match", "link-named", "link-not-b", "link-reads", "link-star"}
		for range 1 + d.IntN(2) {
			d.Links = append(d.Links, pick(d, names...))
		}
	case actors == "grants" || actors == "" && n < 13:
		for _, name := range d.Caller {
			if t := templates[name]; t.rules != "" {
				d.Granted = append(d.Granted, name)
			}
		}
	case actors == "askers" || actors == "" && n < 18:
		if !slices.Contains(d.Caller, asker) {
			d.Caller = append(d.Caller, asker)
		}
	case actors == "binders" || actors == "" && n < 21:
		if !slices.Contains(d.Caller, binder) {
			d.Caller = append(d.Caller, binder)
		}
	case actors == "reviewers" || actors == "" && n < 24:
		if !slices.Contains(d.Caller, reviewer) {
			d.Caller = append(d.Caller, reviewer)
		}
	}
}

// aboutRequests tells the changes of what another user has asked for.
func aboutRequests(what string) bool { return strings.HasPrefix(what, changeRequest) }

// request is about access requests: those of the caller, and those of bob, which they may not see.
func (d *draw) request() Step {
	name := pick(d, bobs, bobs, "mine")
	at := requestsHome + "/" + name
	accept := ""
	if d.chance(25) {
		accept = pick(d, tableType, metaType, yamlType)
	}
	switch d.IntN(9) {
	case 0, 1:
		return Step{Method: "GET", Path: pick(d, requestsHome, accessRoot+"accessrequests", accessRoot+"namespaces/other/accessrequests", accessRoot+"accessrules"), Query: pick(d, "", "limit=1", "resourceVersion=0", "fieldSelector=metadata.name%3D"+bobs), Accept: accept}
	case 2:
		return Step{Method: "GET", Path: at, Query: pick(d, "", "resourceVersion=0"), Accept: accept}
	case 3:
		return Step{Method: "DELETE", Path: pick(d, at, at, requestsHome), Query: pick(d, "", "dryRun=All")}
	case 4:
		return Step{Method: "PATCH", Path: at, Type: mergeType, Body: `{"metadata":{"labels":{"more":"x"}}}`, Query: pick(d, "", "dryRun=All")}
	case 5:
		return Step{Method: "POST", Path: at + pick(d, "/approval", "/revocation"), Type: jsonType, Query: pick(d, "", "dryRun=All"),
			Body: text(object{"apiVersion": "access.proviso.dev/v1alpha1", "kind": "AccessDecision", "requestUID": pick(d, nobodys, nobodys, ""), "decision": pick(d, "Approve", "Deny", "")})}
	case 6:
		if d.chance(20) { // it ends by itself
			return Step{Method: "GET", Path: requestsHome, Query: "watch=1&timeoutSeconds=1" + pick(d, "", "&resourceVersion=$rv:0"), Meanwhile: true}
		}
		return Step{Method: "POST", Path: "/apis/authorization.proviso.dev/v1alpha1/namespaces/home/" + pick(d, "resourceaccessreviews", "subjectaccessreviews"), Type: jsonType,
			Body: text(object{"spec": object{"verb": "get", "resourceKind": "configmaps"}})}
	}
	return Step{Method: "POST", Path: requestsHome, Type: jsonType, Query: pick(d, "", "dryRun=All", "dryRun=All"), Body: text(asking(name, pick(d, "ask", "ask", "ask", "nosuch"), "mine"))}
}

func asking(name, rule, reason string) object {
	return object{"apiVersion": "access.proviso.dev/v1alpha1", "kind": "AccessRequest", "metadata": named(name),
		"spec": object{"ruleRef": named(rule), "durationSeconds": 36000, "reason": reason}}
}

// soon gives up unless a request that has not succeeded may do so when the server knows more.
func (w *world) soon(r *reply, done bool) bool {
	if !done && r.code != http.StatusForbidden {
		panic(unsettled(r.String()))
	}
	return done
}

// peopled installs what those who ask, and those who approve, need.
func (w *world) peopled() {
	verbs := func(verb string, resources ...any) object {
		return object{"verbs": []any{verb}, "apiGroups": []any{"access.proviso.dev"}, "resources": resources}
	}
	w.must("POST", rbacRoot+"clusterroles", object{"metadata": named(approvers), "rules": []any{verbs("create", "accessrequests/approval"), verbs("approve", "accessrules")}})
	w.must("POST", rbacRoot+"clusterrolebindings", object{"metadata": named(approvers), "roleRef": object{"apiGroup": rbacGroup, "kind": "ClusterRole", "name": approvers},
		"subjects": []any{object{"apiGroup": rbacGroup, "kind": "Group", "name": approvers}}})
	w.groups["approver"], w.groups["bob"] = []string{approvers}, []string{askers}
	w.rule("ask", askers, object{"apiGroup": rbacGroup, "kind": "ClusterRole", "name": "view"}, home, other)
	w.rule("may-mark", "may-mark", object{"namespace": "master", "name": "mark"}, "master")
}

// rule lets a group ask for a role. The server takes it once it knows the role.
func (w *world) rule(name, group string, role object, namespaces ...string) {
	many := 1000
	body := object{"apiVersion": "access.proviso.dev/v1alpha1", "kind": "AccessRule", "metadata": named(name), "spec": object{"subjects": object{"groupNames": []any{group}}, "roleRef": role, "namespaces": namespaces,
		"maxDurationSeconds": 86400, "limits": object{"active": many, "perDay": many}, "approvals": object{"count": 1, "subjects": object{"groupNames": []any{approvers}}}}}
	w.poll("rule "+name, func() bool {
		code, out := w.sudo("POST", accessRoot+"accessrules", body)
		if message, _ := out["message"].(string); code == http.StatusUnprocessableEntity && !strings.Contains(message, "there is no such") {
			panic(unsettled(message))
		}
		return code == http.StatusCreated || code == http.StatusConflict
	})
}

// asked makes a request of a user, and has it approved if that is wanted. The server takes both once it knows the rule.
func (w *world) asked(user, ns, name, rule, reason string, approve bool) {
	at := accessRoot + "namespaces/" + ns + "/accessrequests"
	uid := ""
	w.poll("the request of "+user, func() bool {
		r := w.send(user, Step{Method: "POST", Path: at, Type: jsonType, Body: text(asking(name, rule, reason))})
		meta, _ := r.raw["metadata"].(object)
		uid, _ = meta["uid"].(string)
		return w.soon(r, r.code == http.StatusCreated)
	})
	if !approve {
		return
	}
	w.poll("the approval of what "+user+" asks for", func() bool {
		r := w.send("approver", Step{Method: "POST", Path: at + "/" + name + "/approval", Type: jsonType,
			Body: text(object{"apiVersion": "access.proviso.dev/v1alpha1", "kind": "AccessDecision", "requestUID": uid, "decision": "Approve"})})
		return w.soon(r, r.code == http.StatusCreated)
	})
}

// granted are the templates that the caller has by access requests.
func (c *Case) granted() []string {
	return slices.DeleteFunc(slices.Clone(c.Granted), func(name string) bool { return !slices.Contains(c.Caller, name) })
}

// grant gives a user the role of a template by access requests, and waits until it counts.
func (w *world) grant(user string, names []string) {
	for _, name := range append(slices.Clone(names), "mark") {
		role := object{"namespace": "master", "name": "t-" + name}
		if name != "mark" {
			w.rule("may-"+name, "may-"+name, role, "master")
		}
		w.groups[user] = append(w.groups[user], "may-"+name)
		w.asked(user, "master", user+"-"+name, "may-"+name, "a grant", true)
	}
	w.settled(user)
}

// bobAsks makes what the worlds differ in.
func (w *world) bobAsks(what string) {
	reason := bobsReason
	switch {
	case what == changeRequest && !w.second:
		return
	case what == changeRequestReason && w.second:
		reason += "-2"
	}
	w.asked("bob", home, bobs, "ask", reason, what == changeRequestState && w.second)
}

// tokenAge is when a caller asks for a new token. Those of a front proxy live for an hour.
const tokenAge = 20 * time.Minute

// carry gives a caller a token with the links of the case: the first one by the server, the others offline.
func (w *world) carry(c *Case, user string) {
	if len(c.Links) == 0 || time.Since(w.issued[user]) < tokenAge {
		return
	}
	delete(w.tokens, user)
	rules := func(name string) json.RawMessage {
		return json.RawMessage(strings.ReplaceAll(linkTemplates[name].rules, "KINDS", allKinds))
	}
	var token string
	w.poll("a token of "+user, func() bool {
		r := w.send(user, Step{Method: "POST", Path: accessRoot + "narrowedtokens", Type: jsonType, Body: text(object{"apiVersion": "access.proviso.dev/v1alpha1", "kind": "NarrowedToken",
			"spec": object{"rules": rules(c.Links[0]), "expirationSeconds": 3600, "includeGrants": len(c.Granted) > 0}})})
		status, _ := r.raw["status"].(object)
		token, _ = status["token"].(string)
		return w.soon(r, token != "")
	})
	for _, name := range c.Links[1:] {
		var link []accessv1alpha1.TokenRule
		err := json.Unmarshal(rules(name), &link)
		if err == nil {
			token, err = narrowedtoken.Attenuate(token, narrowedtoken.Link{Rules: link})
		}
		if err != nil {
			panic(err) // a constant of this test
		}
	}
	w.tokens[user], w.issued[user] = token, time.Now()
}
