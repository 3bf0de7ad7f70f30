package webhooks

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/request/authorize"
)

// SC-6: what a review asks is refused if its answer would depend on an object, and only then; one that cannot be read
// is refused, too.
func TestReviewsOfConditions(t *testing.T) {
	spec := authorizationv1.SubjectAccessReviewSpec{User: "zoe", ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "update", Version: "v1", Resource: "pods", Namespace: "team"}}
	raw := func(o any) []byte {
		t.Helper()
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	review, own := raw(authorizationv1.SubjectAccessReview{Spec: spec}), raw(authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: spec.ResourceAttributes}})
	for name, c := range map[string]struct {
		group, resource, operation string
		body                       []byte
		answer                     authorizer.ConditionsAwareDecision
		refused                    bool
	}{
		"on a condition": {authorizationv1.GroupName, "subjectaccessreviews", "CREATE", review, onCondition(true), true}, "local": {authorizationv1.GroupName, "localsubjectaccessreviews", "CREATE", review, onCondition(true), true}, "of oneself": {authorizationv1.GroupName, "selfsubjectaccessreviews", "CREATE", own, onCondition(true), true},
		"allowed": {authorizationv1.GroupName, "subjectaccessreviews", "CREATE", review, authorizer.ConditionsAwareDecisionAllow("", nil), false}, "of oneself, allowed": {authorizationv1.GroupName, "selfsubjectaccessreviews", "CREATE", own, authorizer.ConditionsAwareDecisionAllow("", nil), false},
		"another kind": {authorizationv1.GroupName, "selfsubjectrulesreviews", "CREATE", review, onCondition(true), false}, "another group": {"example.com", "subjectaccessreviews", "CREATE", review, onCondition(true), false}, "no create": {authorizationv1.GroupName, "subjectaccessreviews", "UPDATE", review, onCondition(true), false},
		"unreadable": {authorizationv1.GroupName, "subjectaccessreviews", "CREATE", []byte("{"), authorizer.ConditionsAwareDecisionAllow("", nil), true}, "of oneself, unreadable": {authorizationv1.GroupName, "selfsubjectaccessreviews", "CREATE", []byte("{"), authorizer.ConditionsAwareDecisionAllow("", nil), true},
		"of nothing": {authorizationv1.GroupName, "subjectaccessreviews", "CREATE", []byte("{}"), onCondition(true), false},
	} {
		j := newJudge(t)
		(*j.link)["update"] = c.answer
		r := &admissionv1.AdmissionRequest{Operation: admissionv1.Operation(c.operation), Resource: metav1.GroupVersionResource{Group: c.group, Version: "v1", Resource: c.resource}, Object: runtime.RawExtension{Raw: c.body}}
		err := j.asksAboutConditions(t.Context(), r, &user.DefaultInfo{Name: "rob", Extra: map[string][]string{"k": {"v"}}})
		if (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// SC-6: an object of RBAC that hands out rights is confirmed once for every name that authorization may have been asked
// about, as a request about a resource.
func TestGrantsAreConfirmed(t *testing.T) {
	role := []byte(`{"kind":"Role","apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"name":"r"}}`)
	at := func(change func(*admissionv1.AdmissionRequest)) *admissionv1.AdmissionRequest {
		r := &admissionv1.AdmissionRequest{Operation: "CREATE", Namespace: "team", Name: "r", Resource: metav1.GroupVersionResource{Group: rbacv1.GroupName, Version: "v1", Resource: "roles"}, Object: runtime.RawExtension{Raw: role}, OldObject: runtime.RawExtension{Raw: role}}
		change(r)
		return r
	}
	for name, c := range map[string]struct {
		change  func(*admissionv1.AdmissionRequest)
		who     string
		reaches bool
		says    error
		asked   string
		olds    int
		fails   string
	}{
		"a create": {func(*admissionv1.AdmissionRequest) {}, "rob", true, nil, ",r", 0, ""}, "an update": {func(r *admissionv1.AdmissionRequest) { r.Operation = "UPDATE" }, "rob", true, nil, "r", 1, ""}, "a delete": {func(r *admissionv1.AdmissionRequest) { r.Operation = "DELETE" }, "rob", true, nil, "", 0, ""},
		"nothing is denied": {func(*admissionv1.AdmissionRequest) {}, "rob", false, errors.New("no"), "", 0, ""}, "refused": {func(*admissionv1.AdmissionRequest) {}, "rob", true, errors.New("no"), "", 0, "no"}, "another group": {func(r *admissionv1.AdmissionRequest) { r.Resource.Group = "authorization.proviso.dev" }, "rob", true, errors.New("no"), "", 0, ""},
		"another version": {func(r *admissionv1.AdmissionRequest) { r.Resource.Version = "v1beta1" }, "rob", true, nil, "", 0, "is not known"}, "a subresource": {func(r *admissionv1.AdmissionRequest) { r.SubResource = "status" }, "rob", true, nil, "", 0, "is not known"}, "a status in another version": {func(r *admissionv1.AdmissionRequest) { r.SubResource, r.Resource.Version = "status", "v2" }, "rob", true, nil, "", 0, "is not known"},
		"no role": {func(r *admissionv1.AdmissionRequest) { r.Object.Raw = []byte("[]") }, "rob", true, nil, "", 0, "the object cannot be read"}, "no role before": {func(r *admissionv1.AdmissionRequest) { r.Operation, r.OldObject.Raw = "UPDATE", []byte("[]") }, "rob", true, nil, "", 0, "the old object cannot be read"},
		"gathered": {func(r *admissionv1.AdmissionRequest) { r.Resource.Resource = "clusterroles" }, aggregator, true, errors.New("no"), "", 0, ""}, "by the aggregation controller, another kind": {func(*admissionv1.AdmissionRequest) {}, aggregator, true, errors.New("no"), "", 0, "no"},
	} {
		j := newJudge(t)
		j.grants.reaches, j.grants.err = c.reaches, c.says
		r := at(c.change)
		err := j.confirm(t.Context(), j.cfg.Store.Current(), r, cases(r, &user.DefaultInfo{Name: c.who}))
		if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %v", name, err)
		}
		if c.fails == "" && (strings.Join(j.grants.asked, ",") != c.asked || (j.grants.olds > 0) != (c.olds > 0)) {
			t.Errorf("%s: asked about %q, %d old ones", name, j.grants.asked, j.grants.olds)
		}
		for _, info := range j.grants.infos {
			if !info.IsResourceRequest || info.Resource != r.Resource.Resource || info.APIGroup != rbacv1.GroupName || info.Namespace != "team" {
				t.Errorf("%s: a request about %+v", name, info)
			}
		}
	}
}

// SC-6: what becomes of an admission, beside what the enforcer says.
func TestAdmit(t *testing.T) {
	raw := runtime.RawExtension{Raw: []byte(`{"apiVersion":"g/v1","kind":"K","metadata":{"name":"x"}}`)}
	gvk, gvr := metav1.GroupVersionKind{Group: "g", Version: "v1", Kind: "K"}, metav1.GroupVersionResource{Group: "g", Version: "v1", Resource: "things"}
	otherKind, otherResource := gvk, gvr
	otherKind.Version, otherResource.Version = "v2", "v2"
	for name, c := range map[string]struct {
		change func(*admissionv1.AdmissionRequest)
		stale  string
		err    error
		looks  bool
		says   string
	}{
		"the canary": {func(r *admissionv1.AdmissionRequest) { r.UserInfo.Username = "canary" }, "", nil, false, "admitted x"}, "the sidecar": {func(r *admissionv1.AdmissionRequest) { r.UserInfo.Username = "sidecar" }, "", nil, false, "another process uses its certificate"},
		"another version of the kind":     {func(r *admissionv1.AdmissionRequest) { r.RequestKind = &otherKind }, "", nil, false, "another version than the request"},
		"another version of the resource": {func(r *admissionv1.AdmissionRequest) { r.RequestResource = &otherResource }, "", nil, false, "another version than the request"},
		"the same versions":               {func(r *admissionv1.AdmissionRequest) { r.RequestKind, r.RequestResource = &gvk, &gvr }, "too old", nil, false, "too old"},
		"an operation that is none":       {func(r *admissionv1.AdmissionRequest) { r.Operation = "OTHER" }, "", nil, false, "operation \"OTHER\" is not known"},
	} {
		j := newJudge(t)
		*j.age = aged(c.stale)
		r := &admissionv1.AdmissionRequest{Operation: "UPDATE", Kind: gvk, Resource: gvr, Name: "x", Namespace: "team", Object: raw, OldObject: raw, UserInfo: authenticationv1.UserInfo{Username: "rob"}}
		c.change(r)
		j.enforcer.err, j.enforcer.looks = c.err, c.looks
		if err := j.Admit(t.Context(), r); err == nil || !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if len(j.enforcer.claims) != 0 {
			t.Errorf("%s: the enforcer is asked", name)
		}
	}
	// The sidecar asks, and is asked about nothing by that.
	for group, want := range map[string]string{authorizationv1.GroupName: "not known", authenticationv1.GroupName: "not known", "g": "uses its certificate"} {
		j := newJudge(t)
		r := &admissionv1.AdmissionRequest{Operation: "OTHER", Resource: metav1.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}, UserInfo: authenticationv1.UserInfo{Username: "sidecar"}}
		if err := j.Admit(t.Context(), r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the sidecar in %s: %v", group, err)
		}
	}
}

// SC-6, SC-8: an admission is let pass if one of the requests that it can belong to is, and the enforcer has nothing
// against that one.
func TestAdmittedRequests(t *testing.T) {
	raw := runtime.RawExtension{Raw: []byte(`{"apiVersion":"g/v1","kind":"K","metadata":{"name":"x"}}`)}
	yes, no := authorizer.ConditionsAwareDecisionAllow("", nil), authorizer.ConditionsAwareDecisionDeny("rule 7 says no", nil)
	for name, c := range map[string]struct {
		answers linkOf
		sub     string
		object  runtime.RawExtension
		err     error
		looks   bool
		refused string
		asked   int
		claims  bool
	}{
		"allowed": {linkOf{"update": yes, "patch": yes}, "", raw, nil, false, "", 2, false}, "nothing here allows it": {linkOf{}, "", raw, nil, false, "", 2, false}, "one is denied": {linkOf{"update": no, "patch": yes}, "", raw, nil, false, "", 1, false},
		"both are denied": {linkOf{"update": no, "patch": no}, "", raw, nil, false, "rule 7 says no", 0, false}, "refused by the enforcer": {linkOf{"update": yes}, "", raw, apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("a field")), false, "a field", 1, false},
		"an object that cannot be read": {linkOf{"update": yes}, "", runtime.RawExtension{Raw: []byte(`{"apiVersion":"g/v2"}`)}, nil, true, "the object cannot be read", 1, false}, "a scale": {linkOf{"update": yes, "patch": yes}, "scale", raw, nil, false, "", 2, true},
		"no object": {linkOf{"update": yes}, "", runtime.RawExtension{}, nil, false, "the review cannot be read", 0, false},
	} {
		j := newJudge(t)
		*j.link, j.enforcer.err, j.enforcer.looks = c.answers, c.err, c.looks
		r := &admissionv1.AdmissionRequest{Operation: "UPDATE", Kind: metav1.GroupVersionKind{Group: "g", Version: "v1", Kind: "K"}, Resource: metav1.GroupVersionResource{Group: "g", Version: "v1", Resource: "things"}, SubResource: c.sub, Name: "x", Namespace: "team", Object: c.object, OldObject: raw, UserInfo: authenticationv1.UserInfo{Username: "rob"}}
		err := j.Admit(t.Context(), r)
		if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v, want %q", name, err, c.refused)
		}
		if len(j.enforcer.claims) != c.asked || slices.Contains(j.enforcer.claims, !c.claims) {
			t.Errorf("%s: the enforcer is asked %d times, claims %v", name, len(j.enforcer.claims), j.enforcer.claims)
		}
	}
	// A condition that fails is in the audit event of the call.
	j := newJudge(t)
	*j.link = linkOf{"update": authorizer.ConditionsAwareDecisionDeny("no", &authorize.SetError{Err: errors.New("boom")}), "patch": no}
	ctx := audited(t)
	_ = j.Admit(ctx, &admissionv1.AdmissionRequest{Operation: "UPDATE", Resource: metav1.GroupVersionResource{Group: "g", Version: "v1", Resource: "things"}, Object: raw, OldObject: raw, UserInfo: authenticationv1.UserInfo{Username: "rob"}})
	if said, _ := audit.AuditContextFrom(ctx).GetEventAnnotation(authorize.AnnotationFailure); !strings.Contains(said, "boom") {
		t.Errorf("the failure in audit is %q", said)
	}
	// What nothing serves is not admitted, and what was granted under a condition not without it.
	r := &admissionv1.AdmissionRequest{Operation: "DELETE", Resource: metav1.GroupVersionResource{Group: "elsewhere", Version: "v1", Resource: "things"}, Name: "x", OldObject: raw, UserInfo: authenticationv1.UserInfo{Username: "rob"}}
	if err := newJudge(t).Admit(t.Context(), r); err == nil || !strings.Contains(err.Error(), "nothing that serves things in elsewhere/v1") {
		t.Errorf("of what nothing serves: %v", err)
	}
}
