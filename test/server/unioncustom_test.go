package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
)

var kites = schema.GroupVersionResource{Group: "union.example.com", Version: "v1", Resource: "kites"}

const kitesYAML = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kites.union.example.com}
spec:
  group: union.example.com
  scope: Namespaced
  names: {kind: Kite, listKind: KiteList, plural: kites, singular: kite}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {color: {type: string}}}}}}
`

// RD-11: unions of custom resources: lists, pages, tables, old revisions, watches and watch-lists.
func TestUnionOfCustomResources(t *testing.T) {
	t.Parallel()
	s := united.get(t)
	admin, client := dynamic.NewForConfigOrDie(s.admin), kubernetes.NewForConfigOrDie(s.admin)
	newCaller(t, s.admin).must(t, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", kitesYAML)
	furnish(t, client, "unc-a", "unc-b", "unc-c", "unc-d")
	put := func(ns, name, color string) *unstructured.Unstructured {
		t.Helper()
		var out *unstructured.Unstructured
		s.await("a kite", func() (bool, error) {
			var err error
			out, err = admin.Resource(kites).Namespace(ns).Apply(t.Context(), name, &unstructured.Unstructured{Object: map[string]any{"apiVersion": "union.example.com/v1", "kind": "Kite",
				"metadata": map[string]any{"name": name, "namespace": ns}, "spec": map[string]any{"color": color}}}, metav1.ApplyOptions{FieldManager: "test", Force: true})
			return err == nil, nil
		})
		return out
	}
	for _, ns := range []string{"unc-a", "unc-b", "unc-c", "unc-d"} {
		put(ns, "one", "red")
		put(ns, "two", "blue")
	}
	rule := rbacReads("kites")
	rule.APIGroups = []string{kites.Group}
	grantRBAC(t, client, "unc-a", "unc", toUser("unc"), rule)
	rule.ResourceNames = []string{"one", "three"}
	grantRBAC(t, client, "unc-b", "unc", toUser("unc"), rule)
	grantPolicy(t, admin, "unc-c", "unc", "unc", readRule(`resource.spec.color == "red"`, "kites.union.example.com"))
	const all = "/apis/union.example.com/v1/kites"
	r := newReader(t, s.as("unc"))
	want := []string{"unc-a/one", "unc-a/two", "unc-b/one", "unc-c/one"}
	s.await("the rights", func() (bool, error) {
		got := r.get(all)
		return got.code == http.StatusOK && len(got.names(t)) == len(want), nil
	})
	for _, path := range []string{"?", "?limit=1", "?limit=3", "?resourceVersion=0", "?resourceVersion=0&limit=2"} {
		if got := r.places(all + path); !slices.Equal(got, want) {
			t.Errorf("%s: %s", path, got)
		}
	}
	for _, accept := range []string{"application/json;as=Table;v=v1;g=meta.k8s.io", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "application/yaml"} {
		if got := r.get(all, accept); got.code != http.StatusOK || strings.Contains(got.body, "unc-d") || strings.Count(got.body, "unc-c") == 0 {
			t.Errorf("%s: %d %s", accept, got.code, got.body)
		}
	}
	in := dynamic.NewForConfigOrDie(s.as("unc")).Resource(kites)
	list, err := in.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := in.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	put("unc-d", "three", "red")                               // not theirs
	put("unc-c", "two", "red")                                 // enters
	put("unc-c", "one", "blue")                                // leaves
	put("unc-b", "four", "red")                                // has another name
	put("unc-b", "three", "red")                               // is new
	put("unc-c", "one", "green")                               // stays outside
	then := put("unc-a", "two", "yellow").GetResourceVersion() // changes
	for _, want := range []string{"ADDED unc-c/two red", "DELETED unc-c/one red", "ADDED unc-b/three red", "MODIFIED unc-a/two yellow"} {
		select {
		case e := <-w.ResultChan():
			if got := event(e); got != want {
				t.Fatalf("%s, want %s", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("nothing, want %s", want)
		}
	}
	put("unc-a", "two", "black")
	got := r.get(all + "?resourceVersionMatch=Exact&resourceVersion=" + then)
	if names := got.names(t); len(names) != 5 || !strings.Contains(got.body, "yellow") || strings.Contains(got.body, "black") {
		t.Errorf("of the past: %s %s", names, got.body)
	}
	if got := r.get(all + "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1"); strings.Count(got.body, `"ADDED"`) != 5 || !strings.Contains(got.body, "k8s.io/initial-events-end") {
		t.Errorf("a watch-list: %s", got.body)
	}
	if got := r.get("/apis/union.example.com/v1/namespaces/unc-d/kites"); got.code != http.StatusForbidden {
		t.Errorf("elsewhere: %d", got.code)
	}
}

func event(e watch.Event) string {
	o, ok := e.Object.(*unstructured.Unstructured)
	if !ok {
		return fmt.Sprintf("%s %v", e.Type, e.Object)
	}
	color, _, _ := unstructured.NestedString(o.Object, "spec", "color")
	return fmt.Sprintf("%s %s/%s %s", e.Type, o.GetNamespace(), o.GetName(), color)
}

// RD-8, RD-11: reviews that ask for conditions, and explain, show a union as conditional, whoever asks.
func TestUnionExplained(t *testing.T) {
	t.Parallel()
	s := united.get(t)
	admin, client := dynamic.NewForConfigOrDie(s.admin), kubernetes.NewForConfigOrDie(s.admin)
	furnish(t, client, "uny-a", "uny-b", "uny-c")
	grantRBAC(t, client, "uny-a", "uny", toUser("uny"), rbacReads("pods"))
	grantPolicy(t, admin, "uny-b", "uny", "uny", readRule(`resource.metadata.labels.team == "a"`, "pods"))
	self, asAdmin := newCaller(t, s.as("uny")), newCaller(t, s.admin)
	r := newReader(t, s.as("uny"))
	s.await("the rights", func() (bool, error) {
		got := r.get("/api/v1/pods")
		return got.code == http.StatusOK && strings.Contains(strings.Join(got.header.Values("Warning"), ""), "2 namespaces"), nil
	})
	for _, attributes := range []string{`{verb: list, resource: pods, version: v1}`, `{verb: watch, resource: pods, version: v1}`, `{verb: list, resource: pods}`} {
		for _, form := range []string{`conditionalAuthorization: {mode: HumanReadable}`, `authorizationOptions: {handledDecisionTypes: [ConditionsMap, Union]}`} {
			for who, body := range map[string][]byte{
				"self": self.must(t, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
					"{apiVersion: authorization.k8s.io/v1, kind: SelfSubjectAccessReview, spec: {resourceAttributes: "+attributes+", "+form+"}}"),
				"another": asAdmin.must(t, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews",
					`{apiVersion: authorization.k8s.io/v1, kind: SubjectAccessReview, spec: {user: uny, groups: ["system:authenticated"], resourceAttributes: `+attributes+", "+form+"}}"),
			} {
				var review struct {
					Status reviewv1.SubjectAccessReviewStatus
				}
				if err := json.Unmarshal(body, &review); err != nil {
					t.Fatal(err)
				}
				if review.Status.Allowed || review.Status.Denied || !strings.Contains(string(body), "narrowed to 2 namespaces") || review.Status.ConditionsChain == nil && review.Status.ConditionalDecision == nil {
					t.Errorf("%s, %s, %s: %s", who, attributes, form, body)
				}
			}
		}
	}
	for who, c := range map[string]*caller{"self": self, "another": asAdmin} {
		var review authz.SubjectAccessReview
		body := c.must(t, "POST", "/apis/authorization.proviso.dev/v1alpha1/subjectaccessreviews", "{apiVersion: authorization.proviso.dev/v1alpha1, kind: SubjectAccessReview, spec: {verb: list, resourceKind: pods, trace: true"+map[string]string{"another": ", userName: uny"}[who]+"}}")
		if err := json.Unmarshal(body, &review); err != nil {
			t.Fatal(err)
		}
		if trace := review.Status.Trace; review.Status.Allowed || trace == nil || trace.Decision != authz.AnswerConditional || trace.NarrowedTo != "2 namespaces" {
			t.Errorf("%s: %s", who, body)
		}
	}
}
