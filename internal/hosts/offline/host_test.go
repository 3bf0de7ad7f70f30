package offline

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"os"
	"path/filepath"
	"strings"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/features"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/features/policies"
	"proviso.dev/proviso/internal/request/authorize"
)

func hubertAndEdgar(t *testing.T, more ...string) Config {
	t.Helper()
	paths := []string{"../../../examples/hubert-and-edgar"}
	for i, text := range more {
		name := filepath.Join(t.TempDir(), fmt.Sprintf("%d.yaml", i))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, name)
	}
	return Config{Paths: paths, MasterNamespace: "master"}
}

const widgets = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {plural: widgets, kind: Widget}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: widgets}
rules: [{apiGroups: [example.com], resources: [widgets], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: widgets}
roleRef: {kind: ClusterRole, name: widgets}
subjects: [{kind: User, name: wanda}]
`

// The same list of systems that the server holds decides over files: Policy and RBAC, denies, and conditions on the
// object.
func TestFilesDecideAsAServerWould(t *testing.T) {
	host, err := New(hubertAndEdgar(t, widgets))
	if err != nil {
		t.Fatal(err)
	}
	if !host.Snapshot().Synced || len(host.Systems()) != len(features.All()) {
		t.Fatalf("%d systems, synced %v", len(host.Systems()), host.Snapshot().Synced)
	}
	deployment := func(labels string) *runtime.RawExtension {
		return &runtime.RawExtension{Raw: []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":"hammer","labels":{` + labels + `}}}`)}
	}
	for _, test := range []struct {
		user, verb, kind string
		object           *runtime.RawExtension
		want             bool
	}{
		{"hubert", "create", "rolebindings.authorization.proviso.dev", nil, true},
		{"edgar", "create", "rolebindings.authorization.proviso.dev", nil, false},
		{"edgar", "create", "pods", nil, true},
		{"edgar", "get", "deployments.apps", nil, true},
		{"edgar", "delete", "deployments.apps", deployment(``), true},
		{"edgar", "delete", "deployments.apps", deployment(`"protected":"yes"`), false},
		{"edgar", "delete", "deployments.apps", nil, false}, // without the object nobody knows
		{"protector-bot", "delete", "deployments.apps", deployment(``), false},
		{"wanda", "get", "widgets.example.com", nil, true},
		{"wanda", "delete", "widgets.example.com", nil, false},
		{"nobody", "get", "pods", nil, false},
	} {
		status, err := host.Review(t.Context(), "hammer", authz.SubjectAccessReviewSpec{UserName: test.user, Verb: test.verb, ResourceKind: test.kind, Content: test.object})
		if err != nil || status.EvaluationError != "" && test.want || status.Allowed != test.want {
			t.Errorf("%s %s %s: %+v, %v", test.user, test.verb, test.kind, status, err)
		}
	}
	attrs := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "edgar"}, Verb: "get", Resource: "pods", APIVersion: "v1", Namespace: "hammer", ResourceRequest: true}
	if decision, reason, err := host.Authorize(t.Context(), attrs); decision != authorizer.DecisionAllow || err != nil {
		t.Errorf("%v %s %v", decision, reason, err)
	}
	attrs.Namespace = "anvil"
	if decision, _, _ := host.Authorize(t.Context(), attrs); decision == authorizer.DecisionAllow {
		t.Error("edgar is let into anvil")
	}
}

// A gate takes a system out of the list; what it would have allowed is then not allowed.
func TestSystemsThatAreOff(t *testing.T) {
	cfg := hubertAndEdgar(t, widgets)
	cfg.Systems = features.All()[:1]
	host, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	status, err := host.Review(t.Context(), "hammer", authz.SubjectAccessReviewSpec{UserName: "edgar", Verb: "get", ResourceKind: "pods"})
	if err != nil || status.Allowed {
		t.Errorf("%+v, %v", status, err)
	}
	if cfg.Systems.Has(policies.Gate) {
		t.Error("the list still has Policy")
	}
}

// Half a policy is none.
func TestBrokenFilesAreNoHost(t *testing.T) {
	if _, err := New(hubertAndEdgar(t, "apiVersion: policy.proviso.dev/v2\nkind: Policy\nmetadata: {name: default, namespace: hammer}\n")); err == nil || !strings.Contains(err.Error(), "not known") {
		t.Errorf("%v", err)
	}
}

// noMondays is a trivial system: one value, which denies what is called so.
func noMondays(*feature.Kernel, features.Config) (feature.System, error) {
	return feature.System{Name: "no mondays", Links: []authorize.Link{{Name: "no-mondays", Authorizer: monday{}}}}, nil
}

type monday struct{}

func (monday) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetName() == "monday" {
		return authorizer.DecisionDeny, "not on mondays", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

func (m monday) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(m.Authorize(ctx, a))
}

func (monday) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", nil
}

// A sixth system is one line in the list, here as in the server.
func TestSixthSystem(t *testing.T) {
	cfg := hubertAndEdgar(t)
	cfg.Systems = append(features.All(), features.Entry{New: noMondays})
	host, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"monday": false, "tuesday": true} {
		status, err := host.Review(t.Context(), "hammer", authz.SubjectAccessReviewSpec{UserName: "edgar", Verb: "get", ResourceKind: "pods", ResourceName: name})
		if err != nil || status.Allowed != want {
			t.Errorf("%s: %+v, %v", name, status, err)
		}
	}
}

// RD-8: explain, reviews and who-can show a list under a condition with the selector that it is narrowed to, and a get
// as conditional. Who may not see the rule sees neither.
func TestReadsAreShownWithTheirSelector(t *testing.T) {
	host, err := New(Config{Paths: []string{"../../../examples/team-views/policy.yaml"}, MasterNamespace: "master"})
	if err != nil {
		t.Fatal(err)
	}
	const selector = "labelSelector team=a"
	for verb, want := range map[string]string{"list": selector, "watch": selector, "get": "", "update": ""} {
		spec := authz.SubjectAccessReviewSpec{Verb: verb, ResourceKind: "configmaps", GroupName: "team-a", Trace: true}
		status, err := host.Review(t.Context(), "default", spec)
		if err != nil || status.Allowed || status.Trace.Decision != authz.AnswerConditional || status.Trace.NarrowedTo != want || !strings.Contains(status.DenyReason, want) {
			t.Errorf("%s: %+v, narrowed to %q (%v)", verb, status, status.Trace.NarrowedTo, err)
		}
		stranger := &user.DefaultInfo{Name: "stranger"}
		if status, err = host.reviewer.SubjectCan(request.WithUser(t.Context(), stranger), stranger, "default", spec); err != nil || strings.Contains(fmt.Sprintf("%+v %+v", status, *status.Trace), "team=a") {
			t.Errorf("%s, to somebody who may not see the rule: %+v %+v (%v)", verb, status, *status.Trace, err)
		}
	}
	// RD-4: with the object, a get is decided, of subresources too.
	for _, tc := range []struct {
		kind, object string
		want         bool
	}{
		{"configmaps", `{"metadata": {"name": "x", "labels": {"team": "a"}}}`, true}, {"configmaps", `{"metadata": {"name": "x", "labels": {"team": "b"}}}`, false},
		{"pods/log", `{"metadata": {"name": "x", "labels": {"team": "a"}}}`, true}, {"pods/log", `{"metadata": {"name": "x"}}`, false},
	} {
		spec := authz.SubjectAccessReviewSpec{Verb: "get", ResourceKind: tc.kind, GroupName: "team-a", Content: &runtime.RawExtension{Raw: []byte(tc.object)}}
		if status, err := host.Review(t.Context(), "default", spec); err != nil || status.Allowed != tc.want {
			t.Errorf("get of %s %s: %+v (%v)", tc.kind, tc.object, status, err)
		}
	}
	question := authz.ResourceAccessReviewSpec{Verb: "list", ResourceKind: "configmaps"}
	reader := &user.DefaultInfo{Name: "reader", Groups: []string{user.SystemPrivilegedGroup}}
	status, err := host.reviewer.WhoCan(request.WithUser(t.Context(), reader), "default", question)
	if err != nil || len(status.Conditional) != 1 || status.Conditional[0].GroupName != "team-a" || status.Conditional[0].NarrowedTo != selector {
		t.Errorf("who can: %+v (%v)", status, err)
	}
	status, err = host.reviewer.WhoCan(request.WithUser(t.Context(), &user.DefaultInfo{Name: "stranger"}), "default", question)
	if err != nil || len(status.Conditional) != 1 || status.Conditional[0].NarrowedTo != "" {
		t.Errorf("who can, to somebody who may not see the rule: %+v (%v)", status, err)
	}
}
