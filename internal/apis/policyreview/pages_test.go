package policyreview

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/test/law"
)

// EX-3: the parts of an answer together are the answer, on random policies, with the rules behind it.
func TestPartsAreTheAnswer(t *testing.T) {
	h := newHouse(t)
	parts := 0
	law.Rounds(t, 20, func(seed int64) int {
		w, pick := world(seed)
		ctx := request.WithUser(h.in(w), &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}})
		for range 4 {
			q := ask(pick)
			spec := authz.ResourceAccessReviewSpec{Verb: q.verb, ResourceKind: q.kind, ResourceName: q.name, IncludeBlocked: true, IncludeRules: true}
			whole, err := h.WhoCan(ctx, q.namespace, spec)
			if err != nil {
				t.Fatal(err)
			}
			var joined authz.ResourceAccessReviewStatus
			for spec.Limit = 1; ; parts++ {
				part, err := h.WhoCan(ctx, q.namespace, spec)
				if err != nil {
					t.Fatal(err)
				}
				joined.UserNames, joined.GroupNames = append(joined.UserNames, part.UserNames...), append(joined.GroupNames, part.GroupNames...)
				joined.Conditional, joined.BlockedBy = append(joined.Conditional, part.Conditional...), append(joined.BlockedBy, part.BlockedBy...)
				joined.Rules = append(joined.Rules, part.Rules...)
				joined.EvaluationError = part.EvaluationError
				if spec.Continue = part.Continue; spec.Continue == "" {
					break
				}
			}
			if diff := cmp.Diff(whole, joined); diff != "" {
				t.Fatalf("seed %d: %+v: the parts differ from the answer (-answer +parts):\n%s", seed, q, diff)
			}
			for _, name := range whole.UserNames {
				if !slices.ContainsFunc(whole.Rules, func(r authz.SubjectRules) bool {
					return r.UserName == name && slices.ContainsFunc(r.Rules, func(r authz.RuleTrace) bool { return r.Effect == authz.EffectAllow })
				}) {
					t.Fatalf("seed %d: %+v: no rule is said to allow %s", seed, q, name)
				}
			}
		}
		return 4
	})
	if parts < 20 {
		law.TooFew(t, "%d parts", parts)
	}
}

// EX-3: a continue that the server has not given for this question is refused, never taken for another place.
func TestBadContinueIsRefused(t *testing.T) {
	h := newHouse(t)
	w, _ := world(3)
	ctx := h.in(w)
	spec := authz.ResourceAccessReviewSpec{Verb: "get", ResourceKind: "pods", Limit: 1}
	good := token{question: hash("hammer", spec), Last: subjects(w)[0]}.String()
	encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for _, tc := range []struct {
		name, value, namespace string
		change                 func(*authz.ResourceAccessReviewSpec)
		want                   bool
	}{
		{name: "as given", value: good, want: true},
		{name: "with another size", value: good, change: func(s *authz.ResourceAccessReviewSpec) { s.Limit = 7 }, want: true},
		{name: "of another verb", value: good, change: func(s *authz.ResourceAccessReviewSpec) { s.Verb = "list" }},
		{name: "of another filter", value: good, change: func(s *authz.ResourceAccessReviewSpec) { s.NameContains = "a" }},
		{name: "of another namespace", value: good, namespace: "anvil"},
		{name: "not base64", value: "%%%"},
		{name: "not JSON", value: encode("hello")},
		{name: "a number", value: encode("7")},
		{name: "without a name", value: encode(`{"v":1,"q":"` + hash("hammer", spec) + `"}`)},
		{name: "of another version", value: encode(`{"v":2,"n":"a","q":"` + hash("hammer", spec) + `"}`)},
		{name: "cut", value: good[:len(good)-3]},
		{name: "very long", value: strings.Repeat(good, 1000)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			asked, namespace := spec, "hammer"
			asked.Continue = tc.value
			if tc.change != nil {
				tc.change(&asked)
			}
			if tc.namespace != "" {
				namespace = tc.namespace
			}
			_, err := h.WhoCan(ctx, namespace, asked)
			if (err == nil) != tc.want || err != nil && !apierrors.IsBadRequest(err) {
				t.Errorf("error %v, want it taken: %v", err, tc.want)
			}
		})
	}
}
