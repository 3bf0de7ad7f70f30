package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

const (
	asJSON     = "application/json"
	asYAML     = "application/yaml"
	asProtobuf = "application/vnd.kubernetes.protobuf"
)

// TestSameAsKubernetes: callers that do not ask for conditions get exactly what Kubernetes answers: codes, messages,
// fields, warnings, managed fields; and the authorizers are asked exactly the same (CA-14, CA-20).
func TestSameAsKubernetes(t *testing.T) {
	p := newPair(t, false)
	n := 1500
	if testing.Short() {
		n = 300
	}
	if runs, err := strconv.Atoi(os.Getenv("PROVISO_LAW_RUNS")); err == nil && runs > 0 {
		n = runs
	}
	codes := map[int]int{}
	for seed := range uint64(n) {
		r := rand.New(rand.NewPCG(seed, 20))
		p.authorizer.Decision = randomDecision(r)
		e := randomExchange(t, r)
		code, diff := compare(t, p, e)
		// Managed fields tell the second: try again if it has passed in between.
		for try := 0; diff != "" && try < 4; try++ {
			code, diff = compare(t, p, e)
		}
		if diff != "" {
			t.Fatalf("seed %d: %s %s\n%q\n(-Kubernetes +ours):\n%s", seed, e.path, e.contentType, e.body, diff)
		}
		codes[code]++
	}
	for _, code := range []int{201, 400, 422} {
		if codes[code] < n/50 {
			t.Errorf("only %d of %d answers were %d: the generator does not reach it", codes[code], n, code)
		}
	}
}

func compare(t *testing.T, p *pair, e exchange) (int, string) {
	want, wantAsked := send(t, p.stock, e), asked(p.authorizer.Asked())
	got, gotAsked := send(t, p.ours, e), asked(p.authorizer.Asked())
	return got.Code, cmp.Diff(want, got) + cmp.Diff(wantAsked, gotAsked)
}

// asked makes the attributes comparable. How a parse error is worded is not: no client sees it.
func asked(all []authorizer.Attributes) []string {
	var texts []string
	for _, a := range all {
		fields, ferr := a.GetFieldSelector()
		labels, lerr := a.GetLabelSelector()
		texts = append(texts, fmt.Sprintf("%T %q %q %q %q | %q %q %q %q %q %q %q %v %v | %v %v %v %v", a,
			a.GetUser().GetName(), a.GetUser().GetUID(), a.GetUser().GetGroups(), a.GetUser().GetExtra(),
			a.GetVerb(), a.GetNamespace(), a.GetAPIGroup(), a.GetAPIVersion(), a.GetResource(), a.GetSubresource(), a.GetName(),
			a.GetPath(), a.IsResourceRequest(), fields, ferr != nil, labels, lerr != nil))
	}
	return texts
}

func randomDecision(r *rand.Rand) authorizer.ConditionsAwareDecision {
	var err error
	if r.IntN(4) == 0 {
		err = errors.New("trouble")
	}
	reason := pick(r, "", "because")
	condition := []authorizer.Condition{authorizer.GenericCondition{ID: "example.com/c", Condition: "true"}}
	switch r.IntN(5) {
	case 0:
		return authorizer.ConditionsAwareDecisionAllow(reason, err)
	case 1:
		return authorizer.ConditionsAwareDecisionDeny(reason, err)
	case 2:
		return authorizer.ConditionsAwareDecisionConditionsMap(condition, nil, nil)
	case 3:
		return authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, condition)
	}
	return authorizer.ConditionsAwareDecisionNoOpinion(reason, err)
}

func pick[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

// seldom is true once in a while: most of a request has to be right for the rest to matter.
func seldom(r *rand.Rand) bool { return r.IntN(12) == 0 }

func randomExchange(t *testing.T, r *rand.Rand) exchange {
	e := exchange{contentType: asJSON, accept: pick(r, asJSON, asJSON, asProtobuf, "*/*", asYAML, "application/json;as=Table;g=meta.k8s.io;v=v1,application/json")}
	if seldom(r) {
		e.body, e.path = []byte(pick(r, oddBodies...)), pick(r, "subjectaccessreviews", "selfsubjectaccessreviews", "namespaces/hammer/localsubjectaccessreviews", "selfsubjectrulesreviews")
		e.accept = asJSON // the messages name types in Go
		e.path += pick(r, "", "?fieldValidation=Strict", "?fieldValidation=Warn", "?fieldValidation=Ignore", "?fieldValidation=Sometimes")
		return e
	}
	meta := randomMeta(r)
	spec := randomSpec(r)
	status := authorizationv1.SubjectAccessReviewStatus{}
	if seldom(r) {
		status = authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true, Reason: "said the client", EvaluationError: "oh"}
	}
	var obj runtime.Object
	var kind string
	switch r.IntN(4) {
	case 0:
		kind, e.path = "SubjectAccessReview", "subjectaccessreviews"
		obj = &authorizationv1.SubjectAccessReview{ObjectMeta: meta, Spec: spec, Status: status}
	case 1:
		kind, e.path = "SelfSubjectAccessReview", "selfsubjectaccessreviews"
		obj = &authorizationv1.SelfSubjectAccessReview{ObjectMeta: meta, Status: status, Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: spec.ResourceAttributes, NonResourceAttributes: spec.NonResourceAttributes}}
	case 2:
		kind, e.path = "LocalSubjectAccessReview", "namespaces/hammer/localsubjectaccessreviews"
		if !seldom(r) {
			meta.Namespace = "hammer"
		}
		if a := spec.ResourceAttributes; a != nil && !seldom(r) {
			a.Namespace = "hammer"
		}
		obj = &authorizationv1.LocalSubjectAccessReview{ObjectMeta: meta, Spec: spec, Status: status}
	default:
		kind, e.path = "SelfSubjectRulesReview", "selfsubjectrulesreviews"
		obj = &authorizationv1.SelfSubjectRulesReview{ObjectMeta: meta, Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: pick(r, "", "hammer", "hammer")}}
	}
	e.path += pick(r, "", "", "", "?dryRun=All", "?fieldManager=me", "?fieldValidation=Strict", "?dryRun=Some", "?pretty=true")
	if !seldom(r) {
		obj.GetObjectKind().SetGroupVersionKind(authorizationv1.SchemeGroupVersion.WithKind(kind))
	} else if seldom(r) {
		e.accept = asJSON // the message names the types in Go
		obj.GetObjectKind().SetGroupVersionKind(authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"))
	}
	e.body = encode(t, r, obj, &e.contentType)
	return e
}

func encode(t *testing.T, r *rand.Rand, obj runtime.Object, contentType *string) []byte {
	if r.IntN(3) == 0 {
		*contentType = asProtobuf
		message, ok := obj.(interface{ Marshal() ([]byte, error) })
		if !ok {
			t.Fatalf("%T has no protobuf form", obj)
		}
		raw, err := message.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		gvk := obj.GetObjectKind().GroupVersionKind()
		envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind}, Raw: raw}
		body, err := envelope.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return append([]byte("k8s\x00"), body...)
	}
	body, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func randomMeta(r *rand.Rand) metav1.ObjectMeta {
	if !seldom(r) {
		return metav1.ObjectMeta{}
	}
	return pick(r,
		metav1.ObjectMeta{Name: "x"}, metav1.ObjectMeta{Namespace: "hammer"}, metav1.ObjectMeta{Namespace: "other"},
		metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, metav1.ObjectMeta{GenerateName: "x-"}, metav1.ObjectMeta{UID: "1"},
		metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}},
		metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Name: "o"}, {Name: "o"}}},
		metav1.ObjectMeta{Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}})
}

func randomSpec(r *rand.Rand) authorizationv1.SubjectAccessReviewSpec {
	spec := authorizationv1.SubjectAccessReviewSpec{User: pick(r, "edgar", "edgar", ""), UID: pick(r, "", "7")}
	if r.IntN(2) == 0 {
		spec.Groups = []string{"g1", "g2"}[:r.IntN(3)]
	}
	if r.IntN(3) == 0 {
		spec.Extra = map[string]authorizationv1.ExtraValue{"k": {"v"}, "empty": {}, "nil": nil}
	}
	resource := r.IntN(3) > 0
	path := !resource
	if seldom(r) {
		resource, path = r.IntN(2) == 0, r.IntN(2) == 0
	}
	if resource {
		spec.ResourceAttributes = &authorizationv1.ResourceAttributes{
			Namespace: pick(r, "", "hammer"), Verb: pick(r, "get", "create", "*", ""), Group: pick(r, "", "apps", "*"), Version: pick(r, "", "v1", "*"),
			Resource: pick(r, "pods", "*", ""), Subresource: pick(r, "", "exec"), Name: pick(r, "", "web"),
			FieldSelector: randomFieldSelector(r), LabelSelector: randomLabelSelector(r),
		}
	}
	if path {
		spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: pick(r, "", "/metrics", "relative", "<&>"), Verb: pick(r, "", "get")}
	}
	return spec
}

func randomFieldSelector(r *rand.Rand) *authorizationv1.FieldSelectorAttributes {
	if r.IntN(3) > 0 {
		return nil
	}
	s := &authorizationv1.FieldSelectorAttributes{}
	if r.IntN(3) == 0 {
		s.RawSelector = pick(r, "spec.nodeName=n1", "a=b,c!=d", "a==b", "=", "a", "a in (b)", "a=b\\,c", ",")
	}
	if s.RawSelector == "" || seldom(r) {
		for range r.IntN(4) {
			s.Requirements = append(s.Requirements, metav1.FieldSelectorRequirement{
				Key: pick(r, "spec.nodeName", "spec.nodeName", "spec.nodeName", "a", "b", ""), Operator: pick[metav1.FieldSelectorOperator](r, "In", "In", "NotIn", "NotIn", "Near", "Exists", "DoesNotExist", ""),
				Values: pick(r, []string{"n1"}, []string{"n1"}, []string{"n1", "n2"}, nil, []string{})})
		}
	}
	return s
}

func randomLabelSelector(r *rand.Rand) *authorizationv1.LabelSelectorAttributes {
	if r.IntN(3) > 0 {
		return nil
	}
	s := &authorizationv1.LabelSelectorAttributes{}
	if r.IntN(3) == 0 {
		s.RawSelector = pick(r, "app=web", "app in (web,db),!old", "app notin (web)", "app", "app in", "=", "a=b=c", "-x=y", ",")
	}
	if s.RawSelector == "" || seldom(r) {
		for range r.IntN(4) {
			s.Requirements = append(s.Requirements, metav1.LabelSelectorRequirement{
				Key: pick(r, "app", "app", "app", "tier", "", "-bad-"), Operator: pick[metav1.LabelSelectorOperator](r, "In", "In", "NotIn", "Exists", "DoesNotExist", "GreaterThan", ""),
				Values: pick(r, []string{"web"}, []string{"web"}, []string{"web", "db"}, nil, []string{}, []string{"not a value"})})
		}
	}
	return s
}

// oddBodies are what no client of k8s.io/api would send.
var oddBodies = []string{
	``, `{}`, `null`, `[]`, `7`, `{`, `{"spec":null}`, `{"spec":7}`, `{"spec":{"user":7}}`, `{"spec":{"resourceAttributes":[]}}`,
	`{"spec":{"user":"a","resourceAttributes":{}}}`, `{"spec":{"user":"a","resourceAttributes":null,"nonResourceAttributes":{}}}`,
	`{"spec":{"user":"a","User":"b","resourceAttributes":{}}}`, `{"spec":{"user":"a","user":"b","resourceAttributes":{}}}`,
	`{"spec":{"user":"a","resourceAttributes":{"verb":"get","verbs":["get"]}}}`, `{"spec":{"user":"a","groups":["g",null],"resourceAttributes":{}}}`,
	`{"spec":{"user":"a","extra":{"k":"v"},"resourceAttributes":{}}}`, `{"spec":{"user":"a","extra":{"k":null},"resourceAttributes":{}}}`,
	`{"unknown":1,"spec":{"user":"a","resourceAttributes":{}}}`, `{"metadata":7}`, `{"metadata":{"name":7}}`, `{"metadata":null,"spec":{"user":"a","resourceAttributes":{}}}`,
	`{"kind":"SubjectAccessReview"}`, `{"apiVersion":"authorization.k8s.io/v1"}`, `{"status":{"allowed":"yes"}}`, `{"status":{"allowed":true},"spec":{"namespace":"x"}}`,
	`{"spec":{"user":"a","resourceAttributes":{"namespace":"hammer"}},"metadata":{"namespace":"hammer","creationTimestamp":null}}`,
	"spec: {user: a, resourceAttributes: {}}", `{"spec":{"user":"\ud800","resourceAttributes":{}}}`, "\x00\x01",
}
