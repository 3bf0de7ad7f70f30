package auditrule

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// FuzzSinksAgree: DA-5 with sinks, classes and requests chosen by the fuzzer.
func FuzzSinksAgree(f *testing.F) {
	for _, seed := range []string{"", "\x01\x02\x03\x04\x05\x06\x07", "the quick brown fox jumps over the lazy dog and the cow", strings.Repeat("\x03\x01\x00\x02", 60)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &chooser{data: data}
		sources, classes := randomSinks(c, 1+c.n(3))
		requests := randomRequests(c, 8)
		checkSinks(t, sources, classes, rowBudget, requests)
		checkSinks(t, sources, classes, 16, requests)
	})
}

// FuzzConversionAgrees: DA-5 with policies and requests chosen by the fuzzer.
func FuzzConversionAgrees(f *testing.F) {
	for _, seed := range []string{"", "\x02\x01\x00\x03\x02\x01\x05", "the quick brown fox jumps over the lazy dog", strings.Repeat("\x02\x01\x01\x03\x00", 40)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &chooser{data: data}
		checkConversion(t, randomPolicy(c), randomRequests(c, 8))
	})
}

// FuzzClassText: whatever a class says, compiling it answers, and an active sink agrees with the meaning of its class.
func FuzzClassText(f *testing.F) {
	for _, doc := range strings.Split(example1, "\n---\n") {
		f.Add(doc)
	}
	f.Add(`spec: {rules: [{nonResourceSelectors: {urls: ["**", ""]}}, {groupResourceSelectors: [{resources: [{kind: "*"}]}]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var class v1alpha1.AuditClass
		if yaml.Unmarshal([]byte(text), &class) != nil {
			return
		}
		class.Name = "c"
		for _, r := range class.Spec.Rules {
			for _, s := range r.NonResourceSelectors {
				for _, u := range s.URLs {
					if strings.HasSuffix(u, "**") {
						return // upstream reads two stars as one; the API refuses them
					}
				}
			}
		}
		classes := []*v1alpha1.AuditClass{&class}
		source := Source{Receives: true, Policy: v1alpha1.Policy{Rules: []v1alpha1.PolicyRule{{Level: "Metadata", WithAuditClass: "c"}}}}
		ix := Compile([]Source{source}, classes)
		if !ix.Sinks()[0].Active {
			return
		}
		for _, a := range randomRequests(seeded(int64(len(text))), 10) {
			if got, want := ix.Max(a).String(), wantLevel(&source.Policy, classes, a); got != want {
				t.Fatalf("level %s, want %s for %+v", got, want, a)
			}
		}
	})
}

// FuzzPolicyText: a policy file is converted or refused, never more.
func FuzzPolicyText(f *testing.F) {
	f.Add("rules:\n- {level: Metadata, users: [a], userGroups: [b]}")
	f.Add("omitStages: [Panic]\nrules:\n- {level: Request, resources: [{group: '', resources: ['*/*', pods/]}]}\n- level: None")
	f.Fuzz(func(t *testing.T, text string) {
		var p auditv1.Policy
		if yaml.Unmarshal([]byte(text), &p) != nil {
			return
		}
		got, err := FromPolicy("s", &p)
		if err != nil {
			return
		}
		if _, err := ToPolicy(&got.Sink.Spec.Policy, got.Classes); err != nil {
			t.Fatalf("converted there, but not back: %v", err)
		}
	})
}

// FuzzLocate: the namespace and name in a path are those that upstream's own parser finds.
func FuzzLocate(f *testing.F) {
	for _, p := range []string{"/api/v1/namespaces/ns/pods/x", "/apis/apps/v1/deployments", "/api/v1/namespaces//pods", "/api/v1/namespaces/a/status", "//api//v1/x", "/api/v1/namespaces/ns//x"} {
		f.Add(p, true)
	}
	resolver := &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	f.Fuzz(func(t *testing.T, path string, create bool) {
		req := &http.Request{Method: "PUT", URL: &url.URL{Path: path}}
		if create {
			req.Method = "POST"
		}
		info, err := resolver.NewRequestInfo(req)
		if err != nil || !info.IsResourceRequest || info.Verb != "create" && info.Verb != "update" {
			return
		}
		ev := &auditinternal.Event{RequestURI: req.URL.RequestURI(), Verb: info.Verb, ObjectRef: &auditinternal.ObjectReference{
			APIGroup: info.APIGroup, Resource: info.Resource, Subresource: info.Subresource, Namespace: "from-the-body", Name: "from-the-body"}}
		got := EventAttributes(ev)
		if got.GetNamespace() != info.Namespace || got.GetName() != info.Name {
			t.Fatalf("%q: namespace %q, name %q; upstream finds %q and %q", path, got.GetNamespace(), got.GetName(), info.Namespace, info.Name)
		}
	})
}
