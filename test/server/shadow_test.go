package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/request/shadow"
)

// shadows reads what is not enforced, by name.
func (f *fieldWorld) shadows(t *testing.T, namespace string) map[string]authz.ShadowRule {
	t.Helper()
	a := f.admin(t, http.MethodGet, "/apis/authorization.proviso.dev/v1alpha1/namespaces/"+namespace+"/shadowrules", jsonBody, "")
	text, err := json.Marshal(a.body)
	if err != nil {
		t.Fatal(err)
	}
	var list authz.ShadowRuleList
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	all := map[string]authz.ShadowRule{}
	for _, r := range list.Items {
		all[r.Name] = r
	}
	return all
}

// annotation waits for an annotation of the audit event of an answer.
func (f *fieldWorld) annotation(t *testing.T, a answer, key string) (value string) {
	t.Helper()
	f.s.await("the audit event", func() (bool, error) {
		f.audited.mu.Lock()
		defer f.audited.mu.Unlock()
		annotations, there := f.audited.annotations[a.auditID]
		value = annotations[key]
		return there, nil
	})
	return value
}

// notEnforced: rules, protected attributes and field permissions that are not enforced decide nothing, and what they
// would have decided is recorded (TR-6).
func (f *fieldWorld) notEnforced(t *testing.T) {
	const maps, group = "/api/v1/namespaces/shade/configmaps", "/apis/authorization.proviso.dev/v1alpha1/namespaces/shade/"
	f.apply(t, "/api/v1/namespaces/shade", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shade"}}`)
	f.admin(t, http.MethodPost, "/apis/policy.proviso.dev/v1alpha1/namespaces/shade/policies", jsonBody, `{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"Policy","metadata":{"name":"default"}}`)
	f.admin(t, http.MethodPost, "/apis/policy.proviso.dev/v1alpha1/namespaces/shade/policybindings", jsonBody, `{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"PolicyBinding","metadata":{"name":"shade"}}`)
	role := `{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"Role","metadata":{"name":"maps"},"rules":[
		{"verbs":["*"],"resourceKinds":["configmaps"]},
		{"deny":true,"verbs":["create"],"resourceKinds":["configmaps"],"where":"\"secret\" in resource.?data.orValue({})","enforcement":"Warn","description":"no secrets in config maps"},
		{"deny":true,"verbs":["delete"],"resourceKinds":["configmaps"],"enforcement":"Shadow"},
		{"verbs":["get"],"resourceKinds":["secrets"],"enforcement":"Warn"},
		{"verbs":["create"],"resourceKinds":["secrets"],"where":"resource.type == \"a\"","enforcement":"Shadow"}]}`
	f.apply(t, group+"roles/maps", role)
	f.apply(t, group+"rolebindings/maps", `{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"RoleBinding","metadata":{"name":"maps"},"roleRef":{"name":"maps"},"userNames":["sam"]}`)
	f.apply(t, "/apis/policy.proviso.dev/v1alpha1/namespaces/shade/protectedattributes/tier",
		`{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"ProtectedAttribute","metadata":{"name":"tier"},"attributeKind":"Label","attributeName":"tier","roleRef":{"kind":"ClusterRole","name":"nobody"},"enforcement":"Warn"}`)
	f.declare(t, "shaded", `{"resources":["configmaps"],"field":".immutable","permission":"example.com/immutable","exclusive":true,"enforcement":"Shadow"}`)
	f.settled(t, "what is not enforced", func() bool { return len(f.shadows(t, "shade")) == 5 && len(f.shadows(t, "master")) == 1 })
	f.settled(t, "sam's role", func() bool { return f.as(t, "sam", http.MethodGet, maps, jsonBody, "").code == 200 })

	create := func(name, body string) answer {
		return f.as(t, "sam", http.MethodPost, maps, jsonBody, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"`+name+`"`+body)
	}
	// Nothing is refused by what is not enforced, and nothing is allowed.
	plain := create("plain", `},"data":{}}`)
	allowed(t, "a plain config map", plain)
	leaky := create("leaky", `},"data":{"secret":"1"}}`)
	allowed(t, "a config map that a rule would deny", leaky)
	tiered := create("tiered", `,"labels":{"tier":"gold"}},"data":{}}`)
	allowed(t, "a label that would be protected", tiered)
	fixed := create("fixed", `},"data":{},"immutable":true}`)
	allowed(t, "a field that would be exclusive", fixed)
	gone := f.as(t, "sam", http.MethodDelete, maps+"/plain", jsonBody, "")
	allowed(t, "a delete that a rule would deny", gone)
	secret := f.as(t, "sam", http.MethodGet, "/api/v1/namespaces/shade/secrets/x", jsonBody, "")
	refused(t, "a get that a rule would allow", secret, "secrets")
	refused(t, "a create that a rule could allow", f.as(t, "sam", http.MethodPost, "/api/v1/namespaces/shade/secrets", jsonBody, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"type":"a"}`), "secrets")

	// What would have become of them.
	for name, want := range map[string][4]int64{ // applied, would allow, would deny, undecided
		"role.maps.1": {4, 0, 1, 0}, "role.maps.2": {1, 0, 1, 0}, "role.maps.3": {1, 1, 0, 0}, "role.maps.4": {1, 0, 0, 1}, "protectedattribute.tier": {1, 0, 1, 0},
	} {
		s := f.shadows(t, "shade")[name].Status
		if got := [4]int64{s.Applied, s.WouldAllow, s.WouldDeny, s.Undecided}; got != want {
			t.Errorf("%s: counted %v, want %v", name, got, want)
		}
		if len(s.Flips) != 1 || s.Flips[0].User != "sam" || s.Flips[0].Namespace != "shade" || s.Since.IsZero() {
			t.Errorf("%s: flips %+v since %v", name, s.Flips, s.Since)
		}
	}
	if s := f.shadows(t, "master")["fieldpermission.shaded"].Status; s.WouldDeny != 1 || len(s.Flips) != 1 {
		t.Errorf("the field permission: %+v", s)
	}
	// In the audit event, in metrics and, where it says so, as a warning.
	if got := f.annotation(t, leaky, shadow.AnnotationPrefix+"role.shade.maps.1"); got != "would be denied" {
		t.Errorf("the audit event says %q", got)
	}
	if got := f.annotation(t, plain, shadow.AnnotationPrefix+"role.shade.maps.1"); got != "" {
		t.Errorf("of a request that the rule would not have changed the audit event says %q", got)
	}
	if !strings.Contains(leaky.warning, "will be denied once rule 1 of role") || !strings.Contains(leaky.warning, "no secrets in config maps") {
		t.Errorf("the warning is %q", leaky.warning)
	}
	if !strings.Contains(tiered.warning, `ProtectedAttribute \"tier\"`) {
		t.Errorf("the warning is %q", tiered.warning)
	}
	// Who is refused is not told which rule would let him in.
	if !strings.Contains(secret.warning, "would allow this request") || strings.Contains(secret.warning, "maps") {
		t.Errorf("the warning is %q", secret.warning)
	}
	if gone.warning != "" || plain.warning != "" || fixed.warning != "" {
		t.Errorf("warnings of what does not warn, or does not apply: %q %q %q", gone.warning, plain.warning, fixed.warning)
	}
	if a := f.as(t, "admin", http.MethodGet, "/metrics", "", ""); !strings.Contains(a.message, `proviso_shadow_flips_total{rule="role.shade.maps.1",would="Deny"} 1`) {
		t.Error("the metrics do not have the flip")
	}
	// It is a right to know, and a right to write: the same as if it was enforced.
	refused(t, "reading flips without the right to", f.as(t, "sam", http.MethodGet, group+"shadowrules", jsonBody, ""), "shadowrules")
	f.grant(t, "wendy", []string{"authorization.proviso.dev"}, []string{"roles"}, "get", "create", "update", "patch", "delete")
	write := func(rule string) answer {
		return f.as(t, "wendy", http.MethodPost, group+"roles", jsonBody, `{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"Role","metadata":{"name":"hers"},"rules":[`+rule+`]}`)
	}
	f.settled(t, "wendy's rights", func() bool {
		return write(`{"verbs":["get"],"resourceKinds":["roles.authorization.proviso.dev"],"enforcement":"Shadow"}`).code == 201
	})
	f.as(t, "wendy", http.MethodDelete, group+"roles/hers", jsonBody, "")
	refused(t, "a shadow of what she does not hold", write(`{"verbs":["get"],"resourceKinds":["secrets"],"enforcement":"Shadow"}`), "cannot grant what they do not hold")
	refused(t, "a shadow of a deny", write(`{"deny":true,"verbs":["get"],"resourceKinds":["roles.authorization.proviso.dev"],"enforcement":"Shadow"}`), "needs the verb deny")
	// Enforced, it takes effect; and what was counted is gone with it.
	f.apply(t, group+"roles/maps", strings.ReplaceAll(strings.ReplaceAll(role, `"enforcement":"Warn",`, ``), `,"enforcement":"Shadow"`, `,"enforcement":"Enforce"`))
	f.settled(t, "the rule", func() bool { return create("late", `},"data":{"secret":"1"}}`).code == 403 })
	f.settled(t, "the rules that are enforced to go", func() bool {
		all := f.shadows(t, "shade")
		_, denies := all["role.maps.1"]
		_, deletes := all["role.maps.2"]
		return !denies && !deletes
	})
}
