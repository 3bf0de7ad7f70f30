package accessreview

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// spoken evaluates conditions that say what they come to: "x" and "true" hold, "error" fails, everything else does not
// hold.
func spoken(_ context.Context, c authorizer.Condition, _ authorizer.ConditionsData) (bool, error) {
	switch c.GetCondition() {
	case "x", "true":
		return true, nil
	case "error":
		return false, errors.New("no such field")
	}
	return false, nil
}

const conditionsPath = group + "v1alpha1/authorizationconditionsreviews"

// conditionsReview is a review of conditions that are written effect=text, of type CEL unless the text says otherwise.
func conditionsReview(mode string, conditions ...string) string {
	text := "request:\n  operation: CREATE\n  conditionSet:\n    failureMode: " + mode + "\n    conditions:\n"
	for i, c := range conditions {
		effect, condition, _ := strings.Cut(c, "=")
		kind := TypeCEL
		if condition == "opaque" {
			kind = "example.com/opaque"
		}
		text += fmt.Sprintf("    - {id: example.com/c%d, effect: %s, type: %s, condition: %q, description: in words}\n", i, effect, kind, condition)
	}
	return text
}

// CA-2, CA-15: what sets of conditions come to.
func TestConditionsReview(t *testing.T) {
	server := serve(t, Config{Evaluate: spoken}, allow)
	for _, tt := range []struct {
		name, review string
		want         string
	}{
		{"allow", conditionsReview("Deny", "Allow=true"), `
			allowed: true
			reason: condition "example.com/c0" allowed the request with description "in words"`},
		{"not met", conditionsReview("Deny", "Allow=false", "Deny=false", "NoOpinion=false"), `
			allowed: false
			reason: no conditions matched`},
		{"deny before allow", conditionsReview("Deny", "Allow=true", "Deny=true", "NoOpinion=true"), `
			allowed: false
			denied: true
			reason: condition "example.com/c1" denied the request with description "in words"`},
		{"a deny that is met hides one that fails", conditionsReview("NoOpinion", "Deny=error", "Deny=true"), `
			allowed: false
			denied: true
			reason: condition "example.com/c1" denied the request with description "in words"`},
		{"a failing deny denies", conditionsReview("Deny", "Deny=error", "Allow=true"), `
			allowed: false
			denied: true
			evaluationError: 'condition "example.com/c0" with effect=Deny evaluated to an error:
			  no such field'
			reason: one or more conditional evaluation errors occurred`},
		{"a failing deny of one that fails open", conditionsReview("NoOpinion", "Deny=error", "Allow=true"), `
			allowed: false
			evaluationError: 'condition "example.com/c0" with effect=Deny evaluated to an error:
			  no such field'
			reason: one or more conditional evaluation errors occurred`},
		{"a failing no opinion", conditionsReview("Deny", "NoOpinion=error", "Allow=true"), `
			allowed: false
			evaluationError: 'condition "example.com/c0" with effect=NoOpinion evaluated to an
			  error: no such field'
			reason: one or more conditional evaluation errors occurred`},
		{"a failing allow is ignored", conditionsReview("Deny", "Allow=error", "Allow=true"), `
			allowed: true
			reason: condition "example.com/c1" allowed the request with description "in words"`},
		{"a type that is not known denies if it could", conditionsReview("Deny", "Deny=opaque", "Allow=true"), `
			allowed: false
			denied: true
			evaluationError: 'condition "example.com/c0" with effect=Deny evaluated to an error:
			  type "example.com/opaque" cannot be evaluated here, only k8s.io/authorization-cel
			  can'
			reason: one or more conditional evaluation errors occurred`},
		{"a type that is not known does not allow", conditionsReview("Deny", "Allow=opaque"), `
			allowed: false
			evaluationError: 'condition "example.com/c0" with effect=Allow evaluated to an error:
			  type "example.com/opaque" cannot be evaluated here, only k8s.io/authorization-cel
			  can'
			reason: one or more conditional evaluation errors occurred`},
		{"only no opinion", conditionsReview("Deny", "NoOpinion=false"), `
			allowed: false
			reason: only NoOpinion conditions always evaluate to NoOpinion`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, got := postYAML(t, server, conditionsPath, tt.review, "response")
			if want := tidy(tt.want); code != 201 || got != want {
				t.Errorf("got %d:\n%s\nwant 201:\n%s", code, got, want)
			}
		})
	}
}

// CA-1: a malformed set is not evaluated. It denies if any of it could have denied, whatever its failure mode.
func TestMalformedSets(t *testing.T) {
	server := serve(t, Config{Evaluate: spoken}, allow)
	many := func(first string) []string {
		all := []string{first}
		for range authorizer.MaxConditionsPerMap {
			all = append(all, "Allow=true")
		}
		return all
	}
	replace := func(review, old, new string) string {
		if !strings.Contains(review, old) {
			t.Fatalf("no %q in %q", old, review)
		}
		return strings.Replace(review, old, new, 1)
	}
	for _, tt := range []struct {
		name, want string
		review     func(first string) string
	}{
		{"full set", "", func(first string) string { return conditionsReview("NoOpinion", many(first)[:128]...) }},
		{"too many", "too many conditions: 129", func(first string) string { return conditionsReview("NoOpinion", many(first)...) }},
		{"same id twice", `duplicate condition ID "example.com/c0"`, func(first string) string {
			return replace(conditionsReview("NoOpinion", first, "Allow=true"), "example.com/c1", "example.com/c0")
		}},
		{"id without a domain", "", func(first string) string {
			return replace(conditionsReview("NoOpinion", first, "Allow=true"), "example.com/c0", "c0")
		}},
		{"id that is no label key", `invalid condition ID "example.com/c+0"`, func(first string) string {
			return replace(conditionsReview("NoOpinion", first, "Allow=true"), "example.com/c0", "example.com/c+0")
		}},
		{"type that is no label key", `invalid condition type "k8s.io/+"`, func(first string) string {
			return replace(conditionsReview("NoOpinion", first, "Allow=true"), "k8s.io/authorization-cel", "k8s.io/+")
		}},
		{"longest text", "", func(first string) string {
			return conditionsReview("NoOpinion", first, "Allow=true", "Allow="+strings.Repeat("x", 10240))
		}},
		{"text too long", "its text has 10241 bytes, the limit is 10240", func(first string) string {
			return conditionsReview("NoOpinion", first, "Allow=true", "Allow="+strings.Repeat("x", 10241))
		}},
		{"longest description", "", func(first string) string {
			return replace(conditionsReview("NoOpinion", first, "Allow=true"), "in words", strings.Repeat("w", 1024))
		}},
		{"description too long", "its description has 1025 bytes", func(first string) string {
			return replace(conditionsReview("NoOpinion", first, "Allow=true"), "in words", strings.Repeat("w", 1025))
		}},
	} {
		for _, first := range []string{"Allow=false", "Deny=false", "NoOpinion=false"} {
			t.Run(tt.name+" "+first, func(t *testing.T) {
				code, got := postYAML(t, server, conditionsPath, tt.review(first), "response")
				got = strings.Join(strings.Fields(got), " ")
				want := "allowed: true"
				switch {
				case tt.want != "" && first == "Deny=false":
					want = "allowed: false denied: true"
				case tt.want != "":
					want = "allowed: false evaluationError"
				}
				if code != 201 || !strings.HasPrefix(got, want) || !strings.Contains(got, tt.want) {
					t.Errorf("got %d: %s\nwant %s ... %s", code, got, want, tt.want)
				}
			})
		}
	}
}

// CA-15: a request whose shape is wrong is refused with the field that is wrong.
func TestBadConditionsRequests(t *testing.T) {
	server := serve(t, Config{Evaluate: spoken}, allow)
	good := conditionsReview("Deny", "Allow=true")
	for _, tt := range []struct {
		name, old, new, field string
	}{
		{"as it should be", "", "", ""},
		{"no request", good, "{}", "request"},
		{"no operation", "CREATE", `""`, "request.operation"},
		{"other operation", "CREATE", "create", "request.operation"},
		{"object is a list", "operation:", "object: [1]\n  operation:", "request.object"},
		{"old object is a number", "operation:", "oldObject: 1\n  operation:", "request.oldObject"},
		{"options are a string", "operation:", "options: \"{}\"\n  operation:", "request.options"},
		{"object is null", "operation:", "object: null\n  operation:", ""},
		{"failure mode", "failureMode: Deny", "failureMode: Allow", "request.conditionSet.failureMode"},
		{"no failure mode", "failureMode: Deny", "failureMode: \"\"", ""},
		{"effect", "effect: Allow", "effect: allow", "request.conditionSet.conditions[0].effect"},
		{"no effect", "effect: Allow, ", "", "request.conditionSet.conditions[0].effect"},
		{"nothing to evaluate", "failureMode: Deny", "allowed: true", "request.conditionSet"},
		{"no conditions", good, "request: {operation: CREATE, conditionSet: {}}", "request.conditionSet.conditions"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name != "as it should be" && !strings.Contains(good, tt.old) {
				t.Fatalf("no %q in %q", tt.old, good)
			}
			code, got := postYAML(t, server, conditionsPath, strings.Replace(good, tt.old, tt.new, 1), "details")
			if tt.field == "" {
				if code != 201 {
					t.Errorf("got %d, want 201", code)
				}
				return
			}
			if code != 422 || !strings.Contains(got, "field: "+tt.field+"\n") {
				t.Errorf("got %d:\n%s\nwant 422 naming %s", code, got, tt.field)
			}
		})
	}
}

// CA-15: the evaluator sees what the review brings, and no more.
func TestConditionsData(t *testing.T) {
	var seen authorizer.ConditionsData
	server := serve(t, Config{Evaluate: func(_ context.Context, c authorizer.Condition, d authorizer.ConditionsData) (bool, error) {
		seen = d
		return true, nil
	}}, allow)
	review := conditionsReview("Deny", "Allow=true")
	for _, tt := range []struct {
		name, objects string
		check         func() error
	}{
		{"update", "object: {apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: hammer}, spec: {replicas: 3}}\n  oldObject: {metadata: {name: web}}\n  options: {dryRun: [All]}", func() error {
			object, ok := seen.GetObject().(*unstructured.Unstructured)
			if !ok {
				return fmt.Errorf("object is a %T", seen.GetObject())
			}
			if replicas, _, err := unstructured.NestedInt64(object.Object, "spec", "replicas"); err != nil || replicas != 3 || seen.GetOldObject() == nil || seen.GetOperationOptions() == nil {
				return errors.New("objects")
			}
			if seen.GetKind().String() != "apps/v1, Kind=Deployment" || seen.GetName() != "web" || seen.GetNamespace() != "hammer" {
				return fmt.Errorf("%s %s/%s", seen.GetKind(), seen.GetNamespace(), seen.GetName())
			}
			return nil
		}},
		{"only the old object", "oldObject: {kind: Pod, apiVersion: v1, metadata: {name: old}}", func() error {
			if seen.GetObject() != nil || seen.GetOperationOptions() != nil || seen.GetName() != "old" || seen.GetKind().Kind != "Pod" {
				return fmt.Errorf("%v %v %s", seen.GetObject(), seen.GetOperationOptions(), seen.GetName())
			}
			return nil
		}},
		{"nothing", "", func() error {
			if seen.GetObject() != nil || seen.GetOldObject() != nil || seen.GetOperationOptions() != nil || seen.GetUserInfo() == nil ||
				seen.GetName() != "" || seen.GetNamespace() != "" || !seen.GetKind().Empty() {
				return errors.New("something")
			}
			return nil
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			seen = nil
			code, got := postYAML(t, server, conditionsPath, strings.Replace(review, "operation: CREATE", "operation: UPDATE\n  "+tt.objects, 1), "response")
			if code != 201 || seen == nil || seen.GetOperation() != "UPDATE" {
				t.Fatalf("got %d: %s, seen %v", code, got, seen)
			}
			if err := tt.check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Without an evaluator conditions fail closed. A context that has ended evaluates nothing.
func TestNoEvaluator(t *testing.T) {
	_, got := postYAML(t, serve(t, Config{}, allow), conditionsPath, conditionsReview("Deny", "Deny=false", "Allow=true"), "response")
	if !strings.Contains(got, "denied: true") {
		t.Errorf("got %s", got)
	}
	r := &conditionsREST{evaluate: spoken}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	condition := authorizer.GenericCondition{ID: "a/b", Type: TypeCEL, Condition: "true"}
	if ok, err := r.one(ended, condition, nil); ok || err == nil {
		t.Errorf("got %v, %v, want an error", ok, err)
	}
	if ok, err := r.one(t.Context(), condition, nil); !ok || err != nil {
		t.Errorf("got %v, %v, want true", ok, err)
	}
}

// The review has no protobuf form, and must not be taken for an empty one.
func TestNoProtobuf(t *testing.T) {
	server := serve(t, Config{Evaluate: spoken}, allow)
	body, err := json.Marshal(map[string]any{"request": map[string]any{"operation": "CREATE", "conditionSet": map[string]any{
		"conditions": []any{map[string]any{"id": "a/b", "effect": "Allow", "type": TypeCEL, "condition": "true"}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if r := post(t, server, conditionsPath, asJSON, asProtobuf, body); r.code != 406 {
		t.Errorf("answer in protobuf: got %d %q, want 406", r.code, r.body)
	}
	if r := post(t, server, conditionsPath, asProtobuf, asJSON, []byte("k8s\x00\x0a\x00\x12\x00")); r.code != 400 {
		t.Errorf("question in protobuf: got %d %q, want 400", r.code, r.body)
	}
}
