package server

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// RD-15: what k9s and Headlamp ask a server for, as they ask for it, when somebody with rights in two namespaces opens
// them.
func TestUnionClients(t *testing.T) {
	t.Parallel()
	s := united.get(t)
	admin, client := dynamic.NewForConfigOrDie(s.admin), kubernetes.NewForConfigOrDie(s.admin)
	furnish(t, client, "unk-a", "unk-b", "unk-c")
	grantRBAC(t, client, "unk-a", "unk", toUser("unk"), rbacReads("configmaps"), rbacReads("pods"))
	grantPolicy(t, admin, "unk-b", "unk", "unk", readRule(`resource.metadata.labels.team == "a"`, "configmaps"))
	self, unk := kubernetes.NewForConfigOrDie(s.as("unk")), newReader(t, s.as("unk"))
	s.await("the rights", func() (bool, error) {
		got := unk.get("/api/v1/configmaps")
		return got.code == http.StatusOK && len(got.names(t)) == 4, nil
	})
	// k9s asks whether it may list and watch, without a version, and then lists and watches tables.
	for _, resource := range []string{"namespaces", "configmaps", "pods"} {
		for _, verb := range []string{"list", "watch"} {
			got, err := self.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: resource}}}, metav1.CreateOptions{})
			if err != nil || !got.Status.Allowed || !strings.HasPrefix(got.Status.Reason, "narrowed to ") {
				t.Errorf("%s %s: %+v, %v", verb, resource, got, err)
			}
		}
	}
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
	for path, want := range map[string][]string{
		"/api/v1/namespaces": {"unk-a", "unk-b"}, "/api/v1/configmaps?resourceVersion=0": {"one", "one", "three", "two"}, "/api/v1/pods": {}, "/api/v1/namespaces/unk-a/configmaps": {"one", "three", "two"},
	} {
		var rows metav1.Table
		got := unk.get(path, table)
		if got.code != http.StatusOK {
			t.Fatalf("%s: %d %s", path, got.code, got.body)
		}
		decode(t, got.body, &rows)
		names := []string{}
		for _, row := range rows.Rows {
			var object metav1.PartialObjectMetadata
			if err := json.Unmarshal(row.Object.Raw, &object); err != nil {
				t.Fatal(err)
			}
			names = append(names, object.Name)
		}
		if slices.Sort(names); !slices.Equal(names, want) {
			t.Errorf("%s: %s, want %s", path, names, want)
		}
	}
	// Headlamp asks for the rules of a namespace, lists in pages, and watches from the revision of the list.
	rules, err := self.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "unk-a"}}, metav1.CreateOptions{})
	if err != nil || !slices.ContainsFunc(rules.Status.ResourceRules, func(r authorizationv1.ResourceRule) bool { return slices.Contains(r.Resources, "configmaps") }) {
		t.Errorf("the rules: %+v, %v", rules, err)
	}
	for _, path := range []string{"/api/v1/namespaces", "/api/v1/configmaps", "/api/v1/pods"} {
		var list metav1.PartialObjectMetadataList
		got := unk.get(path + "?limit=2")
		if got.code != http.StatusOK {
			t.Fatalf("%s: %d %s", path, got.code, got.body)
		}
		decode(t, got.body, &list)
		if path == "/api/v1/configmaps" && (len(list.Items) != 2 || list.Continue == "") {
			t.Errorf("%s: %s", path, got.body)
		}
		if got := unk.get(path + "?watch=1&timeoutSeconds=1&resourceVersion=" + list.ResourceVersion); got.code != http.StatusOK || strings.Contains(got.body, `"ERROR"`) {
			t.Errorf("watch of %s: %d %s", path, got.code, got.body)
		}
	}
	// kubectl get -A -w: a list of tables in chunks, and a watch with the objects in it.
	got := unk.get("/api/v1/configmaps?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1", table)
	if n := strings.Count(got.body, `"ADDED"`); n != 4 || strings.Contains(got.body, "unk-c") || !strings.Contains(got.body, "k8s.io/initial-events-end") {
		t.Errorf("%d are added: %s", n, got.body)
	}
	// Somebody who may ask about everybody finds them.
	body := `{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"ResourceAccessReview","spec":{"verb":"list","resourceKind":"configmaps"}}`
	who, err := client.RESTClient().Post().AbsPath("/apis/authorization.proviso.dev/v1alpha1/resourceaccessreviews").SetHeader("Content-Type", "application/json").Body([]byte(body)).DoRaw(t.Context())
	var review struct {
		Status struct {
			Conditional []struct{ UserName, NarrowedTo string }
		}
	}
	if err != nil {
		t.Fatalf("%s %v", who, err)
	}
	decode(t, string(who), &review)
	found := false
	for _, c := range review.Status.Conditional {
		found = found || c.UserName == "unk" && c.NarrowedTo == "2 namespaces"
	}
	if !found {
		t.Errorf("who can list config maps everywhere: %s", who)
	}
}
