package cli

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
)

// answering is a server as a client sees it: discovery, and answers by path. What was asked is kept.
type answering struct {
	*httptest.Server
	asked []string
}

func answer(t *testing.T, paths map[string]any) *answering {
	t.Helper()
	s := &answering{}
	paths["/api"] = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	paths["/api/v1"] = resources("v1", metav1.APIResource{Name: "pods", SingularName: "pod", Kind: "Pod", Namespaced: true, ShortNames: []string{"po"}},
		sub("pods/exec", "PodExecOptions"), sub("pods/eviction", "Eviction"), sub("pods/status", "Pod"))
	paths["/apis/apps/v1"] = resources("apps/v1", metav1.APIResource{Name: "deployments", SingularName: "deployment", Kind: "Deployment", Namespaced: true, ShortNames: []string{"deploy"}},
		sub("deployments/status", "Deployment"), sub("deployments/scale", "Scale"))
	groups := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{group("apps", "v1")}}
	if paths["/apis/authorization.proviso.dev/v1alpha1"] != nil {
		groups.Groups = append(groups.Groups, group("authorization.proviso.dev", "v1alpha1"))
	}
	paths["/apis"] = groups
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked = append(s.asked, r.URL.RequestURI())
		found, ok := paths[r.URL.Path]
		if f, is := found.(func(*http.Request) any); is {
			found = f(r)
		}
		w.Header().Set("Content-Type", "application/json")
		switch status, failed := found.(metav1.Status); {
		case !ok:
			http.Error(w, "404 page not found", http.StatusNotFound)
			return
		case failed:
			w.WriteHeader(int(status.Code))
		}
		if err := json.NewEncoder(w).Encode(found); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func group(name, version string) metav1.APIGroup {
	v := metav1.GroupVersionForDiscovery{GroupVersion: name + "/" + version, Version: version}
	return metav1.APIGroup{Name: name, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v}
}

func sub(name, kind string) metav1.APIResource {
	return metav1.APIResource{Name: name, Kind: kind, Namespaced: true, Verbs: metav1.Verbs{"get", "update"}}
}

func resources(version string, list ...metav1.APIResource) metav1.APIResourceList {
	return metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version, APIResources: list}
}

// run runs a command of this package against the server.
func (s *answering) run(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	out, _, err = s.runBoth(t, args...)
	return out, err
}

// runBoth returns also what went to standard error.
func (s *answering) runBoth(t *testing.T, args ...string) (out, errOut string, err error) {
	t.Helper()
	streams, _, stdout, stderr := genericiooptions.NewTestIOStreams()
	for _, c := range Commands(streams) {
		if c.Name() == args[0] {
			c.SilenceUsage, c.SilenceErrors = true, true
			c.SetArgs(append(args[1:], "--server", s.URL, "--cache-dir", t.TempDir(), "--kubeconfig", "/dev/null"))
			err = c.ExecuteContext(t.Context())
		}
	}
	return stdout.String(), stderr.String(), err
}

var served = resources("authorization.proviso.dev/v1alpha1", metav1.APIResource{Name: "permissions", SingularName: "permission", Kind: "Permission"})

var twoPermissions = authz.PermissionList{Items: []authz.Permission{
	{ObjectMeta: metav1.ObjectMeta{Name: "example.com:fuse"}, Permission: "example.com/fuse", Verbs: []string{"granular:example.com/fuse"}, Fields: []authz.PermissionField{
		{Resource: "pods", Field: ".spec.fuse", Verb: "granular:example.com/fuse", Source: `FieldPermission "fuse"`, Exclusive: true, ExclusiveWhen: "self ==\n  true"},
		{Resource: "deployments.apps", Field: ".spec.template.spec.fuse", Verb: "granular:example.com/fuse", Source: `FieldPermission "fuse"`, Exclusive: true, Broken: true},
	}},
	{ObjectMeta: metav1.ObjectMeta{Name: "metadata"}, Permission: "metadata", Verbs: []string{"granular:metadata"}, Fields: []authz.PermissionField{
		{Resource: "*", Field: ".metadata", Verb: "granular:metadata", Source: "shipped"},
	}},
}}

// FP-12, FP-19: `proviso permissions` prints what the server lists, for a resource in any spelling, and says what is
// wrong.
func TestPermissions(t *testing.T) {
	const path = "/apis/authorization.proviso.dev/v1alpha1/permissions"
	s := answer(t, map[string]any{"/apis/authorization.proviso.dev/v1alpha1": served, path: twoPermissions})
	out, err := s.run(t, "permissions")
	if err != nil || squeeze(out) != squeeze(`
GRANT RESOURCE FIELD EXCLUSIVE SOURCE
granular:example.com/fuse pods .spec.fuse sometimes FieldPermission "fuse"
granular:example.com/fuse (broken) deployments.apps .spec.template.spec.fuse yes FieldPermission "fuse"
granular:metadata * .metadata no shipped`) {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = s.run(t, "permissions", "-o", "wide")
	if err != nil || !strings.Contains(squeeze(out), `sometimes FieldPermission "fuse" self == true`) {
		t.Errorf("wide: %v\n%s", err, out)
	}
	for _, format := range []string{"json", "yaml"} {
		if out, err = s.run(t, "permissions", "-o", format); err != nil || !strings.Contains(out, "example.com:fuse") || !strings.Contains(out, "exclusiveWhen") {
			t.Errorf("%s: %v\n%s", format, err, out)
		}
	}

	for spelling, resource := range map[string]string{"deploy": "deployments.apps", "Deployment": "deployments.apps", "deployments.v1.apps": "deployments.apps", "po": "pods", "pods": "pods"} {
		out, err := s.run(t, "permissions", spelling)
		if last := s.asked[len(s.asked)-1]; err != nil || last != path+"?fieldSelector=resource%3D"+resource {
			t.Errorf("%s: asked %s, %v", spelling, last, err)
		}
		// For one resource what is more general comes first.
		if strings.Index(out, ".metadata") > strings.Index(out, ".spec.fuse") {
			t.Errorf("%s: not by field:\n%s", spelling, out)
		}
	}

	for want, args := range map[string][]string{
		`the server does not serve "nosuch"`:   {"permissions", "nosuch"},
		"without a name or a subresource":      {"permissions", "deployments/scale"},
		"want table, wide, name, json or yaml": {"permissions", "-o", "xml"},
		"too many arguments":                   {"permissions", "pods", "web"},
		"unknown flag":                         {"permissions", "--nosuch"},
	} {
		if _, err := s.run(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", args, err, want)
		}
	}
	if _, err := answer(t, map[string]any{}).run(t, "permissions"); err == nil || !strings.Contains(err.Error(), "feature gate FieldPermissions is off") {
		t.Errorf("a server without them: %v", err)
	}
	forbidden := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Message: "dora may not", Reason: "Forbidden", Code: 403}
	if _, err := answer(t, map[string]any{path: forbidden}).run(t, "permissions"); err == nil || err.Error() != "dora may not" {
		t.Errorf("a caller without the right: %v", err)
	}
}

// FP-6, FP-12: who may not write the object but may change single fields is told so, and nobody else.
func TestCanISingleFields(t *testing.T) {
	s := func(served bool, status func(verb string) authorizationv1.SubjectAccessReviewStatus) *answering {
		paths := map[string]any{"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": func(r *http.Request) any {
			var review authorizationv1.SelfSubjectAccessReview
			if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
				t.Error(err)
			}
			review.Status = status(review.Spec.ResourceAttributes.Verb)
			return review
		}}
		if served {
			paths["/apis/authorization.proviso.dev/v1alpha1"] = resources("authorization.proviso.dev/v1alpha1", metav1.APIResource{Name: "permissions", SingularName: "permission", Kind: "Permission"})
		}
		return answer(t, paths)
	}
	only := func(verb string) authorizationv1.SubjectAccessReviewStatus {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: verb == "granular"}
	}
	for _, tc := range []struct {
		name           string
		server         *answering
		verb, resource string
		code           int
	}{
		{"granular", s(true, only), "update", "deployments", 2},
		{"granular, by status", s(true, only), "patch", "deployments --subresource=status", 2},
		{"not a write", s(true, only), "delete", "deployments", 1},
		{"no field says what it does", s(true, only), "create", "pods --subresource=eviction", 1},
		{"field permissions are off", s(false, only), "update", "deployments", 1},
		{"not granular", s(true, func(string) authorizationv1.SubjectAccessReviewStatus {
			return authorizationv1.SubjectAccessReviewStatus{}
		}), "update", "deployments", 1},
		{"denied", s(true, func(verb string) authorizationv1.SubjectAccessReviewStatus {
			return authorizationv1.SubjectAccessReviewStatus{Allowed: verb == "granular", Denied: verb != "granular"}
		}), "update", "deployments", 1},
		{"allowed", s(true, func(string) authorizationv1.SubjectAccessReviewStatus {
			return authorizationv1.SubjectAccessReviewStatus{Allowed: true}
		}), "update", "deployments", 0},
	} {
		out, err := tc.server.run(t, append([]string{"can-i", tc.verb, "-n", "default"}, strings.Fields(tc.resource)...)...)
		code := 0
		var coded exitError
		if errors.As(err, &coded) {
			code = coded.code
		} else if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if code != tc.code || strings.Contains(out, "proviso permissions deployments.apps") != (tc.code == 2) {
			t.Errorf("%s: exit code %d, want %d\n%s", tc.name, code, tc.code, out)
		}
	}
}

func squeeze(text string) string {
	var lines []string
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

// FP-6: explain says so too, unless something denies.
func TestExplainSingleFields(t *testing.T) {
	s := func(general authz.TracedAnswer) *answering {
		return answer(t, map[string]any{
			"/apis/authorization.proviso.dev/v1alpha1": resources("authorization.proviso.dev/v1alpha1", metav1.APIResource{Name: "permissions", SingularName: "permission", Kind: "Permission"}),
			"/apis/authorization.proviso.dev/v1alpha1/namespaces/default/subjectaccessreviews": func(r *http.Request) any {
				var review authz.SubjectAccessReview
				if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
					t.Error(err)
				}
				review.Status.Trace = &authz.DecisionTrace{Decision: general}
				if review.Spec.Verb == "granular" {
					review.Status.Trace.Decision = authz.AnswerAllow
				}
				return review
			},
		})
	}
	for _, tc := range []struct {
		general authz.TracedAnswer
		verb    string
		code    int
		says    bool
	}{
		{authz.AnswerNoOpinion, "update", 2, true},
		{authz.AnswerNoOpinion, "delete", 1, false},
		{authz.AnswerDeny, "update", 1, false},
		{authz.AnswerConditional, "update", 2, false},
	} {
		out, err := s(tc.general).run(t, "explain", tc.verb, "deployments", "-n", "default")
		var coded exitError
		if !errors.As(err, &coded) || coded.code != tc.code || strings.Contains(out, "proviso permissions deployments") != tc.says {
			t.Errorf("%s, %s: %v\n%s", tc.general, tc.verb, err, out)
		}
	}
}
