package auditrule

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// DA-17: whatever its classes and its policy select, a sink of a namespace gets requests about the namespace only.
func TestSourcesOfOneNamespace(t *testing.T) {
	in := func(selectors ...v1alpha1.GroupResourceSelector) *v1alpha1.AuditClass {
		return &v1alpha1.AuditClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: v1alpha1.AuditClassSpec{Rules: []v1alpha1.Rule{{GroupResourceSelectors: selectors}}}}
	}
	pods := []v1alpha1.ResourceSelector{{Kind: "pods"}}
	classes := map[string]*v1alpha1.AuditClass{
		"everything":   {ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: v1alpha1.AuditClassSpec{Rules: []v1alpha1.Rule{{Verbs: []string{"*"}}}}},
		"paths":        {ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: v1alpha1.AuditClassSpec{Rules: []v1alpha1.Rule{{NonResourceSelectors: v1alpha1.NonResourceSelectors{{URLs: []string{"*"}}}}}}},
		"pods":         in(v1alpha1.GroupResourceSelector{Resources: pods}),
		"cluster":      in(v1alpha1.GroupResourceSelector{Group: "*", Scope: v1alpha1.ScopeCluster}),
		"namespaced":   in(v1alpha1.GroupResourceSelector{Group: "*", Scope: v1alpha1.ScopeNamespaced}),
		"this and one": in(v1alpha1.GroupResourceSelector{Group: "*", Scope: v1alpha1.ScopeNamespaced, Namespaces: []v1alpha1.NamespaceSelector{{Name: "team"}, {Name: "other"}}}),
		"another":      in(v1alpha1.GroupResourceSelector{Group: "*", Scope: v1alpha1.ScopeNamespaced, Namespaces: []v1alpha1.NamespaceSelector{{Name: "other"}}}),
	}
	ask := func(c *v1alpha1.AuditClass, byDefault v1alpha1.Level, attrs authorizer.AttributesRecord) Level {
		policy := v1alpha1.Policy{Level: byDefault}
		var all []*v1alpha1.AuditClass
		if c != nil {
			policy.Rules, all = []v1alpha1.PolicyRule{{Level: v1alpha1.LevelRequest, WithAuditClass: "c"}}, []*v1alpha1.AuditClass{c}
		}
		ix := Compile([]Source{{Name: "team/s", Policy: policy, Receives: true, Namespace: "team"}}, all)
		if !ix.Sinks()[0].Active {
			t.Fatalf("%+v", ix.Sinks()[0])
		}
		attrs.User = &user.DefaultInfo{Name: "u"}
		return ix.Levels(attrs, nil)[0]
	}
	pod := func(ns, sub string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{Verb: "get", Namespace: ns, Resource: "pods", Subresource: sub, Name: "p", ResourceRequest: true}
	}
	path := authorizer.AttributesRecord{Verb: "get", Path: "/metrics"}
	for name, want := range map[string][2]Level{ // a pod, and its log
		"everything": {Request, Request}, "paths": {None, None}, "pods": {Request, None}, "cluster": {None, None},
		"namespaced": {Request, Request}, "this and one": {Request, Request}, "another": {None, None},
	} {
		if got := [2]Level{ask(classes[name], "", pod("team", "")), ask(classes[name], "", pod("team", "log"))}; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		for _, outside := range []authorizer.AttributesRecord{pod("other", ""), pod("", ""), pod("tea", ""), path} {
			if got := ask(classes[name], v1alpha1.LevelMetadata, outside); got != None {
				t.Errorf("%s: %v of %+v", name, got, outside)
			}
		}
	}
	if got := ask(nil, v1alpha1.LevelMetadata, pod("team", "exec")); got != Metadata {
		t.Errorf("the level of the policy: %v", got)
	}
}
