package server

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// TestPermissions reads on the real server which permissions there are and where declarations take effect, and asks
// reviews about them (FP-4, FP-12).
func TestPermissions(t *testing.T) {
	x := newExamples(t, plain.get(t)) // not in parallel: it asks who can
	x.install(t, "exclusive-field/fieldpermissions.yaml")
	x.install(t, "exclusive-field/roles.yaml")
	x.install(t, "supersafe/rbac.yaml")
	p := &permissionsWorld{x}
	p.await(t, "the table", func() bool { return p.find(t, "example.com:podSecurityLevel") != nil })
	t.Run("list", p.list)
	t.Run("readers", p.readers)
	t.Run("status", p.status)
	t.Run("status follows what is served", p.statusFollows)
	t.Run("reviews", p.reviews)
	t.Run("reviews of exclusive fields", p.exclusiveReviews)
	t.Run("who can", p.whoCan)
}

type permissionsWorld struct{ *examples }

func (p *permissionsWorld) await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	p.s.await(what, func() (bool, error) { return condition(), nil })
}

// call sends JSON and reads the answer into into, if that is not nil.
func (p *permissionsWorld) call(t *testing.T, as *rest.Config, method, path string, body, into any) (int, string) {
	t.Helper()
	client, err := rest.HTTPClientFor(as)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, p.s.admin.Host+path, strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var raw json.RawMessage
	if err := json.NewDecoder(response.Body).Decode(&raw); err != nil {
		t.Fatal(err)
	}
	if into != nil && response.StatusCode < http.StatusBadRequest {
		if err := json.Unmarshal(raw, into); err != nil {
			t.Fatal(err)
		}
	}
	return response.StatusCode, string(raw)
}

const permissionsPath = "/apis/authorization.proviso.dev/v1alpha1/permissions"

func (p *permissionsWorld) read(t *testing.T, query string) []authz.Permission {
	t.Helper()
	var list authz.PermissionList
	if code, answer := p.call(t, p.s.admin, "GET", permissionsPath+query, nil, &list); code != http.StatusOK {
		t.Fatalf("%s: %d %s", query, code, answer)
	}
	return list.Items
}

func (p *permissionsWorld) find(t *testing.T, name string) *authz.Permission {
	t.Helper()
	all := p.read(t, "")
	if i := slices.IndexFunc(all, func(p authz.Permission) bool { return p.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// FP-12: as a flat list and per resource, with what is declared at run time; a resource has only what it has a field
// for.
func (p *permissionsWorld) list(t *testing.T) {
	level := p.find(t, "example.com:podSecurityLevel")
	want := []authz.PermissionField{{
		Resource: "namespaces", Field: ".metadata.labels[pod-security.kubernetes.io/enforce-version]", Verb: "granular:example.com/podSecurityLevel",
		Source: `FieldPermission "namespace-level-version"`, Exclusive: true,
	}, {
		Resource: "namespaces", Field: ".metadata.labels[pod-security.kubernetes.io/enforce]", Verb: "granular:example.com/podSecurityLevel",
		Source: `FieldPermission "namespace-level"`, Exclusive: true,
	}}
	if diff := cmp.Diff(want, level.Fields); diff != "" {
		t.Error(diff)
	}
	for resource, want := range map[string]struct{ with, without []string }{
		"pods":             {[]string{".spec.hostNetwork", ".spec.nodeName", ".status.conditions[]", ".metadata.labels[]"}, []string{".spec.replicas"}},
		"Deployment":       {[]string{".spec.replicas", ".spec.template.spec.hostNetwork", ".spec.template.spec.nodeName"}, []string{".spec.hostNetwork"}},
		"cronjobs.batch":   {[]string{".spec.jobTemplate.spec.template.spec.hostNetwork"}, []string{".spec.template.spec.hostNetwork"}},
		"configmaps":       {[]string{".metadata", ".metadata.annotations[]"}, []string{".spec", ".status", ".status.conditions"}},
		"namespaces":       {[]string{".metadata.labels[pod-security.kubernetes.io/enforce]"}, nil},
		"fieldpermissions": {[]string{".spec", ".status.conditions[]"}, nil},
	} {
		var fields []string
		for _, permission := range p.read(t, "?fieldSelector=resource%3D"+resource) {
			for _, f := range permission.Fields {
				fields = append(fields, f.Field)
			}
		}
		for _, field := range want.with {
			if !slices.Contains(fields, field) {
				t.Errorf("%s: no %s in %v", resource, field, fields)
			}
		}
		for _, field := range want.without {
			if slices.Contains(fields, field) {
				t.Errorf("%s: it does not have %s, which is listed", resource, field)
			}
		}
	}
	for query, says := range map[string]string{
		"?fieldSelector=resource%3Dnosuch":            `resource \"nosuch\": no served resource has this name or kind`,
		"?fieldSelector=resource%3D-pods":             "no served resource has this name or kind",
		"?fieldSelector=resource%3Ddeployments/scale": "name it without a subresource",
		"?fieldSelector=spec.x%3Dy":                   "permissions are selected by resource or metadata.name",
	} {
		if code, answer := p.call(t, p.s.admin, "GET", permissionsPath+query, nil, nil); code != http.StatusBadRequest || !strings.Contains(answer, says) {
			t.Errorf("%s: %d %s, want 400 with %q", query, code, answer, says)
		}
	}
}

// FP-12: reading takes a right like that to any other resource, which admins have and can give.
func (p *permissionsWorld) readers(t *testing.T) {
	dora := p.s.as("dora")
	if code, answer := p.call(t, dora, "GET", permissionsPath, nil, nil); code != http.StatusForbidden {
		t.Errorf("dora reads without a right: %d %s", code, answer)
	}
	role := object("rbac.authorization.k8s.io/v1", "ClusterRole", "permission-reader", nil)
	role.Object["rules"] = []any{map[string]any{"apiGroups": []any{"authorization.proviso.dev"}, "resources": []any{"permissions"}, "verbs": []any{"get", "list"}}}
	p.create(t, role)
	binding := object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "permission-reader", nil)
	binding.Object["roleRef"] = map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "permission-reader"}
	binding.Object["subjects"] = []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "dora"}}
	p.create(t, binding)
	p.await(t, "dora's right to read", func() bool {
		code, _ := p.call(t, dora, "GET", permissionsPath, nil, nil)
		return code == http.StatusOK
	})
	if code, answer := p.call(t, dora, "GET", permissionsPath+"/labels", nil, nil); code != http.StatusOK {
		t.Errorf("one by one: %d %s", code, answer)
	}
}

// declare creates a FieldPermission and waits until its status is about what is written.
func (p *permissionsWorld) declare(t *testing.T, name, field string, resources ...any) {
	t.Helper()
	p.create(t, object("policy.proviso.dev/v1alpha1", "FieldPermission", name, map[string]any{
		"resources": resources, "field": field, "permission": "example.com/" + strings.ReplaceAll(name, "-", ""),
	}))
}

func (p *permissionsWorld) statusOf(t *testing.T, name string) policyv1alpha1.FieldPermissionStatus {
	t.Helper()
	var fp policyv1alpha1.FieldPermission
	if code, answer := p.call(t, p.s.admin, "GET", "/apis/policy.proviso.dev/v1alpha1/fieldpermissions/"+name, nil, &fp); code != http.StatusOK {
		t.Fatal(answer)
	}
	if fp.Status.ObservedGeneration != fp.Generation {
		return policyv1alpha1.FieldPermissionStatus{}
	}
	return fp.Status
}

func resolved(s policyv1alpha1.FieldPermissionStatus) metav1.ConditionStatus {
	c := meta.FindStatusCondition(s.Conditions, policyv1alpha1.ConditionKindsResolved)
	if c == nil {
		return metav1.ConditionUnknown
	}
	return c.Status
}

// FP-4: the status says which served resources have the field, pod templates included, and which of the named ones do
// not.
func (p *permissionsWorld) status(t *testing.T) {
	workloads := []string{"controllerrevisions.apps", "cronjobs.batch", "daemonsets.apps", "deployments.apps", "jobs.batch", "pods", "podtemplates", "replicasets.apps", "replicationcontrollers", "statefulsets.apps"}
	p.await(t, "the status", func() bool { return resolved(p.statusOf(t, "node-network")) == metav1.ConditionTrue })
	if got := p.statusOf(t, "node-network"); !slices.Equal(got.CoveredResources, workloads) || len(got.UnresolvedResources) > 0 ||
		!meta.IsStatusConditionTrue(got.Conditions, policyv1alpha1.ConditionRulesCompiled) {
		t.Errorf("on pods: %+v", got)
	}

	p.declare(t, "all-selectors", ".spec.selector", "*")
	p.await(t, "the status", func() bool { return resolved(p.statusOf(t, "all-selectors")) == metav1.ConditionTrue })
	got := p.statusOf(t, "all-selectors").CoveredResources
	for resource, want := range map[string]bool{"services": true, "deployments.apps": true, "configmaps": false, "pods": false, "nodes": false} {
		if slices.Contains(got, resource) != want {
			t.Errorf("for all: %s is covered: %v; want %v in %v", resource, !want, want, got)
		}
	}
	p.declare(t, "all-none", ".spec.nobodyHasThis", "*")
	p.await(t, "the status", func() bool { return resolved(p.statusOf(t, "all-none")) == metav1.ConditionFalse })
	if got := p.statusOf(t, "all-none"); !slices.Equal(got.UnresolvedResources, []string{"*"}) || len(got.CoveredResources) > 0 {
		t.Errorf("for all that have what nothing has: %+v", got)
	}
}

func widgets(properties map[string]any) *unstructured.Unstructured {
	crd := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "widgets.example.com", nil)
	crd.Object["spec"] = map[string]any{
		"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
		"versions": []any{map[string]any{
			"name": "v1", "served": true, "storage": true,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
				"spec": map[string]any{"type": "object", "properties": properties},
			}}},
			"subresources": map[string]any{"scale": map[string]any{"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count"}},
		}},
	}
	return crd
}

// FP-4: what is not served yet is covered as soon as it is, and no longer than that.
func (p *permissionsWorld) statusFollows(t *testing.T) {
	p.declare(t, "widget-fuse", ".spec.fuse", "widgets.example.com", "pods.metrics.k8s.io")
	p.declare(t, "widget-typo", ".spec.fuze", "widgets.example.com")
	p.await(t, "unresolved resources", func() bool { return len(p.statusOf(t, "widget-fuse").UnresolvedResources) == 2 })
	if got := p.statusOf(t, "widget-fuse"); resolved(got) != metav1.ConditionFalse ||
		!strings.Contains(meta.FindStatusCondition(got.Conditions, policyv1alpha1.ConditionKindsResolved).Message, "widgets.example.com: no such resource is served") {
		t.Errorf("before it is served: %+v", got)
	}
	if p.find(t, "replicas") == nil || slices.ContainsFunc(p.find(t, "replicas").Fields, func(f authz.PermissionField) bool { return f.Resource == "widgets.example.com" }) {
		t.Error("replicas are listed for a resource that does not exist")
	}

	crd := widgets(map[string]any{"fuse": map[string]any{"type": "boolean"}, "count": map[string]any{"type": "integer"}})
	p.create(t, crd)
	p.await(t, "the covered resource", func() bool {
		got := p.statusOf(t, "widget-fuse")
		return slices.Equal(got.CoveredResources, []string{"widgets.example.com"}) && slices.Equal(got.UnresolvedResources, []string{"pods.metrics.k8s.io"})
	})
	p.await(t, "the reason", func() bool {
		c := meta.FindStatusCondition(p.statusOf(t, "widget-typo").Conditions, policyv1alpha1.ConditionKindsResolved)
		return c != nil && strings.Contains(c.Message, "did you mean .spec.fuse?")
	})
	p.await(t, "the scale field", func() bool {
		return slices.ContainsFunc(p.find(t, "replicas").Fields, func(f authz.PermissionField) bool {
			return f.Resource == "widgets.example.com" && f.Field == ".spec.count"
		})
	})
	if err := p.resource(t, p.admin, crd).Delete(t.Context(), crd.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	nudge := p.s.nudger(t, crd.GetName())
	p.await(t, "unresolved resources", func() bool {
		nudge()
		return len(p.statusOf(t, "widget-fuse").UnresolvedResources) == 2
	})

	// Somebody's words in the status do not stay.
	client := dynamic.NewForConfigOrDie(p.s.admin).Resource(policyv1alpha1.SchemeGroupVersion.WithResource("fieldpermissions"))
	patch := []byte(`{"status":{"coveredResources":["secrets"]}}`)
	if _, err := client.Patch(t.Context(), "widget-fuse", "application/merge-patch+json", patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	p.await(t, "the status to be right again", func() bool { return len(p.statusOf(t, "widget-fuse").CoveredResources) == 0 })
}

func (p *permissionsWorld) ask(t *testing.T, user, verb, group, resource, namespace string) reviewv1.SubjectAccessReviewStatus {
	t.Helper()
	var review reviewv1.SelfSubjectAccessReview
	question := map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": map[string]any{
			"resourceAttributes":       map[string]any{"verb": verb, "group": group, "version": "v1", "resource": resource, "namespace": namespace},
			"conditionalAuthorization": map[string]any{"mode": "HumanReadable"},
		},
	}
	if code, answer := p.call(t, p.s.as(user), "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", question, &review); code != http.StatusCreated {
		t.Fatalf("%d %s", code, answer)
	}
	return review.Status
}

// FP-12: access reviews work on the verbs, with conditions where a rule has them.
func (p *permissionsWorld) reviews(t *testing.T) {
	p.await(t, "the operator's rights", func() bool { return p.ask(t, "supersafe", "granular", "apps", "deployments", "default").Allowed })
	for verb, want := range map[string]bool{
		"granular": true, "granular:label(super.safe.com)": true, "granular:label(other.com)": false, "granular:labels": false, "granular:label": false,
		"granular:label(super.safe.com": false, "update": false,
	} {
		if got := p.ask(t, "supersafe", verb, "apps", "deployments", "default"); got.Allowed != want {
			t.Errorf("%s: %v, %s; want %v", verb, got.Allowed, got.Reason, want)
		}
	}
	if got := p.ask(t, "supersafe", "granular:label(super.safe.com)", "apps", "statefulsets", "default"); got.Allowed {
		t.Error("a permission on one resource is one on another")
	}

	conditional := object("authorization.proviso.dev/v1alpha1", "Role", "own-labels", nil)
	conditional.SetNamespace("master")
	conditional.Object["rules"] = []any{map[string]any{
		"verbs": []any{"granular:labels"}, "resourceKinds": []any{"configmaps"}, "where": `resource.metadata.name.startsWith("mine-")`,
	}}
	p.eventually(t, "the namespace of roles", func() error {
		_, err := p.resource(t, p.admin, conditional).Create(t.Context(), conditional, metav1.CreateOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) { // until the default roles are written
			return apierrors.NewForbidden(authz.Resource("roles"), "own-labels", err)
		}
		return err
	})
	binding := object("authorization.proviso.dev/v1alpha1", "RoleBinding", "own-labels", nil)
	binding.SetNamespace("master")
	binding.Object["roleRef"] = map[string]any{"namespace": "master", "name": "own-labels"}
	binding.Object["userNames"] = []any{"cora"}
	p.create(t, binding)
	p.await(t, "the conditional permission", func() bool {
		got := p.ask(t, "cora", "granular:labels", "", "configmaps", "default")
		return !got.Allowed && len(got.ConditionsChain) > 0
	})
	got := p.ask(t, "cora", "granular:labels", "", "configmaps", "default")
	if len(got.ConditionsChain[0].Conditions) != 1 || !strings.Contains(got.ConditionsChain[0].Conditions[0].Condition, "mine-") {
		t.Errorf("conditions are %+v", got.ConditionsChain)
	}
	if got := p.ask(t, "cora", "granular:annotations", "", "configmaps", "default"); got.Allowed || len(got.ConditionsChain) > 0 {
		t.Errorf("another permission: %+v", got)
	}
}

// PA-8: who asks for conditions sees the exclusive fields that he may not change, in pod templates too, and only these.
func (p *permissionsWorld) exclusiveReviews(t *testing.T) {
	const element = "field-permissions"
	shown := func(user, verb, group, resource, namespace string) string {
		text := ""
		for _, e := range p.ask(t, user, verb, group, resource, namespace).ConditionsChain {
			for _, c := range e.Conditions {
				if e.AuthorizerName == element && c.Effect == reviewv1.EffectDeny {
					text += c.Description + "\n"
				}
			}
		}
		return text
	}
	for _, tc := range []struct{ user, verb, group, resource, namespace, says string }{
		{"dora", "create", "", "pods", "play", "field .spec.hostNetwork of pods may only be changed with granular:example.com/nodeNetwork"},
		{"dora", "update", "", "pods", "play", "field .spec.hostNetwork of pods"},
		{"dora", "patch", "apps", "deployments", "play", "field .spec.template.spec.hostNetwork of deployments.apps"},
		{"dora", "update", "", "namespaces", "", "field .metadata.labels[pod-security.kubernetes.io/enforce] of namespaces"},
		{"nadia", "create", "", "pods", "play", ""},
		{"nadia", "update", "", "namespaces", "", ""},
		{"dora", "get", "", "pods", "play", ""},
		{"dora", "create", "", "configmaps", "play", ""},
	} {
		if got := shown(tc.user, tc.verb, tc.group, tc.resource, tc.namespace); (got == "") != (tc.says == "") || !strings.Contains(got, tc.says) {
			t.Errorf("%s %s %s: %q, want %q", tc.user, tc.verb, tc.resource, got, tc.says)
		}
	}
	if got := p.ask(t, "nadia", "create", "", "pods", "play"); !got.Allowed {
		t.Errorf("nadia, who holds the permission: %+v", got)
	}
	if got := p.ask(t, "dora", "create", "", "pods", "play"); got.Allowed {
		t.Errorf("dora, for whom it depends: %+v", got)
	}
}

// FP-12: who holds a permission can be asked like who can do anything else.
func (p *permissionsWorld) whoCan(t *testing.T) {
	ask := func(verb, resource string) []string {
		var review authz.ResourceAccessReview
		question := map[string]any{
			"apiVersion": "authorization.proviso.dev/v1alpha1", "kind": "ResourceAccessReview", "spec": map[string]any{"verb": verb, "resourceKind": resource},
		}
		if code, answer := p.call(t, p.s.admin, "POST", "/apis/authorization.proviso.dev/v1alpha1/namespaces/default/resourceaccessreviews", question, &review); code != http.StatusCreated {
			t.Fatalf("%d %s", code, answer)
		}
		users := review.Status.UserNames
		for _, c := range review.Status.Conditional {
			users = append(users, c.UserName+" if")
		}
		return users
	}
	for _, tc := range []struct {
		verb, resource string
		want           []string
	}{
		{"granular:label(super.safe.com)", "deployments.apps", []string{"supersafe"}},
		{"granular:label(safe.com)", "deployments.apps", nil},
		{"granular", "deployments.apps", []string{"supersafe"}},
		{"granular:labels", "configmaps", []string{"cora if"}},
	} {
		if got := ask(tc.verb, tc.resource); !slices.Equal(got, tc.want) {
			t.Errorf("%s on %s: %v, want %v", tc.verb, tc.resource, got, tc.want)
		}
	}
}
