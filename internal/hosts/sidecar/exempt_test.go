package sidecar

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	"k8s.io/apiserver/pkg/apis/apiserver/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/platform/pki"
)

// conditionsOf are the match conditions that init wrote, as a stock server evaluates them: each tells how many webhooks
// are asked about a create by somebody. With another expression they say what that costs instead.
func conditionsOf(t testing.TB, instead ...string) (authorization func(name string, groups ...string) bool, admitted func(resource schema.GroupVersionResource, name string, groups ...string) int) {
	t.Helper()
	cluster, err := pki.Ensure(t.TempDir(), pki.Config{BindAddress: net.IPv4(127, 0, 0, 1), Port: 6443})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "s")
	if err := initialize(dir, filepath.Dir(cluster.CACert), &settings{Server: "https://127.0.0.1:1", Listen: "127.0.0.1:2", Namespace: "proviso-system", MasterNamespace: "master", AuditLevel: "Metadata",
		ExemptUsers: []string{"system:kube-controller-manager", "system:kube-scheduler"}, ExemptGroups: []string{"system:nodes"}}); err != nil {
		t.Fatal(err)
	}
	var configuration v1.AuthorizationConfiguration
	var static admissionregistrationv1.ValidatingWebhookConfiguration
	for name, into := range map[string]any{"authorization.yaml": &configuration, filepath.Join(staticDir, staticFile): &static} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(text, into); err != nil {
			t.Fatal(err)
		}
	}
	for _, expression := range instead {
		configuration.Authorizers[0].Webhook.MatchConditions[0].Expression, static.Webhooks[0].MatchConditions[0].Expression = expression, expression
	}
	matcher := &authorizationcel.CELMatcher{}
	for _, c := range configuration.Authorizers[0].Webhook.MatchConditions {
		compiled, err := authorizationcel.NewDefaultCompiler().CompileCELExpression(&authorizationcel.SubjectAccessReviewMatchCondition{Expression: c.Expression})
		if err != nil {
			t.Fatal(err)
		}
		matcher.CompilationResults = append(matcher.CompilationResults, compiled)
	}
	authorization = func(name string, groups ...string) bool {
		asked, err := matcher.Eval(context.Background(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: name, Groups: groups,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "team", Verb: "create", Version: "v1", Resource: "configmaps"}}})
		if err != nil {
			t.Fatal(err)
		}
		return asked
	}
	compiler := admissioncel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	var compiled []matchconditions.Matcher
	for i := range static.Webhooks {
		compiled = append(compiled, webhook.NewValidatingWebhookAccessor("u", static.Name, &static.Webhooks[i]).GetCompiledMatcher(compiler))
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "team"}, Data: map[string]string{"a": "b"}}
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	admitted = func(resource schema.GroupVersionResource, name string, groups ...string) (asked int) {
		attrs := admission.NewAttributesRecord(object, nil, kind, "team", "a", resource, "", admission.Create, nil, false, &user.DefaultInfo{Name: name, Groups: groups})
		for i, w := range static.Webhooks {
			if !(&rules.Matcher{Rule: w.Rules[0], Attr: attrs}).Matches() {
				continue
			}
			result := compiled[i].Match(context.Background(), &admission.VersionedAttributes{Attributes: attrs, VersionedKind: kind, VersionedObject: admission.NewLazyObject(object)}, nil, nil)
			if result.Error != nil {
				t.Fatal(result.Error)
			}
			if result.Matches {
				asked++
			}
		}
		return asked
	}
	return authorization, admitted
}

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// SC-8, SC-14: a stock server does not ask about exempt callers at all, but for their access reviews, and asks about
// everybody else once. It is the real code of a stock server that evaluates what init wrote.
func TestNobodyAsksAboutExemptCallers(t *testing.T) {
	authorization, admitted := conditionsOf(t)
	for _, tc := range []struct {
		name     string
		group    string
		access   bool
		admitted int
	}{
		{"anna", "system:authenticated", true, 1},
		{"system:kube-scheduler", "system:authenticated", false, 0},
		{"system:node:n1", "system:nodes", false, 0},
		{"admin", "system:masters", true, 0}, // the server's own authorizer of that group stands before ours
		{"system:kube-scheduler2", "system:node", true, 1},
	} {
		if got := authorization(tc.name, tc.group); got != tc.access {
			t.Errorf("authorization asks about %s: %v", tc.name, got)
		}
		if got := admitted(configMaps, tc.name, tc.group); got != tc.admitted {
			t.Errorf("admission asks %d times about %s", got, tc.name)
		}
		if got := admitted(authorizationv1.SchemeGroupVersion.WithResource("selfsubjectaccessreviews"), tc.name, tc.group); got != 1 {
			t.Errorf("admission asks %d times about a review by %s", got, tc.name)
		}
	}
}

// BenchmarkMatchConditions is what a stock server spends on a create by an exempt caller, to find out that it need not
// ask, and what it spends on a condition that reads nothing.
func BenchmarkMatchConditions(b *testing.B) {
	for _, which := range []struct {
		name    string
		instead []string
	}{{"exempt", nil}, {"never", []string{"false"}}} {
		authorization, admitted := conditionsOf(b, which.instead...)
		b.Run("authorization/"+which.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				authorization("system:kube-scheduler", "system:authenticated")
			}
		})
		b.Run("admission/"+which.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				admitted(configMaps, "system:kube-scheduler", "system:authenticated")
			}
		})
	}
}
