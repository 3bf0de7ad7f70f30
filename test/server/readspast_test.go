package server

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/enforce"
)

// hiddenReadsAreAudited: RD-4. The audit event knows what the caller is not told: what a list was narrowed to, and
// whether a name was hidden or is not there.
func hiddenReadsAreAudited(t *testing.T, s *instance, audited *auditTrail) {
	t.Helper()
	const all = "/api/v1/namespaces/default/configmaps"
	ann := newReader(t, s.as("ann"))
	for path, want := range map[string]map[string]string{
		all:                             {authorize.AnnotationNarrowed: "labelSelector team=a", authorize.AnnotationPending: "policy-master"},
		all + "?labelSelector=team%3Da": {authorize.AnnotationNarrowed: "", authorize.AnnotationPending: "policy-master"},
		all + "?watch=1&timeoutSeconds=1&labelSelector=team%3Db": {authorize.AnnotationNarrowed: "nothing: no object can meet the condition"},
		all + "/a1":      {authorize.AnnotationPending: "policy-master", enforce.AnnotationDecision: "allow", authorize.AnnotationOutcome: "Allow", enforce.AnnotationAuthorizer: "policy-master"},
		all + "/hidden1": {authorize.AnnotationPending: "policy-master", enforce.AnnotationDecision: "forbid", authorize.AnnotationOutcome: "NoOpinion"},
		all + "/nosuch":  {authorize.AnnotationPending: "policy-master", enforce.AnnotationDecision: "", authorize.AnnotationOutcome: ""},
	} {
		got := ann.get(path)
		var annotations map[string]string
		s.await("the audit event of "+path, func() (bool, error) {
			audited.mu.Lock()
			defer audited.mu.Unlock()
			annotations = audited.annotations[got.header.Get("Audit-ID")]
			return annotations != nil, nil
		})
		for key, value := range want {
			if annotations[key] != value {
				t.Errorf("%s: annotation %s is %q, want %q: %v", path, key, annotations[key], value, annotations)
			}
		}
		if strings.Contains(got.body, "condition") && got.code == http.StatusNotFound {
			t.Errorf("%s: the answer tells more than that there is nothing: %s", path, got.body)
		}
	}
}

// readsOfThePast: RD-6. Old revisions are judged by today's condition on the state of then, and a token of a page
// grants nothing after the right is gone.
func readsOfThePast(t *testing.T, s *instance, admin dynamic.Interface) {
	t.Helper()
	ctx := t.Context()
	const all = "/api/v1/namespaces/default/configmaps"
	put := func(name, team, text string) string {
		t.Helper()
		o := teamObject("ConfigMap", "v1", "default", name, map[string]any{"team": team})
		o.Object["data"] = map[string]any{"secret": text}
		written, err := admin.Resource(configmaps).Namespace("default").Apply(ctx, name, o, metav1.ApplyOptions{FieldManager: "past", Force: true})
		if err != nil {
			t.Fatal(err)
		}
		return written.GetResourceVersion()
	}
	grantReads(t, admin, "see-past", "pat", readRule(`resource.metadata.labels.team == "p"`, "configmaps"))
	pat := newReader(t, s.as("pat"))
	s.await("the right to list", func() (bool, error) { return pat.get(all).code == http.StatusOK, nil })

	put("joins", "q", "before-it-joined")
	put("leaves", "p", "before-it-left")
	put("past1", "p", "then")
	then := put("past2", "p", "then")
	put("joins", "p", "after-it-joined")
	put("leaves", "q", "after-it-left")
	now := put("past1", "p", "now")
	// The first waits until the watch cache has seen the last write: what is not older than then may lack it before.
	for _, want := range []struct {
		query   string
		names   []string
		present string
	}{
		{"?resourceVersion=" + now, []string{"joins", "past1", "past2"}, "now"},
		{"?resourceVersion=" + then, []string{"joins", "past1", "past2"}, "now"},
		{"?resourceVersionMatch=Exact&resourceVersion=" + then, []string{"leaves", "past1", "past2"}, "before-it-left"},
		{"?resourceVersionMatch=Exact&resourceVersion=" + now, []string{"joins", "past1", "past2"}, "after-it-joined"},
		{"", []string{"joins", "past1", "past2"}, "after-it-joined"},
	} {
		got := pat.get(all + want.query)
		if !slices.Equal(got.names(t), want.names) || !strings.Contains(got.body, want.present) || strings.Contains(got.body, "before-it-joined") || strings.Contains(got.body, "after-it-left") {
			t.Errorf("%q: %s\n%s", want.query, got.names(t), got.body)
		}
	}
	if got := pat.get(all + "/leaves?resourceVersion=" + then); got.code != http.StatusNotFound {
		t.Errorf("a get of the past: %d %s", got.code, got.body)
	}
	// A page of the past goes on in the past, with the state of then.
	token := func(query string) string {
		t.Helper()
		var page metav1.PartialObjectMetadataList
		if got := pat.get(all + query); json.Unmarshal([]byte(got.body), &page) != nil || page.Continue == "" {
			t.Fatalf("%s: %s", query, got.body)
		}
		return "&continue=" + url.QueryEscape(page.Continue)
	}
	old := token("?limit=1&resourceVersionMatch=Exact&resourceVersion=" + then)
	if got := pat.get(all + "?limit=5" + old); !slices.Equal(got.names(t), []string{"past1", "past2"}) || strings.Contains(got.body, "now") {
		t.Errorf("the next page of the past: %s", got.body)
	}
	fresh := token("?limit=1")

	// Another condition: what was seen before, by the same tokens and revisions, is judged by the new one.
	grantReads(t, admin, "see-past", "pat", readRule(`resource.metadata.labels.team == "q"`, "configmaps"))
	s.await("the new condition", func() (bool, error) { return slices.Equal(pat.get(all).names(t), []string{"leaves"}), nil })
	for query, want := range map[string][]string{
		"?limit=5" + old:   {},
		"?limit=5" + fresh: {"leaves"},
		"?resourceVersionMatch=Exact&resourceVersion=" + then: {"joins"},
	} {
		if got := pat.get(all + query); !slices.Equal(got.names(t), want) || strings.Contains(got.body, "before-it-left") || strings.Contains(got.body, "after-it-joined") {
			t.Errorf("by another condition, %s: %s", query, got.body)
		}
	}
	if got := pat.get(all + "?watch=1&timeoutSeconds=5&resourceVersion=" + then); !strings.Contains(got.body, `"code":410`) || strings.Contains(got.body, "secret") {
		t.Errorf("a watch of the past by another condition: %s", got.body)
	}
	// No right at all.
	if err := admin.Resource(policyBind).Namespace("master").Delete(ctx, "see-past", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.await("the right to be gone", func() (bool, error) { return pat.get(all).code == http.StatusForbidden, nil })
	for _, query := range []string{"?limit=5" + old, "?limit=5" + fresh, "?resourceVersionMatch=Exact&resourceVersion=" + then, "?watch=1&timeoutSeconds=1&resourceVersion=" + then} {
		if got := pat.get(all + query); got.code != http.StatusForbidden {
			t.Errorf("without a right, %s: %d %s", query, got.code, got.body)
		}
	}
}
