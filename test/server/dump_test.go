package server

import (
	"context"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/cli/policytools"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/state/source"
)

// TR-1: the file that `proviso dump` writes about a server decides as the server does and holds nothing secret, and a
// user who may not read the policy is told what is missing.
func TestDump(t *testing.T) {
	s := plain.get(t)
	ctx := context.Background()
	client, err := kubernetes.NewForConfig(s.admin)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dumped", "dumped-not"} {
		if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	applied(t, s.admin,
		`{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"Policy","metadata":{"name":"default","namespace":"dumped"}}`,
		`{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"PolicyBinding","metadata":{"name":"dumped","namespace":"dumped"},"policyRef":{"namespace":"dumped"}}`,
		`{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"Role","metadata":{"name":"dev","namespace":"dumped","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"hush"}},"rules":[{"verbs":["get","create"],"resourceKinds":["configmaps","Gadget.forge.example.com"]},{"deny":true,"verbs":["delete"],"resourceKinds":["*"]}]}`,
		`{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"RoleBinding","metadata":{"name":"dev","namespace":"dumped"},"roleRef":{"namespace":"dumped","name":"dev"},"userNames":["dumped-edgar"]}`,
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gadgets.forge.example.com"},"spec":{"group":"forge.example.com","scope":"Namespaced","names":{"plural":"gadgets","kind":"Gadget"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`,
	)
	// Not to edit: it gathers its rules, and no controller runs on this server that would do it.
	if _, err := client.RbacV1().RoleBindings("dumped").Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "edit"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:aggregate-to-edit"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "dumped-hubert"}, {APIGroup: rbacv1.GroupName, Kind: "User", Name: "dumped-edgar"}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	type question struct{ user, verb, group, resource, namespace string }
	var questions []question
	for _, u := range []string{"dumped-edgar", "dumped-hubert", "system:kube-scheduler", "nobody"} {
		for _, verb := range []string{"get", "create", "delete", "list"} {
			for _, r := range [][2]string{{"", "configmaps"}, {"", "secrets"}, {"", "nodes"}, {"apps", "deployments"}, {"forge.example.com", "gadgets"}, {"policy.proviso.dev", "policies"}} {
				for _, ns := range []string{"dumped", "dumped-not", ""} {
					questions = append(questions, question{u, verb, r[0], r[1], ns})
				}
			}
		}
	}
	answers := func() (all []bool) {
		for _, q := range questions {
			review, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: q.user, Groups: []string{user.AllAuthenticated},
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: q.verb, Group: q.group, Resource: q.resource, Namespace: q.namespace}}}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, review.Status.Allowed)
		}
		return all
	}
	var dumped string
	s.await("the files to decide as the server does", func() (bool, error) { // a policy is effective a moment after it was written
		out, _, err := s.run(t, policytools.NewDumpCommand)
		if err != nil {
			return false, err
		}
		dumped = out
		host, err := offline.New(offline.Config{Texts: []source.Text{{Name: "dump", Data: []byte(dumped)}}, MasterNamespace: "master"})
		if err != nil {
			return false, err
		}
		var from []bool
		for _, q := range questions {
			decision, _, err := host.Authorize(ctx, authorizer.AttributesRecord{User: &user.DefaultInfo{Name: q.user, Groups: []string{user.AllAuthenticated}}, Verb: q.verb, APIGroup: q.group, APIVersion: "*",
				Resource: q.resource, Namespace: q.namespace, ResourceRequest: true})
			if err != nil {
				return false, err
			}
			from = append(from, decision == authorizer.DecisionAllow)
		}
		return slices.Equal(from, answers()) && slices.Contains(from, true), nil
	})
	for _, document := range strings.Split(dumped, "---\n") {
		for _, secret := range []string{"managedFields:", "last-applied-configuration:", "hush", "kind: Secret\n"} {
			if strings.Contains(document, secret) && !strings.Contains(document, "kind: APIResourceList") {
				t.Errorf("%s in %s", secret, document)
			}
		}
	}
	edgar := rest.CopyConfig(s.admin)
	edgar.Impersonate = rest.ImpersonationConfig{UserName: "dumped-edgar"}
	if _, err := source.Dump(ctx, edgar); err == nil || !strings.Contains(err.Error(), "you may not list") || !strings.Contains(err.Error(), "policies.policy.proviso.dev") || !strings.Contains(err.Error(), "ask for a cluster role") {
		t.Errorf("what is missing: %v", err)
	}
}

// applied creates objects from JSON.
func applied(t *testing.T, config *rest.Config, manifests ...string) {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, manifest := range manifests {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(manifest), &object.Object); err != nil {
			t.Fatal(err)
		}
		gvr := object.GroupVersionKind().GroupVersion().WithResource(strings.TrimSuffix(strings.ToLower(object.GetKind()), "y") + map[bool]string{true: "ies", false: "s"}[strings.HasSuffix(object.GetKind(), "y")])
		if _, err := client.Resource(gvr).Namespace(object.GetNamespace()).Create(context.Background(), object, metav1.CreateOptions{}); err != nil {
			t.Fatalf("%s: %v", object.GetName(), err)
		}
	}
}
