package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/engine/revision"
	"proviso.dev/proviso/internal/hosts/apiserver"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/freshness"
	"proviso.dev/proviso/test/etcdtest"
)

// slowWatches delays every piece of what watches of the server on itself bring, and now and then lets one end or be
// told that its revision is gone, so that everything is listed again.
type slowWatches struct {
	next http.RoundTripper
	// broken counts the watches that were ended.
	broken *atomic.Int64
}

func (s slowWatches) RoundTrip(r *http.Request) (*http.Response, error) {
	watch := r.URL.Query().Get("watch")
	if watch != "true" && watch != "1" {
		return s.next.RoundTrip(r)
	}
	if rand.IntN(8) == 0 && r.URL.Query().Get("sendInitialEvents") == "" {
		s.broken.Add(1)
		body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old"}`
		return &http.Response{StatusCode: http.StatusGone, Status: "410 Gone", Request: r, ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
	resp, err := s.next.RoundTrip(r)
	if err == nil {
		resp.Body = &slowBody{ReadCloser: resp.Body, broken: s.broken}
	}
	return resp, err
}

type slowBody struct {
	io.ReadCloser
	broken *atomic.Int64
}

func (b *slowBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	time.Sleep(rand.N(25 * time.Millisecond))
	if rand.IntN(400) == 0 {
		b.broken.Add(1)
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

// asker sends requests to one replica.
type asker struct {
	t      testing.TB
	host   string
	client *http.Client
}

func (s *instance) asker(as *rest.Config) asker {
	s.t.Helper()
	config := rest.CopyConfig(as)
	config.Host = s.admin.Host
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		s.t.Fatal(err)
	}
	return asker{s.t, config.Host, client}
}

// send returns the code, the revision of what was written, and the answer.
func (a asker) send(method, path, body, atLeast string) (int, string, map[string]any) {
	a.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, a.host+path, bytes.NewBufferString(body))
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if atLeast != "" {
		r.Header.Set(freshness.AtLeast, atLeast)
	}
	resp, err := a.client.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	answer := map[string]any{}
	if err := json.Unmarshal(data, &answer); err != nil {
		a.t.Fatalf("%s %s: %s", method, path, data)
	}
	return resp.StatusCode, resp.Header.Get(freshness.Header), answer
}

// wrote sends something that must succeed, and returns its revision.
func (a asker) wrote(method, path, body string) string {
	a.t.Helper()
	code, token, answer := a.send(method, path, body, "")
	if code >= http.StatusMultipleChoices || token == "" {
		a.t.Fatalf("%s %s: %d, revision %q: %v", method, path, code, token, answer)
	}
	return token
}

const reviewPath = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

// allowed asks whether edgar may create config maps, by policy that is at least as new, until there is an answer.
func (a asker) allowed(atLeast string) (yes bool, token string) {
	a.t.Helper()
	for {
		code, _, answer := a.send("POST", reviewPath, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"edgar","conditionalAuthorization":{"mode":"Optimized"},"atLeastRevision":"`+atLeast+`",
			"resourceAttributes":{"verb":"create","version":"v1","resource":"configmaps","namespace":"default"}}}`, "")
		switch code {
		case http.StatusConflict:
			continue
		case http.StatusCreated:
		default:
			a.t.Fatalf("%d %v", code, answer)
		}
		status := answer["status"].(map[string]any)
		token, _ = status["policyRevision"].(string)
		yes, _ = status["allowed"].(bool)
		return yes, token
	}
}

// TR-13, TR-14: what is written on one replica is asked for on another, whose watches are late, end and begin again:
// the answer is never the old one. PROVISO_REVISION_TRIES says how often; `go run ./hack/prove revisions` does it
// 10,000 times.
func TestRevisionsAcrossReplicas(t *testing.T) {
	tries, err := strconv.Atoi(os.Getenv("PROVISO_REVISION_TRIES"))
	if err != nil {
		tries = 30
	}
	etcd := etcdtest.Start(t)
	join := func(o *apiserver.Options) {
		useEtcd(o, etcd)
		o.Give("controllers", "data-dir", "etcd-servers")
	}
	audited := &auditTrail{annotations: map[string]map[string]string{}}
	one := start(t, join, func(o *apiserver.Options) { o.AuditTo(audited, audited) })
	var broken atomic.Int64
	two := start(t, join, func(o *apiserver.Options) {
		copyPKI(t, one.dir, o.DataDir)
		o.Configure(func(generic *genericapiserver.Config) error {
			generic.LoopbackClientConfig.Wrap(func(next http.RoundTripper) http.RoundTripper { return slowWatches{next, &broken} })
			return nil
		})
	})
	here, there, edgar := one.asker(one.admin), two.asker(one.admin), two.asker(one.as("edgar"))
	here.wrote("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"metadata":{"name":"maker"},"rules":[{"verbs":["create"],"apiGroups":[""],"resources":["configmaps"]}]}`)

	here.wrote("POST", "/apis/policy.proviso.dev/v1alpha1/namespaces/default/policies", `{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"Policy","metadata":{"name":"default"}}`)
	here.wrote("POST", "/apis/policy.proviso.dev/v1alpha1/namespaces/default/policybindings", `{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"PolicyBinding","metadata":{"name":"default"},"policyRef":{"namespace":"default"}}`)
	here.wrote("POST", "/apis/authorization.proviso.dev/v1alpha1/namespaces/default/roles", `{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"Role","metadata":{"name":"maker"},"rules":[{"verbs":["create"],"resourceKinds":["configmaps"]}]}`)

	t.Run("every decision has its revision", func(t *testing.T) { decisionsAreDated(t, here, audited) })
	t.Run("who changed what", func(t *testing.T) { journalIsServed(t, here, one.asker(one.as("nobody"))) })
	t.Run("history and rollback", func(t *testing.T) { historyAndRollback(t, one, here) })
	t.Run("what cannot be had is refused", func(t *testing.T) { badRevisions(t, there, edgar) })
	t.Run("a quiet source is as new as its content", func(t *testing.T) {
		_, token := here.allowed("")
		code, _, answer := there.send("GET", "/api/v1/namespaces/default", "", token)
		if code != http.StatusOK {
			code, _, answer = there.send("GET", "/api/v1/namespaces/default", "", token)
		}
		if code != http.StatusOK {
			t.Errorf("%d %v", code, answer)
		}
	})

	ways := []struct{ create, body string }{
		{"/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", `{"metadata":{"name":"edgar"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"maker"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"edgar"}]}`},
		{"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"name":"edgar"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"maker"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"edgar"}]}`},
		{"/apis/authorization.proviso.dev/v1alpha1/namespaces/default/rolebindings", `{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"RoleBinding","metadata":{"name":"edgar"},"userNames":["edgar"],"roleRef":{"name":"maker"}}`},
	}
	begin, behind := time.Now(), 0
	for i := range tries {
		way := ways[i%len(ways)]
		granted := here.wrote("POST", way.create, way.body)
		if yes, _ := there.allowed(granted); !yes {
			t.Fatalf("try %d: a grant at %s is not known", i, granted)
		}
		revoked := here.wrote("DELETE", way.create+"/edgar", "")
		if i%2 == 0 {
			if yes, token := there.allowed(revoked); yes {
				t.Fatalf("try %d: revoked at %s, and allowed at %s", i, revoked, token)
			}
			continue
		}
		code := http.StatusConflict
		for code == http.StatusConflict {
			code, _, _ = edgar.send("POST", "/api/v1/namespaces/default/configmaps?dryRun=All", fmt.Sprintf(`{"metadata":{"name":"try-%d"}}`, i), revoked)
			if code == http.StatusConflict {
				behind++
			}
		}
		if code != http.StatusForbidden {
			t.Fatalf("try %d: revoked at %s, and created: %d", i, revoked, code)
		}
	}
	t.Logf("%d tries in %v; %d watches ended, %d answers of 409", tries, time.Since(begin).Round(time.Second), broken.Load(), behind)
}

// decisionsAreDated: reviews, audit events and writes say which revision they have (TR-13).
func decisionsAreDated(t *testing.T, here asker, audited *auditTrail) {
	written := here.wrote("POST", "/apis/policy.proviso.dev/v1alpha1/clusterprotectedattributes", `{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"ClusterProtectedAttribute","metadata":{"name":"dated"},"attributeKind":"Label","attributeName":"dated","roleRef":{"kind":"ClusterRole","name":"maker"}}`)
	v, err := revision.Parse(written)
	if err != nil || len(v) != 1 || v[0].Source != "clusterprotectedattributes.policy.proviso.dev" {
		t.Errorf("a write names %v %v", v, err)
	}
	deleted := here.wrote("DELETE", "/apis/policy.proviso.dev/v1alpha1/clusterprotectedattributes/dated", "")
	if d, err := revision.Parse(deleted); err != nil || d[0].At <= v[0].At || d[0].Source != v[0].Source {
		t.Errorf("a deletion names %v %v, the write %v", d, err, v)
	}
	_, token := here.allowed(deleted)
	all, err := revision.Parse(token)
	if err != nil || len(all) < 10 || len(all.Lacks(revision.Vector{{Source: v[0].Source, At: v[0].At + 1}})) > 0 {
		t.Errorf("a review names %v %v", all, err)
	}
	for _, path := range []string{"subjectaccessreviews", "resourceaccessreviews"} {
		code, _, answer := here.send("POST", "/apis/authorization.proviso.dev/v1alpha1/"+path, `{"spec":{"verb":"get","resourceKind":"pods","atLeastRevision":"`+deleted+`"}}`, "")
		status, _ := answer["status"].(map[string]any)
		if code != http.StatusCreated || status["policyRevision"] == nil {
			t.Errorf("%s: %d %v", path, code, answer)
		}
	}
	if _, token, _ := here.send("GET", "/apis/policy.proviso.dev/v1alpha1/policies", "", ""); token != "" {
		t.Error("a read has a revision of a write")
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, here.host+"/api/v1/namespaces/default", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Audit-Id", "dated")
	resp, err := here.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	audited.mu.Lock()
	defer audited.mu.Unlock()
	if v, err := revision.Parse(audited.annotations["dated"][authorize.AnnotationRevision]); err != nil || len(v) < 10 {
		t.Errorf("the audit event: %v %v", v, audited.annotations["dated"])
	}
}

// journalIsServed: the journal has what was written, with who and at which revision, for those who may read it (TR-15).
func journalIsServed(t *testing.T, here, nobody asker) {
	const path = "/proviso/policy/history"
	code, _, answer := here.send("GET", path, "", "")
	entries, _ := answer["entries"].([]any)
	if code != http.StatusOK || answer["kind"] != "PolicyHistory" || len(entries) == 0 {
		t.Fatalf("%d %v", code, answer)
	}
	var verbs []string
	for _, e := range entries {
		if e := e.(map[string]any); e["name"] == "dated" && e["resource"] == "clusterprotectedattributes" {
			verbs = append(verbs, fmt.Sprint(e["verb"]))
			if e["user"] == nil || e["revision"] == nil || (e["before"] == nil) == (e["after"] == nil) {
				t.Errorf("%v", e)
			}
		}
	}
	if fmt.Sprint(verbs) != "[create delete]" {
		t.Errorf("the changes are %v", verbs)
	}
	// TR-19: everybody may ask for the journal, and sees the changes of what they may get, and not how many others
	// there are.
	code, _, answer = nobody.send("GET", path, "", "")
	seen, _ := answer["entries"].([]any)
	if code != http.StatusOK || answer["hidden"] != nil {
		t.Errorf("a user who may read no roles: %d, %v hidden", code, answer["hidden"])
	}
	for _, e := range seen { // which everybody may get (PA-16)
		if e := e.(map[string]any); e["resource"] != "clusterprotectedattributes" {
			t.Errorf("a user who may read no roles sees %v", e)
		}
	}
}

// badRevisions: no revision, one that does not exist yet, one of somebody who may do nothing (TR-14).
func badRevisions(t *testing.T, there, edgar asker) {
	future := revision.Of(revision.Entry{Source: "policies.policy.proviso.dev", At: 1 << 40}).Token()
	path := "/api/v1/namespaces/default/configmaps"
	for _, test := range []struct {
		name, token, want string
		who               asker
		code              int
	}{
		{"no revision", "x!", "is not a policy revision", there, http.StatusBadRequest},
		{"not yet", future, "does not exist yet", there, http.StatusConflict},
		{"not yet, and not allowed", future, "does not exist yet", edgar, http.StatusConflict},
	} {
		code, _, answer := test.who.send("POST", path, `{"metadata":{"name":"never"}}`, test.token)
		if code != test.code || !strings.Contains(fmt.Sprint(answer["message"]), test.want) {
			t.Errorf("%s: %d %v", test.name, code, answer)
		}
		if code, _, answer := there.send("POST", reviewPath, `{"spec":{"user":"edgar","atLeastRevision":"`+test.token+`","resourceAttributes":{"verb":"get","resource":"pods"}}}`, ""); code != test.code || !strings.Contains(fmt.Sprint(answer["message"]), test.want) {
			t.Errorf("%s, in a review: %d %v", test.name, code, answer)
		}
	}
	if code, _, _ := there.send("GET", path+"/never", "", ""); code != http.StatusNotFound {
		t.Errorf("a write that was refused has happened: %d", code)
	}
}
