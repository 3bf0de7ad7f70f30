package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// samples are valid objects of every kind of ours, and of the reviews that we answer, by where they are posted.
var samples = []struct{ path, object string }{
	{"/apis/authorization.proviso.dev/v1alpha1/namespaces/default/roles", `{apiVersion: authorization.proviso.dev/v1alpha1, kind: Role, metadata: {name: r, labels: {a: b}}, rules: [
  {verbs: ["*", "-delete"], resourceKinds: [persistentvolumeclaims], where: resource.spec.storageClassName == "dev", apiVersion: v1},
  {deny: true, verbs: [update], apiGroups: [apps], resourceKinds: [deployments.apps], resourceNames: [a], attributeRestrictions: {fieldsMutable: [.metadata.labels], labelsContain: [protected]}, description: d},
  {verbs: [create], resourceKinds: [configmaps], when: 'request.user == "x"'}]}`},
	{"/apis/authorization.proviso.dev/v1alpha1/namespaces/default/rolebindings", `{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: b}, roleRef: {namespace: default, name: known}, userNames: [u], groupNames: [g]}`},
	{"/apis/policy.proviso.dev/v1alpha1/namespaces/empty/policies", `{apiVersion: policy.proviso.dev/v1alpha1, kind: Policy, metadata: {name: default}}`},
	{"/apis/policy.proviso.dev/v1alpha1/namespaces/empty/policybindings", `{apiVersion: policy.proviso.dev/v1alpha1, kind: PolicyBinding, metadata: {name: empty}, policyRef: {namespace: empty}}`},
	{"/apis/authorization.proviso.dev/v1alpha1/namespaces/default/resourceaccessreviews", `{apiVersion: authorization.proviso.dev/v1alpha1, kind: ResourceAccessReview, spec: {verb: update, resourceKind: deployments.apps, resourceName: web, includeBlocked: true}}`},
	{"/apis/authorization.proviso.dev/v1alpha1/namespaces/default/subjectaccessreviews", `{apiVersion: authorization.proviso.dev/v1alpha1, kind: SubjectAccessReview, spec: {verb: create, resourceKind: configmaps, userName: edgar, resourceName: c, content: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: b}}}}`},
	{"/apis/policy.proviso.dev/v1alpha1/fieldpermissions", `{apiVersion: policy.proviso.dev/v1alpha1, kind: FieldPermission, metadata: {name: f}, spec: {resources: [pods, deployments.apps], field: ".metadata.labels[]", permission: example.com/mark, parameter: {from: key, treatment: slash-delimited-prefix}, exclusive: true, exclusiveWhen: self == "x"}}`},
	{"/apis/policy.proviso.dev/v1alpha1/clusterprotectedattributes", `{apiVersion: policy.proviso.dev/v1alpha1, kind: ClusterProtectedAttribute, metadata: {name: c}, attributeKind: Label, attributeName: env, protectedValues: [prod], scope: IncludeTemplates, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}}`},
	{"/apis/policy.proviso.dev/v1alpha1/namespaces/default/protectedattributes", `{apiVersion: policy.proviso.dev/v1alpha1, kind: ProtectedAttribute, metadata: {name: p}, attributeKind: Annotation, attributeName: example.com/a, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}}`},
	{"/apis/auditregistration.k8s.io/v1alpha1/auditsinks", `{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditSink, metadata: {name: s}, spec: {policy: {level: Request, rules: [{withAuditClass: c, level: Metadata}]}, webhook: {throttle: {qps: 10, burst: 15}, clientConfig: {url: "https://sink.example.com/x"}}}}`},
	{"/apis/auditregistration.k8s.io/v1alpha1/auditclasses", `{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditClass, metadata: {name: c}, spec: {rules: [{subjects: [{type: UserGroup, names: ["system:masters"]}], verbs: [create]}, {groupResourceSelectors: [{group: "", resources: [{kind: secrets, objectNames: [a]}], scope: Namespaced, namespaces: [{name: kube-system}]}]}, {nonResourceSelectors: {urls: ["/api*"]}}]}}`},
	{"/apis/authorization.k8s.io/v1/subjectaccessreviews", `{apiVersion: authorization.k8s.io/v1, kind: SubjectAccessReview, spec: {user: alice, groups: [g], extra: {a: [b]}, resourceAttributes: {verb: create, group: "", version: v1, resource: persistentvolumes, labelSelector: {requirements: [{key: a, operator: In, values: [b]}]}}, conditionalAuthorization: {mode: HumanReadable}}}`},
	{"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", `{apiVersion: authorization.k8s.io/v1, kind: SelfSubjectAccessReview, spec: {nonResourceAttributes: {verb: get, path: /x}, conditionalAuthorization: {mode: Optimized}}}`},
	{"/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews", `{apiVersion: authorization.k8s.io/v1, kind: LocalSubjectAccessReview, metadata: {namespace: default}, spec: {user: alice, resourceAttributes: {namespace: default, verb: create, resource: pods}, conditionalAuthorization: {mode: HumanReadable}}}`},
	{"/apis/authorization.k8s.io/v1alpha1/authorizationconditionsreviews", `{apiVersion: authorization.k8s.io/v1alpha1, kind: AuthorizationConditionsReview, request: {operation: CREATE, object: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}, conditionSet: {authorizerName: a, failureMode: Deny, conditions: [{id: x.com/a, effect: Allow, type: k8s.io/authorization-cel, condition: 'object.metadata.name == "c"'}]}}}`},
}

// TestBadInput replaces every part of every object of ours by what does not belong there and sends it to the real
// server: the answer is a decision or a 4xx, never a 500, and never a panic (SV-7).
func TestBadInput(t *testing.T) {
	t.Parallel()
	f := &fieldWorld{s: plain.get(t), clients: map[string]*http.Client{}}
	const own = "/apis/authorization.proviso.dev/v1alpha1/namespaces/default/"
	f.admin(t, http.MethodPost, "/api/v1/namespaces", jsonBody, `{"metadata":{"name":"empty"}}`)
	for path, name := range map[string]string{"policies": "default", "policybindings": "default"} {
		kind := map[string]string{"policies": "Policy", "policybindings": "PolicyBinding"}[path]
		f.admin(t, http.MethodPost, "/apis/policy.proviso.dev/v1alpha1/namespaces/default/"+path, jsonBody, fmt.Sprintf(`{"apiVersion":"policy.proviso.dev/v1alpha1","kind":%q,"metadata":{"name":%q}}`, kind, name))
	}
	f.admin(t, http.MethodPost, own+"roles", jsonBody, `{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"Role","metadata":{"name":"known"},"rules":[{"verbs":["get"],"resourceKinds":["pods"]}]}`)
	for _, sample := range samples {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(sample.object), &object); err != nil {
			t.Fatalf("%s: %v", sample.object, err)
		}
		t.Run(fmt.Sprint(object["apiVersion"], " ", object["kind"]), func(t *testing.T) {
			t.Parallel()
			f.mistreat(t, sample.path, object)
		})
	}
}

// alsoAccepted are shapes that a kind takes beside the one of its sample.
var alsoAccepted = map[string]bool{
	"AuditClass: spec.rules.1.groupResourceSelectors.0.namespaces.0 is text": true, // a name alone
	"AuditClass: spec.rules.2.nonResourceSelectors is list":                  true, // as the design's type reference has it
}

func (f *fieldWorld) mistreat(t *testing.T, path string, object map[string]any) {
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	post := func(body string) answer {
		t.Helper()
		a := f.as(t, "admin", http.MethodPost, path+"?dryRun=All&fieldValidation=Strict", jsonBody, body)
		if a.code >= 500 || a.code < 200 || a.code >= 400 && a.message == "" {
			t.Errorf("%.300s: %d %q", body, a.code, a.message)
		}
		return a
	}
	if a := post(string(text)); a.code >= 300 {
		t.Fatalf("the sample is not valid: %d %s", a.code, a.message)
	}
	all := mutations(object)
	accepted := 0
	for _, m := range all {
		a := post(m.body)
		if a.code < 300 {
			accepted++
		}
		if what := fmt.Sprintf("%s: %s", object["kind"], m.what); m.wrong && a.code < 400 && !alsoAccepted[what] {
			t.Errorf("%s was accepted", what)
		}
	}
	t.Logf("%d objects, %d of them valid after all", len(all), accepted)
	for what, body := range map[string]string{
		"cut off at once":         string(text[:1]),
		"cut off in the middle":   string(text[:len(text)/2]),
		"cut off at the end":      string(text[:len(text)-1]),
		"with its kind twice":     strings.Replace(string(text), `{"apiVersion"`, `{"kind":"Other","apiVersion"`, 1),
		"with nesting that bombs": strings.Repeat(`{"a":`, 20_000) + strings.Repeat("}", 20_000),
		"as a list":               "[" + string(text) + "]",
		"empty":                   "",
		"not JSON":                "\x00\xff",
	} {
		if a := post(body); a.code < 400 {
			t.Errorf("%s: %d", what, a.code)
		}
	}
}

// mutation is an object with one part replaced. wrong is set if it cannot be valid.
type mutation struct {
	what, body string
	wrong      bool
}

var hostile = map[string]any{
	"null": nil, "number": 7, "negative": -1, "text": "x", "empty text": "", "list": []any{}, "list of lists": []any{[]any{}}, "object": map[string]any{},
	"true": true, "long text": strings.Repeat("x", 20_000), "control characters": "a\x00b\u202e", "path": "../..", "nested CEL": strings.Repeat("[", 300) + strings.Repeat("]", 300),
	"CEL that loops": "[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, [1,2,3,4,5,6,7,8,9].all(e, request.user.size() > a)))))",
	"huge list":      slices.Repeat([]any{"x"}, 5_000), "huge map": hugeMap(5_000),
}

func hugeMap(n int) map[string]any {
	m := map[string]any{}
	for i := range n {
		m[fmt.Sprint("k", i)] = "v"
	}
	return m
}

// mutations replaces, at every place of an object, what is there by each hostile value, and adds an unknown field to
// every object. Metadata is upstream's to look after, and the content of reviews may be anything.
func mutations(object map[string]any) []mutation {
	var all []mutation
	var walk func(path []string, v any, set func(any))
	emit := func(what string, wrong bool) {
		text, err := json.Marshal(object)
		if err == nil {
			all = append(all, mutation{what, string(text), wrong})
		}
	}
	walk = func(path []string, v any, set func(any)) {
		at := strings.Join(path, ".")
		if at == "metadata" || at == "spec.content" || at == "request.object" {
			return
		}
		if len(path) > 0 {
			for _, name := range slices.Sorted(maps.Keys(hostile)) {
				set(hostile[name])
				emit(fmt.Sprintf("%s is %s", at, name), wrongType(v, hostile[name]))
			}
			set(v)
		}
		switch v := v.(type) {
		case map[string]any:
			if at != "spec.extra" {
				v["noSuchField"] = 1
				emit("an unknown field in "+at, true)
				delete(v, "noSuchField")
			}
			for _, key := range slices.Sorted(maps.Keys(v)) {
				before := v[key]
				walk(append(slices.Clone(path), key), before, func(x any) { v[key] = x })
				v[key] = before
			}
		case []any:
			for i := range v {
				before := v[i]
				walk(append(slices.Clone(path), fmt.Sprint(i)), before, func(x any) { v[i] = x })
				v[i] = before
			}
		}
	}
	walk(nil, object, func(any) {})
	return all
}

// wrongType reports whether a value can never stand where another one does.
func wrongType(good, bad any) bool {
	if bad == nil {
		return false
	}
	return fmt.Sprintf("%T", good) != fmt.Sprintf("%T", bad) && !(isNumber(good) && isNumber(bad))
}

func isNumber(v any) bool {
	switch v.(type) {
	case int, int64, float64:
		return true
	}
	return false
}
