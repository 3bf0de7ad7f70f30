package sidecar

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/features/policies"
	"proviso.dev/proviso/internal/hosts/sidecar/webhooks"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/discovery"
	"proviso.dev/proviso/internal/state/policycodec"
	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/internal/state/source"
)

const policy = `apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: small, namespace: team}
rules:
- {verbs: [create], resourceKinds: [configmaps], when: 'object.metadata.?labels.size.orValue("") == "small"'}
- {verbs: [update], resourceKinds: [configmaps], when: 'oldObject.metadata.?labels.size.orValue("") == "small"'}
- {verbs: [patch], resourceKinds: [configmaps]}
- {verbs: [delete, deletecollection], resourceKinds: [configmaps], when: 'oldObject.metadata.?labels.size.orValue("") == "small"'}
- {verbs: [create], resourceKinds: [pods/exec], when: 'options.?container.orValue("") == "app"'}
- {verbs: [get], resourceKinds: [configmaps, pods]}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: small, namespace: team}
roleRef: {namespace: team, name: small}
userNames: [anna]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: careful, namespace: team}
rules:
- {deny: true, verbs: [delete], resourceKinds: [configmaps], when: 'oldObject.metadata.?labels.size.orValue("") == "big"'}
- {deny: true, verbs: [update], resourceKinds: [secrets]}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: careful, namespace: team}
roleRef: {namespace: team, name: careful}
userNames: [rob, anna]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: all, namespace: team}
rules: [{apiGroups: [""], resources: ["*"], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: all, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: all}
subjects: [{kind: User, name: rob, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: nodes, namespace: master}
rules:
- {verbs: [create, update, patch, delete], resourceKinds: [nodes], when: 'true == (operation != "")'}
- {verbs: [create], resourceKinds: [namespaces], when: 'object.metadata.?labels.size.orValue("") == "small"'}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: nodes, namespace: master}
roleRef: {namespace: master, name: nodes}
userNames: [anna]
`

// world is a composition over files, for tests that need no cluster.
type world struct {
	*composed
	proof *stated
	// old is why the policy is too old to decide by.
	old string
}

// stated is an interlock that a test sets.
type stated struct{ err error }

func (*stated) Asked(string, string)                   {}
func (*stated) Admitted(nonce string) string           { return refusal(nonce) }
func (s *stated) Proven(context.Context, string) error { return s.err }
func (s *stated) Watched(string) error                 { return s.err }

func newWorld(t testing.TB, text string) *world {
	t.Helper()
	return newWorldAfter(t, text, webhooks.NewGranted(time.Now))
}

// newWorldAfter is one in which something was granted before.
func newWorldAfter(t testing.TB, text string, granted *webhooks.Granted) *world {
	t.Helper()
	return newWorldBy(t, text, granted, nil)
}

// newWorldBy is one that goes by a clock; nil is that of the machine.
func newWorldBy(t testing.TB, text string, granted *webhooks.Granted, clock snapshot.Clock) *world {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := source.ReadFiles(source.FilesConfig{Paths: []string{path}, MasterNamespace: "master", RoleBindings: policies.DefaultRoleBindings("master"), Roles: basicUser()})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{proof: &stated{}}
	w.composed, err = compose(parts{
		granted: granted, roles: filedRoles{files}, clock: clock,
		settings:   &settings{MasterNamespace: "master", Namespace: "proviso-system", ExemptUsers: []string{"system:kube-scheduler"}, ExemptGroups: []string{"system:nodes"}},
		kinds:      feature.Kinds{Builtin: allBuiltin{}},
		namespaces: authorize.NamespacesFunc(func(name string) (runtime.Object, error) { return files.Namespace(name) }), interlock: w.proof, age: w,
	})
	if err != nil {
		t.Fatal(err)
	}
	all := metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	core := &metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{
		{Name: "configmaps", Kind: "ConfigMap", Namespaced: true, Verbs: all}, {Name: "secrets", Kind: "Secret", Namespaced: true, Verbs: all}, {Name: "pods", Kind: "Pod", Namespaced: true, Verbs: all},
		{Name: "pods/exec", Kind: "PodExecOptions", Verbs: metav1.Verbs{"create", "get"}}, {Name: "pods/status", Kind: "Pod", Namespaced: true, Verbs: metav1.Verbs{"get", "patch", "update"}},
		{Name: "pods/proxy", Kind: "PodProxyOptions", Verbs: metav1.Verbs{"create", "delete", "get", "patch", "update"}}, {Name: "nodes", Kind: "Node", Verbs: all}, {Name: "namespaces", Kind: "Namespace", Verbs: all}}}
	reviews := &metav1.APIResourceList{GroupVersion: "authorization.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "selfsubjectaccessreviews", Kind: "SelfSubjectAccessReview", Verbs: metav1.Verbs{"create"}}}}
	ours := &metav1.APIResourceList{GroupVersion: authz.SchemeGroupVersion.String(), APIResources: []metav1.APIResource{{Name: "subjectaccessreviews", Kind: "SubjectAccessReview", Namespaced: true, Verbs: metav1.Verbs{"create"}}}}
	rbac := &metav1.APIResourceList{GroupVersion: "rbac.authorization.k8s.io/v1"}
	for name, kind := range rbacKinds {
		rbac.APIResources = append(rbac.APIResources, metav1.APIResource{Name: name, Kind: kind, Namespaced: !strings.HasPrefix(name, "cluster"), Verbs: all})
	}
	definitions, err := files.Objects(snapshot.Definitions)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.kernel.Served.Watch(discovery.World{Local: []*metav1.APIResourceList{core, reviews, ours, rbac}, Definitions: definitions}); err != nil {
		t.Fatal(err)
	}
	for _, s := range w.systems {
		if s.Parts != nil {
			parts, err := s.Parts(files)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.kernel.Store.Add(parts...); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.kernel.Store.Publish()
	if err := w.kernel.Store.Ready(); err != nil {
		t.Fatal(err)
	}
	return w
}

func basicUser() []*authz.Role {
	return []*authz.Role{{ObjectMeta: metav1.ObjectMeta{Name: "basic-user", Namespace: "master"}, Rules: policies.DefaultRoles()["basic-user"]},
		{ObjectMeta: metav1.ObjectMeta{Name: "cluster-admin", Namespace: "master"}, Rules: policies.DefaultRoles()["cluster-admin"]}}
}

// asked is a request as authorization is asked about it.
func asked(name, verb, resource, namespace, object string) authorizer.AttributesRecord {
	resource, sub, _ := strings.Cut(resource, "/")
	return authorizer.AttributesRecord{User: &user.DefaultInfo{Name: name, Groups: []string{"system:authenticated"}}, Verb: verb, Resource: resource, Subresource: sub, Namespace: namespace, Name: object,
		APIVersion: "v1", ResourceRequest: true}
}

// admitted is the admission of it, of objects with labels.
func admitted(a authorizer.AttributesRecord, kind string, old, new map[string]string) *admissionv1.AdmissionRequest {
	r := &admissionv1.AdmissionRequest{UID: "u", Kind: metav1.GroupVersionKind{Version: "v1", Kind: kind}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: a.Resource}, SubResource: a.Subresource,
		Namespace: a.Namespace, Name: a.Name, UserInfo: authenticationv1.UserInfo{Username: a.User.GetName(), Groups: a.User.GetGroups()}}
	object := func(labels map[string]string) runtime.RawExtension {
		name := a.Name
		if name == "" {
			name = "made"
		}
		raw, _ := json.Marshal(map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name, "namespace": a.Namespace, "labels": labels}})
		return runtime.RawExtension{Raw: raw}
	}
	switch a.Verb {
	case "create":
		r.Operation, r.Object = admissionv1.Create, object(new)
		if r.Name == "" {
			r.Name = "made"
		}
	case "update", "patch":
		r.Operation, r.Object, r.OldObject = admissionv1.Update, object(new), object(old)
	case "delete", "deletecollection":
		r.Operation, r.OldObject = admissionv1.Delete, object(old)
	}
	if a.Subresource == "exec" || a.Subresource == "proxy" {
		raw, _ := json.Marshal(map[string]any{"apiVersion": "v1", "kind": kind, "container": new["container"]})
		r.Operation, r.Object, r.OldObject = admissionv1.Connect, runtime.RawExtension{Raw: raw}, runtime.RawExtension{}
	}
	return r
}

// SC-5: what can become an allowance is one only where admission must follow, and is proven to.
func TestAccessOverApproximatesAsLittleAsPossible(t *testing.T) {
	w := newWorld(t, policy)
	version := func(a authorizer.AttributesRecord, v string) authorizer.AttributesRecord { a.APIVersion = v; return a }
	in := func(a authorizer.AttributesRecord, group string) authorizer.AttributesRecord {
		a.User = &user.DefaultInfo{Name: a.User.GetName(), Groups: []string{group}}
		return a
	}
	unproven := errors.New("not proven")
	for _, tc := range []struct {
		name  string
		attrs authorizer.AttributesRecord
		proof error
		want  authorizer.Decision
	}{
		{"a conditional create", asked("anna", "create", "configmaps", "team", ""), nil, authorizer.DecisionAllow},
		{"without proof", asked("anna", "create", "configmaps", "team", ""), unproven, authorizer.DecisionNoOpinion},
		{"a plain allowance needs none", asked("anna", "get", "configmaps", "team", "a"), unproven, authorizer.DecisionAllow},
		{"unless she is denied to delete something", asked("anna", "patch", "configmaps", "team", "a"), unproven, authorizer.DecisionDeny},
		{"in another namespace", asked("anna", "create", "configmaps", "other", ""), nil, authorizer.DecisionNoOpinion},
		{"a question without a version", version(asked("anna", "create", "configmaps", "team", ""), "*"), nil, authorizer.DecisionNoOpinion},
		{"a read", asked("rob", "get", "configmaps", "team", "a"), nil, authorizer.DecisionNoOpinion},
		{"a special verb", asked("anna", "escalate", "configmaps", "team", "a"), nil, authorizer.DecisionNoOpinion},
		{"a connection", asked("anna", "create", "pods/exec", "team", "p"), nil, authorizer.DecisionAllow},
		{"nodes", asked("anna", "create", "nodes", "", ""), nil, authorizer.DecisionNoOpinion},
		{"an exempt caller", in(asked("anna", "create", "configmaps", "team", ""), "system:nodes"), nil, authorizer.DecisionNoOpinion},
		{"RBAC answers for itself", asked("rob", "create", "configmaps", "team", ""), nil, authorizer.DecisionNoOpinion},
		{"a conditional deny before RBAC", asked("rob", "delete", "configmaps", "team", "a"), nil, authorizer.DecisionNoOpinion},
		{"and without proof", asked("rob", "delete", "configmaps", "team", "a"), unproven, authorizer.DecisionDeny},
		{"a deny", asked("rob", "update", "secrets", "team", "a"), nil, authorizer.DecisionDeny},
		{"an unsafe delete of whoever's delete is conditional", asked("rob", "unsafe-delete-ignore-read-errors", "configmaps", "team", "a"), nil, authorizer.DecisionDeny},
		{"what nobody serves", version(asked("rob", "create", "configmaps", "team", ""), "v9"), nil, authorizer.DecisionDeny},
	} {
		w.proof.err = tc.proof
		got, err := w.decider.Access(t.Context(), "c", tc.attrs)
		if err != nil || got.Decision != tc.want {
			t.Errorf("%s: %v (%s), %v; want %v", tc.name, got.Decision, got.Reason, err, tc.want)
		}
	}
	// Our own groups are enforced where they are served: nothing has to be proven for them.
	w.proof.err = unproven
	own := asked("anna", "create", "subjectaccessreviews", "", "")
	own.APIGroup, own.APIVersion = authz.GroupName, authz.SchemeGroupVersion.Version
	if got, err := w.decider.Access(t.Context(), "c", own); err != nil || got.Decision != authorizer.DecisionAllow {
		t.Errorf("asking about oneself: %v %v", got, err)
	}
}

// SC-6: admission decides from the review alone, for every request that authorization would have let pass.
func TestAdmissionRefusesWhatConditionsDoNot(t *testing.T) {
	w := newWorld(t, policy)
	small, big := map[string]string{"size": "small"}, map[string]string{"size": "big"}
	for _, tc := range []struct {
		name     string
		attrs    authorizer.AttributesRecord
		kind     string
		old, new map[string]string
		want     bool
	}{
		{"create, met", asked("anna", "create", "configmaps", "team", ""), "ConfigMap", nil, small, true},
		{"create, not met", asked("anna", "create", "configmaps", "team", ""), "ConfigMap", nil, big, false},
		{"update, met", asked("anna", "update", "configmaps", "team", "a"), "ConfigMap", small, big, true},
		{"a patch may have been an update", asked("anna", "patch", "configmaps", "team", "a"), "ConfigMap", big, big, false},
		{"delete, met", asked("anna", "delete", "configmaps", "team", "a"), "ConfigMap", small, nil, true},
		{"delete, not met", asked("anna", "delete", "configmaps", "team", "a"), "ConfigMap", nil, nil, false},
		{"deletecollection, not met", asked("anna", "deletecollection", "configmaps", "team", ""), "ConfigMap", big, nil, false},
		{"RBAC, nothing of ours", asked("rob", "create", "configmaps", "team", ""), "ConfigMap", nil, big, true},
		{"RBAC, the deny does not hold", asked("rob", "delete", "configmaps", "team", "a"), "ConfigMap", small, nil, true},
		{"RBAC, the deny holds", asked("rob", "delete", "configmaps", "team", "a"), "ConfigMap", big, nil, false},
		{"a deny of update is one of patch", asked("rob", "patch", "secrets", "team", "a"), "Secret", nil, small, false},
		{"somebody else allowed it", asked("abac", "create", "configmaps", "team", ""), "ConfigMap", nil, big, true},
		{"exec, met", asked("anna", "create", "pods/exec", "team", "p"), "PodExecOptions", nil, map[string]string{"container": "app"}, true},
		{"exec, not met", asked("anna", "create", "pods/exec", "team", "p"), "PodExecOptions", nil, map[string]string{"container": "db"}, false},
		{"a namespace, met", asked("anna", "create", "namespaces", "", ""), "Namespace", nil, small, true},
		{"a namespace, not met", asked("anna", "create", "namespaces", "", ""), "Namespace", nil, big, false},
		{"the sidecar writes nothing", asked("proviso:sidecar", "create", "configmaps", "team", ""), "ConfigMap", nil, small, false},
		{"the canary least of all", asked("proviso:canary", "create", "configmaps", "team", ""), "ConfigMap", nil, small, false},
	} {
		r := admitted(tc.attrs, tc.kind, tc.old, tc.new)
		if r.Resource.Resource == "namespaces" {
			r.Namespace = r.Name // as the server has it
		}
		if err := w.decider.Admit(t.Context(), r); (err == nil) != tc.want {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	r := admitted(asked("anna", "create", "configmaps", "team", ""), "ConfigMap", nil, small)
	r.Object.Raw = []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":`)
	if w.decider.Admit(t.Context(), r) == nil {
		t.Error("half an object is admitted")
	}
	r.Object.Raw, r.RequestResource = []byte(`{}`), &metav1.GroupVersionResource{Version: "v2", Resource: "configmaps"}
	if w.decider.Admit(t.Context(), r) == nil {
		t.Error("a review of another version is admitted")
	}
}

// SC-5: a review through the API looks like a request. One whose answer hangs on the object is refused, for exempt
// callers too.
func TestReviewsWithConditionalAnswersAreRefused(t *testing.T) {
	w := newWorld(t, policy)
	question := func(verb, version string) *admissionv1.AdmissionRequest {
		raw, _ := json.Marshal(&authorizationv1.SelfSubjectAccessReview{TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"},
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: "configmaps", Namespace: "team", Version: version}}})
		return &admissionv1.AdmissionRequest{Operation: admissionv1.Create, Kind: metav1.GroupVersionKind{Group: "authorization.k8s.io", Version: "v1", Kind: "SelfSubjectAccessReview"},
			Resource: metav1.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectaccessreviews"}, Object: runtime.RawExtension{Raw: raw},
			UserInfo: authenticationv1.UserInfo{Username: "anna", Groups: []string{"system:authenticated"}}}
	}
	if err := w.decider.Admit(t.Context(), question("create", "v1")); err == nil || !strings.Contains(err.Error(), "depends on the object") {
		t.Errorf("a conditional answer is given: %v", err)
	}
	for _, plain := range []*admissionv1.AdmissionRequest{question("patch", "v1"), question("create", ""), question("create", "*")} {
		if err := w.decider.Admit(t.Context(), plain); err != nil {
			t.Errorf("a plain answer is refused: %v", err)
		}
	}
}

// SC-8: before the policy is read there is no answer at all.
func TestUnsyncedIsNoAnswer(t *testing.T) {
	w := &world{proof: &stated{}}
	var err error
	w.composed, err = compose(parts{settings: &settings{MasterNamespace: "master", Namespace: "n"}, interlock: w.proof, roles: filedRoles{},
		kinds: feature.Kinds{Builtin: allBuiltin{}}})
	if err != nil {
		t.Fatal(err)
	}
	a := asked("rob", "create", "configmaps", "team", "")
	if _, err := w.decider.Access(t.Context(), "c", a); !errors.Is(err, webhooks.ErrUnsynced) {
		t.Errorf("authorization: %v", err)
	}
	if err := w.decider.Admit(t.Context(), admitted(a, "ConfigMap", nil, nil)); !errors.Is(err, webhooks.ErrUnsynced) {
		t.Errorf("admission: %v", err)
	}
}

// SC-12: nothing passes both calls that a server with the same policy would refuse. The two hosts differ in where
// requests come from; the chain, the gate and the enforcer are the same.
func TestNothingPassesThatAServerRefuses(t *testing.T) {
	for name, text := range map[string]string{"conditions": policy, "fields and attributes": checkedPolicy} {
		t.Run(name, func(t *testing.T) { nothingPasses(t, newWorld(t, text)) })
	}
}

func nothingPasses(t *testing.T, w *world) {
	random := rand.New(rand.NewSource(1))
	pick := func(from ...string) string { return from[random.Intn(len(from))] }
	kinds := map[string]string{"configmaps": "ConfigMap", "secrets": "Secret", "pods": "Pod", "nodes": "Node", "pods/exec": "PodExecOptions"}
	labels := func() map[string]string {
		all := map[string]string{"size": pick("small", "big", ""), pick("x", "y"): pick("1", "2"), "container": pick("app", "db")}
		if random.Intn(4) == 0 {
			all[pick("owner", "tier")] = pick("a", "b")
		}
		return all
	}
	cases := 60_000
	if testing.Short() {
		cases = 10_000
	}
	passed, stricter := 0, 0
	for range cases {
		resource := pick("configmaps", "configmaps", "secrets", "pods", "nodes", "pods/exec")
		verb := pick("create", "update", "patch", "delete", "deletecollection")
		namespace, name := pick("team", "team", "other"), "a"
		switch {
		case resource == "nodes":
			namespace = ""
		case resource == "pods/exec":
			verb = pick("create", "get")
		}
		if (verb == "create" && resource != "pods/exec") || verb == "deletecollection" {
			name = ""
		}
		a := asked(pick("anna", "rob", "abac", "finn"), verb, resource, namespace, name)
		review := admitted(a, kinds[resource], labels(), labels())
		w.proof.err = nil
		if random.Intn(4) == 0 {
			w.proof.err = errors.New("not proven")
		}
		here, there := w.beside(t, a, review), w.inProcess(t, a, review)
		if here && !there {
			t.Fatalf("the sidecar lets %s %s %s/%s %s pass, which a server refuses\n%s\n%s", a.User.GetName(), verb, namespace, resource, name, review.OldObject.Raw, review.Object.Raw)
		}
		if here {
			passed++
		}
		if there && !here {
			stricter++
		}
	}
	t.Logf("%d requests: %d pass, %d are refused by the sidecar only", cases, passed, stricter)
	if passed == 0 || passed == cases {
		t.Error("the test decides nothing")
	}
}

// beside is both calls, with RBAC behind the first, as a stock server makes them.
func (w *world) beside(t *testing.T, a authorizer.AttributesRecord, review *admissionv1.AdmissionRequest) bool {
	answer, err := w.decider.Access(t.Context(), "c", a)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Decision == authorizer.DecisionNoOpinion {
		answer.Decision, _, _ = authorize.NewRBAC(w.kernel.Store).Authorize(t.Context(), a)
	}
	return answer.Decision == authorizer.DecisionAllow && w.decider.Admit(t.Context(), review) == nil
}

// allBuiltin takes every kind as built in, and as schemaless.
type allBuiltin struct{}

func (allBuiltin) Schemas() (*fieldperm.Schemas, error)    { return fieldperm.NewSchemas(nil, false) }
func (allBuiltin) Recognizes(schema.GroupVersionKind) bool { return true }

// Stale implements authorize.Age.
func (w *world) Stale() string { return w.old }

// inProcess is what a server does: the gate at its filter, and the enforcer with what travels in between.
func (w *world) inProcess(t *testing.T, a authorizer.AttributesRecord, review *admissionv1.AdmissionRequest) bool {
	a.Path = "/x"
	ctx := requestctx.WithNotes(requestctx.With(t.Context(), w.kernel.Store.Current()))
	ctx = request.WithRequestInfo(ctx, &request.RequestInfo{IsResourceRequest: true, Path: "/x", Verb: a.Verb, APIVersion: a.APIVersion, Namespace: a.Namespace, Resource: a.Resource, Subresource: a.Subresource, Name: a.Name})
	reach := (&settings{}).reach(policycodec.Groups(), w.kernel.Served)
	gate := authorize.NewGate(authorize.GateConfig{Chain: w.kernel.Gate.Chain, Conditional: true, Local: reach.Local})
	if decision, _, _ := gate.AtFilter().Authorize(ctx, a); decision != authorizer.DecisionAllow {
		return false
	}
	object := func(raw []byte) runtime.Object {
		if raw == nil {
			return nil
		}
		u := &unstructured.Unstructured{}
		if err := utiljson.Unmarshal(raw, &u.Object); err != nil {
			t.Fatal(err)
		}
		return u
	}
	kind := schema.GroupVersionKind(review.Kind)
	attrs := admission.NewAttributesRecord(object(review.Object.Raw), object(review.OldObject.Raw), kind, review.Namespace, review.Name, schema.GroupVersionResource(review.Resource),
		review.SubResource, admission.Operation(review.Operation), nil, false, a.User)
	return feature.Enforcer(w.kernel, w.systems).Validate(ctx, attrs, (&webhooks.Objects{Definitions: w.kernel.Served}).Interfaces(kind)) == nil
}
