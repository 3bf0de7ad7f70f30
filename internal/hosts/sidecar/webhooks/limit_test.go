package webhooks

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/features/feature"
)

// SC-9: built-in kinds are read into what the enforcer of a server sees, custom ones as they are; what is another kind
// than the review says is not read.
func TestObjectsAreRead(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	scheme.AddKnownTypes(schema.GroupVersion{Version: runtime.APIVersionInternal}, &corev1.Pod{}, &corev1.Node{})
	other := runtime.NewScheme()
	o := &Objects{Schemes: []feature.Scheme{{Scheme: other, Codecs: serializer.NewCodecFactory(other)}, {Scheme: scheme, Codecs: serializer.NewCodecFactory(scheme)}}, Definitions: definitions{}}
	pod := corev1.SchemeGroupVersion.WithKind("Pod")
	widget := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	for name, c := range map[string]struct {
		raw    string
		kind   schema.GroupVersionKind
		custom bool
		none   bool
		fails  string
	}{
		"nothing": {"", pod, false, true, ""}, "null": {"null", pod, false, true, ""}, "a pod": {`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}`, pod, false, false, ""}, "another kind": {`{"apiVersion":"v1","kind":"Node","metadata":{"name":"p"}}`, pod, false, false, "the review is about"},
		"no pod": {`{"apiVersion":"v1","kind":"Pod","spec":[]}`, pod, false, false, "cannot"}, "no JSON": {`{`, pod, false, false, ""}, "a widget": {`{"apiVersion":"example.com/v1","kind":"Widget"}`, widget, true, false, ""}, "another widget": {`{"apiVersion":"example.com/v2","kind":"Widget"}`, widget, true, false, "the review is about"}, "no widget": {`[`, widget, true, false, ""},
	} {
		got, err := o.read([]byte(c.raw), c.kind)
		broken := c.fails != "" || strings.HasPrefix(name, "no ")
		if (err != nil) != broken || err != nil && !strings.Contains(err.Error(), c.fails) || (got == nil) != (broken || c.none) {
			t.Errorf("%s: %v, %v", name, got, err)
			continue
		}
		if _, custom := got.(*unstructured.Unstructured); got != nil && custom != c.custom {
			t.Errorf("%s: read as %T", name, got)
		}
	}
	if o.scheme(pod) != &o.Schemes[1] || o.scheme(widget) != nil {
		t.Error("a kind is read by another scheme than its own")
	}
	made, err := o.Interfaces(widget).GetObjectCreater().New(widget)
	if u, ok := made.(*unstructured.Unstructured); err != nil || !ok || u.GroupVersionKind() != widget {
		t.Errorf("a new widget: %v, %v", made, err)
	}
	if made, err := o.Interfaces(pod).GetObjectCreater().New(pod); err != nil {
		t.Errorf("a new pod: %v, %v", made, err)
	}
}

// listing is a server that lists some verbs.
type listing []string

func (l listing) Lists(a authorizer.Attributes) bool { return slices.Contains(l, a.GetVerb()) }

// SC-5: where a condition becomes an allowance; each negative case differs from one in which it does in one thing.
func TestWhereConditionsCount(t *testing.T) {
	base := Limits{Discovery: listing{"create", "update", "get", "delete"}, Ours: []string{"ours.dev"}, Exempt: Exempt{Users: []string{"kube-scheduler"}, Groups: []string{"system:nodes"}}}
	only := base
	only.Only = []schema.GroupResource{{Resource: "pods"}}
	nothing := base
	nothing.Only = []schema.GroupResource{}
	unknown := base
	unknown.Discovery = nil
	at := func(change func(*authorizer.AttributesRecord)) authorizer.AttributesRecord {
		a := asking("update", "team", "", "pods")
		change(&a)
		return a
	}
	for name, c := range map[string]struct {
		limits Limits
		change func(*authorizer.AttributesRecord)
		want   error
	}{
		"a write": {base, func(*authorizer.AttributesRecord) {}, nil}, "no resource": {base, func(a *authorizer.AttributesRecord) { a.ResourceRequest = false }, errReview}, "no version": {base, func(a *authorizer.AttributesRecord) { a.APIVersion = "" }, errReview}, "any version": {base, func(a *authorizer.AttributesRecord) { a.APIVersion = "*" }, errReview},
		"not listed": {base, func(a *authorizer.AttributesRecord) { a.Verb = "patch" }, errUnlisted}, "nothing is known": {unknown, func(*authorizer.AttributesRecord) {}, errUnlisted}, "a read": {base, func(a *authorizer.AttributesRecord) { a.Verb = "get" }, errVerb},
		"ours, a read": {base, func(a *authorizer.AttributesRecord) { a.Verb, a.APIGroup = "get", "ours.dev" }, nil}, "an exempt user": {base, func(a *authorizer.AttributesRecord) { a.User = &user.DefaultInfo{Name: "kube-scheduler"} }, errExempt}, "an exempt group": {base, func(a *authorizer.AttributesRecord) {
			a.User = &user.DefaultInfo{Name: "n", Groups: []string{"x", "system:nodes"}}
		}, errExempt},
		"nobody": {base, func(a *authorizer.AttributesRecord) { a.User = nil }, nil}, "nodes": {base, func(a *authorizer.AttributesRecord) { a.Resource = "nodes" }, errNodes}, "nodes of another group": {base, func(a *authorizer.AttributesRecord) { a.APIGroup, a.Resource = "example.com", "nodes" }, nil},
		"reviews": {base, func(a *authorizer.AttributesRecord) { a.APIGroup = authorizationv1.GroupName }, errVirtual}, "token reviews": {base, func(a *authorizer.AttributesRecord) { a.APIGroup = authenticationv1.GroupName }, errVirtual}, "a proxy": {base, func(a *authorizer.AttributesRecord) { a.Verb, a.Subresource = "get", "proxy" }, errProxied},
		"exec": {base, func(a *authorizer.AttributesRecord) { a.Verb, a.Subresource = "get", "exec" }, nil}, "one of a few": {only, func(*authorizer.AttributesRecord) {}, nil}, "none of a few": {only, func(a *authorizer.AttributesRecord) { a.Resource = "secrets" }, errNotAmong}, "of the same name": {only, func(a *authorizer.AttributesRecord) { a.APIGroup = "example.com" }, errNotAmong}, "one of none": {nothing, func(*authorizer.AttributesRecord) {}, errNotAmong},
	} {
		if err := c.limits.Check(at(c.change)); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// SC-6: a namespace that is made by POST is in none; anything else that is made is in its own.
func TestPlaceOfWhatIsNew(t *testing.T) {
	for want, resource := range map[string]metav1.GroupVersionResource{"": {Resource: "namespaces"}, "n1": {Resource: "pods"}, "n2": {Group: "example.com", Resource: "namespaces"}} {
		namespace := want
		if want == "" {
			namespace = "made"
		}
		if got := placeOfNew(&admissionv1.AdmissionRequest{Namespace: namespace, Resource: resource}); got != want {
			t.Errorf("%v: %q", resource, got)
		}
	}
}

// SC-6: what was granted longer ago than a request can take is forgotten, however rarely anybody asks.
func TestGrantedIsForgottenInTime(t *testing.T) {
	for after, want := range map[time.Duration]bool{grantedFor: true, 2*grantedFor - 1: true, 2 * grantedFor: false, 10 * grantedFor: false} {
		now := time.Unix(0, 0)
		g := NewGranted(func() time.Time { return now })
		g.note(grantedTo("anna", "create", "a"), allowed)
		now = now.Add(after)
		if got := g.has(grantedTo("anna", "create", "a"), allowed); got != want {
			t.Errorf("after %s: %v", after, got)
		}
	}
}
