package server

import (
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// delete sends options in the body: without one upstream reads resourceVersion as a precondition.
func (r *reader) delete(path string) shown {
	r.t.Helper()
	options := `{"kind":"DeleteOptions","apiVersion":"v1"}`
	if strings.Contains(path, "dryRun=All") {
		options = `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"]}`
	}
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodDelete, r.host+path, strings.NewReader(options))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return shown{resp.StatusCode, resp.Header, string(body)}
}

// NI-3: upstream answers some deletes without asking admission: of what is being deleted already, and of collections as
// of an older revision. Who may delete only what is theirs, and may read nothing, learns nothing of others' objects.
func TestDeletesThatNobodyAdmittedTellNothing(t *testing.T) {
	t.Parallel()
	s := plain.get(t)
	ctx := t.Context()
	admin := dynamic.NewForConfigOrDie(s.admin)
	namespaces := schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	const ns, finalizer = "unadmitted", "example.com/wait"
	for name, team := range map[string]string{ns: "b", "unadmitted-a": "a"} {
		o := teamObject("Namespace", "v1", "", name, map[string]any{"team": team, "note": "stored-in-the-namespace"})
		if _, err := admin.Resource(namespaces).Create(ctx, o, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	make := func(namespace, name, team string, waits bool) *unstructured.Unstructured {
		o := teamObject("ConfigMap", "v1", namespace, name, map[string]any{"team": team})
		o.Object["data"] = map[string]any{"secret": "stored-in-" + name}
		if waits {
			o.SetFinalizers([]string{finalizer})
		}
		made, err := admin.Resource(configmaps).Namespace(namespace).Create(ctx, o, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if waits {
			if err := admin.Resource(configmaps).Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		return made
	}
	make(ns, "theirs", "b", true)
	make(ns, "living", "b", false)
	make(ns, "ours", "a", true)
	rules := []map[string]any{{"verbs": []any{"delete", "deletecollection"}, "resourceKinds": []any{"configmaps", "namespaces"}, "where": `resource.metadata.labels.team == "a"`}}
	grantReads(t, admin, "unadmitted", "una", rules...)
	una := newReader(t, s.as("una"))
	const one, all = "/api/v1/namespaces/" + ns + "/configmaps/", "/api/v1/namespaces/" + ns + "/configmaps"
	s.await("the right to delete", func() (bool, error) { return una.delete(one+"ours?dryRun=All").code == http.StatusOK, nil })

	living := una.delete(one + "living")
	for _, path := range []string{one + "theirs?dryRun=All", one + "theirs", all + "?dryRun=All", all + "?labelSelector=team%3Db&dryRun=All", all + "?dryRun=All&limit=1",
		all + "?labelSelector=of%3Dnone&dryRun=All", all + "?fieldSelector=metadata.name%3Dliving&dryRun=All"} {
		got := una.delete(path)
		if got.code != http.StatusForbidden || strings.Contains(got.body, "stored-in-") || strings.Contains(got.body, "finalizers") {
			t.Errorf("DELETE %s: %d %s", path, got.code, got.body)
		}
		if !strings.Contains(path, "configmaps/") && (strings.Contains(got.body, "theirs") || strings.Contains(got.body, "living")) {
			t.Errorf("DELETE %s names an object: %s", path, got.body)
		}
		if path == one+"theirs" && strings.ReplaceAll(got.body, "theirs", "living") != living.body {
			t.Errorf("one can tell what is being deleted:\n%s\n%s", got.body, living.body)
		}
	}
	if got := una.delete(all + "?labelSelector=team%3Da&dryRun=All"); got.code != http.StatusOK || !strings.Contains(got.body, "stored-in-ours") {
		t.Errorf("a collection that is theirs: %d %s", got.code, got.body)
	}
	if got := una.delete(all + "?labelSelector=team%3Da,of%3Dnone&dryRun=All"); got.code != http.StatusOK {
		t.Errorf("an empty collection: %d %s", got.code, got.body)
	}

	// A collection as of a revision at which the object was somebody else's, or which is gone since.
	const past = "unadmitted-a"
	changed := make(past, "changed", "b", false)
	gone := make(past, "gone", "b", false)
	if err := admin.Resource(configmaps).Namespace(past).Delete(ctx, "gone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := []byte(`{"metadata":{"labels":{"team":"a"}},"data":{"secret":"new"}}`)
	if _, err := admin.Resource(configmaps).Namespace(past).Patch(ctx, "changed", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{changed.GetResourceVersion(), gone.GetResourceVersion()} {
		got := una.delete("/api/v1/namespaces/" + past + "/configmaps?dryRun=All&resourceVersionMatch=Exact&resourceVersion=" + at)
		if got.code != http.StatusForbidden || strings.Contains(got.body, "stored-in-") {
			t.Errorf("as of %s: %d %s", at, got.code, got.body)
		}
	}

	// A namespace that is being deleted is answered without admission, too.
	if err := admin.Resource(namespaces).Delete(ctx, ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"", "?dryRun=All"} {
		if got := una.delete("/api/v1/namespaces/" + ns + query); got.code != http.StatusForbidden || strings.Contains(got.body, "stored-in-") {
			t.Errorf("a namespace: %d %s", got.code, got.body)
		}
	}
}
