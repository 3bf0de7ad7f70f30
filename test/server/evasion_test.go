package server

import (
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// PO-23: the writer of a deny that its subject can get round is told, when the role is bound and when it is changed;
// with the protected attribute that the warning names, nothing is said, and the deny holds.
func TestDeniesThatCanBeGotRound(t *testing.T) {
	t.Parallel()
	s := plain.get(t)
	admin, client := dynamic.NewForConfigOrDie(s.admin), kubernetes.NewForConfigOrDie(s.admin)
	furnish(t, client, "po-a")
	grantPolicy(t, admin, "po-a", "po-edit", "po-edgar", map[string]any{"verbs": []any{"get", "update", "delete"}, "resourceKinds": []any{"configmaps"}})
	grantPolicy(t, admin, "po-a", "po-delete", "po-dora", map[string]any{"verbs": []any{"delete"}, "resourceKinds": []any{"configmaps"}})
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	edgar := dynamic.NewForConfigOrDie(s.as("po-edgar")).Resource(configMaps).Namespace("po-a")
	s.await("the right to update", func() (bool, error) {
		_, err := edgar.Patch(t.Context(), "one", types.MergePatchType, []byte(`{"data":{"k":"v"}}`), metav1.PatchOptions{DryRun: []string{"All"}})
		return err == nil, nil
	})
	toldTo := func(config *rest.Config, do func(dynamic.Interface) error) string {
		t.Helper()
		heard := &collectedWarnings{}
		config = rest.CopyConfig(config)
		config.WarningHandlerWithContext = heard
		if err := do(dynamic.NewForConfigOrDie(config)); err != nil {
			t.Fatal(err)
		}
		return strings.Join(*heard, "\n")
	}
	// told does something as an administrator, and returns the warnings.
	told := func(do func(dynamic.Interface) error) string {
		t.Helper()
		return toldTo(s.admin, do)
	}
	var dryRun []string
	const version = "authorization.proviso.dev/v1alpha1"
	deny := func(verbs ...any) map[string]any {
		return map[string]any{"deny": true, "verbs": verbs, "resourceKinds": []any{"configmaps"}, "attributeRestrictions": map[string]any{"labelsContain": []any{"team"}}}
	}
	role := func(rules ...any) func(dynamic.Interface) error {
		return func(by dynamic.Interface) error {
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": "Role", "metadata": map[string]any{"name": "po-keep", "namespace": "po-a"}, "rules": rules}}
			_, err := by.Resource(policyRole).Namespace("po-a").Apply(t.Context(), "po-keep", o, metav1.ApplyOptions{FieldManager: "test", Force: true, DryRun: dryRun})
			return err
		}
	}
	bind := func(user string) func(dynamic.Interface) error {
		return func(by dynamic.Interface) error {
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": "RoleBinding", "metadata": map[string]any{"name": "po-keep-" + user, "namespace": "po-a"},
				"roleRef": map[string]any{"name": "po-keep"}, "userNames": []any{user}}}
			_, err := by.Resource(policyBind).Namespace("po-a").Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "test", Force: true, DryRun: dryRun})
			return err
		}
	}
	const warned = `label team, which User "po-edgar" can change first, by updating configmaps; a ProtectedAttribute in namespace po-a for the label team would close it`
	if text := told(role(deny("delete"))); text != "" {
		t.Errorf("nobody is bound: %s", text)
	}
	if text := told(bind("po-dora")); text != "" {
		t.Errorf("a user who may not update: %s", text)
	}
	if text := told(bind("po-edgar")); !strings.Contains(text, `Role "po-a/po-keep": rules[0]: it depends on the `+warned) {
		t.Errorf("the binding: %q", text)
	}
	// The warning is right.
	s.await("the deny", func() (bool, error) {
		err := edgar.Delete(t.Context(), "one", metav1.DeleteOptions{DryRun: []string{"All"}})
		return err != nil, nil
	})
	unlabel := func() error {
		_, err := edgar.Patch(t.Context(), "one", types.MergePatchType, []byte(`{"metadata":{"labels":{"team":null}}}`), metav1.PatchOptions{DryRun: []string{"All"}})
		return err
	}
	fine(t, "unlabelling", unlabel())
	if text := told(role(deny("delete", "deletecollection"))); !strings.Contains(text, "rules[0]: it depends on the "+warned) {
		t.Errorf("the role: %q", text)
	}
	// NI-1: who writes roles and may not ask who can do something is not told what po-edgar can do.
	writes := map[string]any{"verbs": []any{"get", "create", "patch", "update", "bind", "escalate", "deny"}, "resourceKinds": []any{"roles.authorization.proviso.dev", "rolebindings.authorization.proviso.dev"}}
	grantPolicy(t, admin, "po-a", "po-write", "po-walt", writes)
	grantPolicy(t, admin, "po-a", "po-write-too", "po-wanda", writes)
	grantPolicy(t, admin, "po-a", "po-ask", "po-wanda", map[string]any{"verbs": []any{"create"}, "resourceKinds": []any{"resourceaccessreviews.authorization.proviso.dev"}})
	s.await("the right to ask", func() (bool, error) {
		dryRun = []string{"All"}
		return strings.Contains(toldTo(s.as("po-wanda"), role(deny("delete"))), warned), nil
	})
	fine(t, "unbinding", admin.Resource(policyBind).Namespace("po-a").Delete(t.Context(), "po-keep-po-edgar", metav1.DeleteOptions{}))
	for what, do := range map[string]func(dynamic.Interface) error{"role": role(deny("delete")), "binding": bind("po-edgar")} {
		if text := toldTo(s.as("po-walt"), do); text != "" {
			t.Errorf("by the %s po-walt is told: %s", what, text)
		}
	}
	if text := toldTo(s.as("po-wanda"), bind("po-edgar")); !strings.Contains(text, warned) {
		t.Errorf("by the binding po-wanda is told: %q", text)
	}
	dryRun = nil
	fine(t, "binding", bind("po-edgar")(admin))
	if text := told(role(deny("update", "delete"))); text != "" {
		t.Errorf("update is denied, too: %s", text)
	}
	protection := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "policy.proviso.dev/v1alpha1", "kind": "ProtectedAttribute", "metadata": map[string]any{"name": "po-team", "namespace": "po-a"},
		"attributeKind": "Label", "attributeName": "team", "resources": []any{"configmaps"}, "roleRef": map[string]any{"apiGroup": "authorization.proviso.dev", "kind": "Role", "namespace": "master", "name": "admin"}}}
	of := schema.GroupVersionResource{Group: "policy.proviso.dev", Version: "v1alpha1", Resource: "protectedattributes"}
	if _, err := admin.Resource(of).Namespace("po-a").Create(t.Context(), protection, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if text := told(role(deny("delete"))); text != "" {
		t.Errorf("it is protected: %s", text)
	}
	s.await("the protection", func() (bool, error) {
		err := unlabel()
		return err != nil && strings.Contains(err.Error(), "label team=a is protected"), nil
	})
}

// PO-26: a user who has * on everything in a namespace holds no special verb that is not named.
func TestSpecialVerbsAreNotInAStar(t *testing.T) {
	t.Parallel()
	s := plain.get(t)
	admin, client := dynamic.NewForConfigOrDie(s.admin), kubernetes.NewForConfigOrDie(s.admin)
	furnish(t, client, "po-b")
	special := []string{"escalate", "bind", "deny", "approve", "impersonate", "impersonate:user-info", "unsafe-delete-ignore-read-errors", "granular:labels", "reveal:example.com/x"}
	grantPolicy(t, admin, "po-b", "po-star", "po-star", map[string]any{"verbs": []any{"*"}, "resourceKinds": []any{"*"}})
	grantPolicy(t, admin, "po-b", "po-but", "po-but", map[string]any{"verbs": []any{"-get"}, "resourceKinds": []any{"-secrets"}})
	var named []any
	for _, verb := range special {
		named = append(named, verb)
	}
	grantPolicy(t, admin, "po-b", "po-named", "po-named", map[string]any{"verbs": named, "resourceKinds": []any{"*"}})
	may := func(user, verb string) bool {
		review, err := client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "po-b", Verb: verb, Resource: "configmaps"}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return review.Status.Allowed
	}
	s.await("the rights", func() (bool, error) {
		return may("po-star", "delete") && may("po-but", "delete") && slices.IndexFunc(special, func(v string) bool { return !may("po-named", v) }) < 0, nil
	})
	for _, verb := range special {
		for _, user := range []string{"po-star", "po-but"} {
			if may(user, verb) {
				t.Errorf("%s may %s", user, verb)
			}
		}
	}
}
