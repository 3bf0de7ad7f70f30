package accessreview

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
)

// What cannot be understood of a selector is left out and reported; it never narrows the question. (CA-14: as
// Kubernetes does; the package upstream compares the two.)
func TestSelectors(t *testing.T) {
	type fieldReq = metav1.FieldSelectorRequirement
	type labelReq = metav1.LabelSelectorRequirement
	n1 := []string{"n1"}
	for _, tt := range []struct {
		name   string
		fields *authorizationv1.FieldSelectorAttributes
		labels *authorizationv1.LabelSelectorAttributes
		want   string
		error  string
	}{
		{name: "none"},
		{name: "raw fields", fields: &authorizationv1.FieldSelectorAttributes{RawSelector: "a=b,c!=d"}, want: "a=b;c!=d;"},
		{name: "bad raw fields", fields: &authorizationv1.FieldSelectorAttributes{RawSelector: "a in (b)"},
			error: "spec.resourceAttributes.fieldSelector ignored due to parse error"},
		{name: "fields", fields: &authorizationv1.FieldSelectorAttributes{Requirements: []fieldReq{{Key: "a", Operator: "In", Values: n1}, {Key: "b", Operator: "NotIn", Values: n1}}},
			want: "a=n1;b!=n1;"},
		{name: "fields, some not understood", fields: &authorizationv1.FieldSelectorAttributes{Requirements: []fieldReq{
			{Key: "a", Operator: "In", Values: []string{"n1", "n2"}}, {Key: "b", Operator: "Exists"}, {Key: "c", Operator: "In", Values: n1},
			{Key: "d", Operator: "NotIn"}, {Key: "e", Operator: "Near", Values: n1}, {Key: "f", Operator: "NotIn", Values: []string{"n1", "n2"}}}},
			want: "c=n1;", error: "spec.resourceAttributes.fieldSelector partially ignored due to parse error"},
		{name: "fields, none understood", fields: &authorizationv1.FieldSelectorAttributes{Requirements: []fieldReq{{Key: "b", Operator: "DoesNotExist"}}},
			error: "spec.resourceAttributes.fieldSelector ignored due to parse error"},
		{name: "raw labels", labels: &authorizationv1.LabelSelectorAttributes{RawSelector: "a in (n1),!b"}, want: "a in (n1);!b;"},
		{name: "bad raw labels", labels: &authorizationv1.LabelSelectorAttributes{RawSelector: "a in"},
			error: "spec.resourceAttributes.labelSelector ignored due to parse error"},
		{name: "labels", labels: &authorizationv1.LabelSelectorAttributes{Requirements: []labelReq{
			{Key: "a", Operator: "In", Values: n1}, {Key: "b", Operator: "NotIn", Values: n1}, {Key: "c", Operator: "Exists"}, {Key: "d", Operator: "DoesNotExist", Values: []string{}}}},
			want: "a in (n1);b notin (n1);c;!d;"},
		{name: "labels, some not understood", labels: &authorizationv1.LabelSelectorAttributes{Requirements: []labelReq{
			{Key: "a", Operator: "In"}, {Key: "b", Operator: "Near", Values: n1}, {Key: "c", Operator: "Exists"}}},
			want: "c;", error: "spec.resourceAttributes.labelSelector partially ignored due to parse error"},
		{name: "both bad", fields: &authorizationv1.FieldSelectorAttributes{RawSelector: "a in (b)"}, labels: &authorizationv1.LabelSelectorAttributes{RawSelector: "="},
			error: "spec.resourceAttributes.fieldSelector ignored due to parse error; spec.resourceAttributes.labelSelector ignored due to parse error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			attrs := attributesOf(&user.DefaultInfo{}, &authorizationv1.ResourceAttributes{Resource: "pods", FieldSelector: tt.fields, LabelSelector: tt.labels}, nil)
			got := ""
			for _, r := range attrs.FieldSelectorRequirements {
				got += r.Field + string(r.Operator) + r.Value + ";"
			}
			for _, r := range attrs.LabelSelectorRequirements {
				got += r.String() + ";"
			}
			if diff := cmp.Diff(tt.want, got) + cmp.Diff(tt.error, evaluationError(nil, &attrs)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSubject(t *testing.T) {
	got := subjectOf(&authorizationv1.SubjectAccessReviewSpec{User: "u", UID: "1", Groups: []string{"g"}, Extra: map[string]authorizationv1.ExtraValue{"k": {"v"}}})
	want := &user.DefaultInfo{Name: "u", UID: "1", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}}
	if diff := cmp.Diff(user.Info(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if none := subjectOf(&authorizationv1.SubjectAccessReviewSpec{User: "u"}); none.GetExtra() != nil {
		t.Errorf("got extra %v, want none", none.GetExtra())
	}
}
