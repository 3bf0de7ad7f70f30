package dynamicaudit

import (
	"net/http"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/endpoints/request"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/features/feature"
)

// DA-13: what a client asks to see becomes a policy, and what is not understood is refused rather than left out.
func TestTailOptions(t *testing.T) {
	opts, err := tailOptions("")
	if err != nil || opts.Policy.Level != auditv1alpha1.LevelMetadata || len(opts.Policy.Rules)+len(opts.Classes) > 0 {
		t.Errorf("nothing asked: %+v, %v", opts, err)
	}
	opts, err = tailOptions("class=a&class=b&level=Request")
	if err != nil || opts.Policy.Level != "" || len(opts.Policy.Rules) != 2 || opts.Policy.Rules[1] != (auditv1alpha1.PolicyRule{Level: "Request", WithAuditClass: "b"}) {
		t.Errorf("classes: %+v, %v", opts, err)
	}
	opts, err = tailOptions("verb=create&verb=get&user=edgar&group=ops&resource=pods/exec&resource=deployments.apps&namespace=hammer")
	if err != nil || opts.Policy.Level != "" || len(opts.Classes) != 1 {
		t.Fatalf("selectors: %+v, %v", opts, err)
	}
	rule := opts.Classes[0].Spec.Rules[0]
	exec, deployments := rule.GroupResourceSelectors[0], rule.GroupResourceSelectors[1]
	if len(rule.Verbs) != 2 || len(rule.Subjects) != 2 || exec.Resources[0].Subresources[0] != "exec" || deployments.Group != "apps" ||
		deployments.Resources[0].Subresources != nil || exec.Scope != auditv1alpha1.ScopeNamespaced || deployments.Namespaces[0].Name != "hammer" {
		t.Errorf("rule is %+v", rule)
	}
	for query, want := range map[string]string{
		"verbs=get":                    `"verbs"`,
		"level=None":                   "level",
		"level=":                       "level",
		"level=Request&level=Metadata": "level",
		"class=a&verb=get":             "class",
		"class=":                       "class",
		"verb=GET":                     "verbs[0]",
		"user=":                        "names[0]",
		"resource=Pods":                "kind",
		"resource=":                    "kind",
		"namespace=A":                  "namespaces[0]",
		"%zz":                          "query",
	} {
		if _, err := tailOptions(query); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want an error with %q, got %v", query, want, err)
		}
	}
}

// DA-13: the stream is not cut off as a request that takes too long, and nothing else is exempted.
func TestTailIsLongRunning(t *testing.T) {
	s := []feature.System{{Paths: []feature.Path{{Path: auditTailPath, LongRunning: true}}}}
	check := feature.LongRunning(s, func(_ *http.Request, info *request.RequestInfo) bool { return info.Verb == "watch" })
	for _, tc := range []struct {
		info request.RequestInfo
		want bool
	}{
		{request.RequestInfo{Path: auditTailPath, Verb: "get"}, true},
		{request.RequestInfo{Path: auditTailPath + "/x", Verb: "get"}, false},
		{request.RequestInfo{Path: auditTailPath, Verb: "get", IsResourceRequest: true}, false},
		{request.RequestInfo{Path: "/api/v1/pods", Verb: "watch", IsResourceRequest: true}, true},
	} {
		if got := check(nil, &tc.info); got != tc.want {
			t.Errorf("%+v: %v", tc.info, got)
		}
	}
}
