package policyreview

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/test/refmodel"
)

// hammer is a world in which edgar has some rules in namespace hammer.
func hammer(rules ...policyv1alpha1.PolicyRule) *refmodel.World {
	return &refmodel.World{Master: master,
		Policies: []*policyv1alpha1.Policy{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "default"},
			Roles: map[string]policyv1alpha1.PolicyRole{"dev": {Rules: rules}}}},
		PolicyBindings: []*policyv1alpha1.PolicyBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "hammer"},
			RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"devs": {RoleName: "dev", UserNames: []string{"edgar"}}}}},
	}
}

func raw(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

// PO-15: with content the answer is final, and content that could not be the object of such a request is refused with a
// message that says what is wrong; the twin differs in that one thing.
func TestContentIsTheObjectOfTheRequest(t *testing.T) {
	ctx := newHouse(t).in(hammer(
		policyv1alpha1.PolicyRule{Verbs: []string{"*"}, ResourceKinds: []string{"deployments.apps", "pods", "pods/*"}, When: `object == null || object.metadata.name == "web"`},
		policyv1alpha1.PolicyRule{Verbs: []string{"update"}, ResourceKinds: []string{"deployments.apps/scale"}, When: `object.spec.replicas < 3`},
	))
	const web = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"}}`
	for _, tc := range []struct {
		name, verb, kind, resourceName, content string
		// want is part of the refusal; allowed is the answer of what is not refused.
		want    string
		allowed bool
	}{
		{name: "the object", verb: "create", kind: "deployments.apps", content: web, allowed: true},
		{name: "an object that the condition does not like", verb: "create", kind: "Deployment.apps", content: strings.Replace(web, "web", "db", 1)},
		{name: "null", verb: "create", kind: "deployments.apps", content: `null`, want: "not an object"},
		{name: "a list", verb: "create", kind: "deployments.apps", content: `[` + web + `]`, want: "not an object"},
		{name: "cut off", verb: "create", kind: "deployments.apps", content: web[:40], want: "not an object"},
		{name: "no kind", verb: "create", kind: "deployments.apps", content: `{"apiVersion":"apps/v1","metadata":{"name":"web"}}`, want: "apiVersion or kind is missing: deployments.apps are Deployment.apps"},
		{name: "no version", verb: "create", kind: "deployments.apps", content: `{"kind":"Deployment","metadata":{"name":"web"}}`, want: "apiVersion or kind is missing"},
		{name: "neither, so that there is only one thing that it can be", verb: "create", kind: "deployments.apps", content: `{"metadata":{"name":"web"}}`, allowed: true},
		{name: "neither, and not what the condition likes", verb: "create", kind: "deployments.apps", content: `{"metadata":{"name":"db"}}`},
		{name: "another kind", verb: "create", kind: "deployments.apps", content: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"}}`, want: "is Pod, but deployments.apps are Deployment.apps"},
		{name: "the kind of another group", verb: "create", kind: "deployments.apps", content: strings.Replace(web, "apps/v1", "example.com/v1", 1), want: "is Deployment.example.com"},
		{name: "another namespace", verb: "create", kind: "deployments.apps", content: strings.Replace(web, `"name"`, `"namespace":"anvil","name"`, 1), want: `metadata.namespace is "anvil", but the question is about namespace "hammer"`},
		{name: "its own namespace", verb: "create", kind: "deployments.apps", content: strings.Replace(web, `"name"`, `"namespace":"hammer","name"`, 1), allowed: true},
		{name: "another name", verb: "update", kind: "deployments.apps", resourceName: "db", content: web, want: `metadata.name is "web", but spec.resourceName is "db"`},
		{name: "its own name", verb: "update", kind: "deployments.apps", resourceName: "web", content: web, allowed: true},
		{name: "no name at all", verb: "delete", kind: "deployments.apps", content: `{"apiVersion":"apps/v1","kind":"Deployment"}`, want: "metadata.name is missing"},
		{name: "a read", verb: "get", kind: "deployments.apps", content: web, want: `no condition is evaluated on such a request`},
		{name: "a list", verb: "list", kind: "deployments.apps", content: web, want: `verb "list" has no object`},
		{name: "a connection", verb: "create", kind: "pods/exec", content: `{"apiVersion":"v1","kind":"PodExecOptions"}`, want: "pods/exec has options and no object"},
		{name: "a subresource with the object", verb: "update", kind: "pods/status", content: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"}}`, allowed: true},
		{name: "a subresource with another kind", verb: "update", kind: "deployments.apps/scale", content: `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"web"},"spec":{"replicas":2}}`, allowed: true},
		{name: "the object where a subresource takes another kind", verb: "update", kind: "deployments.apps/scale", content: web, want: `deployments.apps/scale takes "Scale"`},
		// Without a converter only the version that conditions see is known: what cannot be converted is not judged.
		{name: "another version", verb: "create", kind: "deployments.apps", content: strings.Replace(web, "apps/v1", "apps/v1beta1", 1), want: "conditions see apps/v1: send it in that version"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHouse(t)
			status, err := h.SubjectCan(ctx, &user.DefaultInfo{Name: "admin"}, "hammer", authz.SubjectAccessReviewSpec{
				Verb: tc.verb, ResourceKind: tc.kind, ResourceName: tc.resourceName, UserName: "edgar", Content: raw(tc.content)})
			switch {
			case tc.want == "" && (err != nil || status.Allowed != tc.allowed):
				t.Errorf("allowed is %v, want %v: %+v %v", status.Allowed, tc.allowed, status, err)
			case tc.want != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.content") || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want a 422 for spec.content with %q", err, tc.want)
			}
		})
	}
}

// PO-15, CA-11: content is judged in the version that a rule is written for, whatever version it comes in; what cannot
// be converted fails closed: an allow is not met, and a deny is.
func TestContentIsConverted(t *testing.T) {
	h := newHouse(t)
	h.Converter = ConverterFunc(func(content *unstructured.Unstructured, to schema.GroupVersion) (runtime.Object, error) {
		if to.Version == "v1beta1" {
			return nil, errors.New("v1beta1 cannot be written any more")
		}
		out := content.DeepCopy()
		out.SetAPIVersion(to.String())
		return out, out.UnmarshalJSON([]byte(`{"apiVersion":"` + to.String() + `","kind":"Deployment","metadata":{"name":"web"},"spec":{"canonical":true}}`))
	})
	content := raw(`{"apiVersion":"apps/v1beta2","kind":"Deployment","metadata":{"name":"web"},"spec":{"old":true}}`)
	can := func(rules ...policyv1alpha1.PolicyRule) bool {
		return h.can(t, h.in(hammer(rules...)), "hammer", authz.SubjectAccessReviewSpec{Verb: "create", ResourceKind: "deployments.apps", UserName: "edgar", Content: content}).Allowed
	}
	rule := func(when, version string, deny bool) policyv1alpha1.PolicyRule {
		return policyv1alpha1.PolicyRule{Deny: deny, Verbs: []string{"create"}, ResourceKinds: []string{"deployments.apps"}, When: when, APIVersion: version}
	}
	everything := rule("", "", false)
	if !can(rule(`has(object.spec.canonical) && !has(object.spec.old)`, "", false)) {
		t.Error("the content was not converted")
	}
	if can(rule(`has(object.spec.old)`, "", false)) {
		t.Error("the content was judged in the version that it came in")
	}
	if can(rule(`object.metadata.name == "web"`, "v1beta1", false)) {
		t.Error("an allow for a version that cannot be made was met")
	}
	if can(everything, rule(`object.metadata.name == "other"`, "v1beta1", true)) {
		t.Error("a deny for a version that cannot be made was not met")
	}
	if !can(everything, rule(`object.metadata.name == "other"`, "", true)) {
		t.Error("the twin, a deny that can be evaluated, was met")
	}
}

// PO-15: without content a conditional right counts as none, and the review says that it depends on the object; where
// no object would help, it says that too (CA-16).
func TestWithoutContentConditionsDoNotCount(t *testing.T) {
	h := newHouse(t)
	ctx := h.in(hammer(policyv1alpha1.PolicyRule{Verbs: []string{"create", "get"}, ResourceKinds: []string{"pods"}, Where: `resource.metadata.name == "web"`}))
	for verb, want := range map[string]authz.TracedAnswer{"create": authz.AnswerConditional, "get": authz.AnswerNoOpinion} {
		status := h.can(t, ctx, "hammer", authz.SubjectAccessReviewSpec{Verb: verb, ResourceKind: "Pod", UserName: "edgar", Trace: true})
		if status.Allowed || status.Trace.Decision != want {
			t.Errorf("%s: allowed %v, trace %s, want %s", verb, status.Allowed, status.Trace.Decision, want)
		}
		if verb == "get" && !strings.Contains(status.DenyReason, "a conditional permission cannot be used for get") {
			t.Errorf("%s: %q", verb, status.DenyReason)
		}
	}
	status, err := h.SubjectCan(ctx, &user.DefaultInfo{Name: "edgar"}, "hammer", authz.SubjectAccessReviewSpec{Verb: "create", ResourceKind: "nonsense"})
	if err != nil || status.Allowed || !strings.Contains(status.EvaluationError, `resourceKind "nonsense": no served resource`) {
		t.Errorf("%+v %v", status, err)
	}
}

// PO-15: an update is judged by what the object is and what it becomes, if the question tells them apart.
func TestOldContent(t *testing.T) {
	ctx := newHouse(t).in(hammer(
		policyv1alpha1.PolicyRule{Verbs: []string{"update", "delete"}, ResourceKinds: []string{"deployments.apps"}, When: `object == null || oldObject.spec.x == 1 && object.spec.x == 2`},
	))
	object := func(x string) *runtime.RawExtension {
		return raw(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"x":` + x + `}}`)
	}
	for _, tc := range []struct {
		name, verb   string
		content, old *runtime.RawExtension
		want         string
		allowed      bool
	}{
		{name: "from one to two", verb: "update", old: object("1"), content: object("2"), allowed: true},
		{name: "the other way round", verb: "update", old: object("2"), content: object("1")},
		{name: "no old one: it is the same", verb: "update", content: object("2")},
		{name: "a delete has one object", verb: "delete", content: object("1"), allowed: true},
		{name: "and no second one", verb: "delete", old: object("1"), content: object("1"), want: "leave it out for delete"},
		{name: "only an old one", verb: "update", old: object("1"), want: "spec.content: Required"},
		{name: "another object", verb: "update", content: object("2"), old: raw(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"db"}}`), want: `oldContent metadata.name is "db"`},
		{name: "another kind", verb: "update", content: object("2"), old: raw(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"}}`), want: "oldContent is Pod"},
		{name: "no object", verb: "update", content: object("2"), old: raw(`[]`), want: "oldContent is not an object"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, err := newHouse(t).SubjectCan(ctx, &user.DefaultInfo{Name: "admin"}, "hammer", authz.SubjectAccessReviewSpec{
				Verb: tc.verb, ResourceKind: "deployments.apps", UserName: "edgar", ResourceName: "web", Content: tc.content, OldContent: tc.old})
			switch {
			case tc.want == "" && (err != nil || status.Allowed != tc.allowed):
				t.Errorf("allowed is %v, want %v: %+v %v", status.Allowed, tc.allowed, status, err)
			case tc.want != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got %v, want a 422 with %q", err, tc.want)
			}
		})
	}
}
