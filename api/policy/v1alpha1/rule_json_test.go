package v1alpha1

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
)

func raw(s string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(s)} }

// PO-11
func TestAttributeRestrictionsAcceptTheSpellingsOfTheSeed(t *testing.T) {
	for _, tc := range []struct {
		name, in, wantJSON string
		want               AttributeRestrictions
	}{
		{
			name: "today's spelling", in: `{"fieldsMutable":[".metadata.labels"]}`, wantJSON: `{"fieldsMutable":[".metadata.labels"]}`,
			want: AttributeRestrictions{FieldsMutable: []string{".metadata.labels"}},
		},
		{
			name: "fieldsMutatable", in: `{"fieldsMutatable":["labels"]}`, wantJSON: `{"fieldsMutatable":["labels"]}`,
			want: AttributeRestrictions{FieldsMutable: []string{"labels"}, Spelling: []string{"fieldsMutatable"}},
		},
		{
			name: "sameMinionRestriction", in: `{"sameMinionRestriction":true}`, wantJSON: `{"sameMinionRestriction":true}`,
			want: AttributeRestrictions{SameNodeRestriction: true, Spelling: []string{"sameMinionRestriction"}},
		},
		{
			name: "kind sameMinionRestriction", in: `{"kind":"sameMinionRestriction"}`, wantJSON: `{"kind":"sameMinionRestriction"}`,
			want: AttributeRestrictions{SameNodeRestriction: true, Spelling: []string{"kind=sameMinionRestriction"}},
		},
		{
			name: "kind sameNodeRestriction", in: `{"kind":"sameNodeRestriction"}`, wantJSON: `{"kind":"sameNodeRestriction"}`,
			want: AttributeRestrictions{SameNodeRestriction: true, Spelling: []string{"kind=sameNodeRestriction"}},
		},
		{
			name: "a kind is not undone by a false beside it", in: `{"kind":"sameMinionRestriction","sameNodeRestriction":false}`,
			wantJSON: `{"kind":"sameMinionRestriction"}`, want: AttributeRestrictions{SameNodeRestriction: true, Spelling: []string{"kind=sameMinionRestriction"}},
		},
		{
			name: "an unknown kind is kept", in: `{"kind":"sameRackRestriction"}`, wantJSON: `{"kind":"sameRackRestriction"}`,
			want: AttributeRestrictions{Unrecognized: map[string]runtime.RawExtension{"kind": raw(`"sameRackRestriction"`)}},
		},
		{
			name: "an unknown restriction is kept", in: `{"labelsContain":["a"],"onlyOnSundays":{"tz": "UTC"}}`,
			wantJSON: `{"labelsContain":["a"],"onlyOnSundays":{"tz":"UTC"}}`,
			want: AttributeRestrictions{LabelsContain: []string{"a"},
				Unrecognized: map[string]runtime.RawExtension{"onlyOnSundays": raw(`{"tz":"UTC"}`)}},
		},
		{
			name: "an empty list is not one that is left out", in: `{"fieldsMutable":[]}`, wantJSON: `{"fieldsMutable":[]}`,
			want: AttributeRestrictions{FieldsMutable: []string{}},
		},
		{
			name: "case matters", in: `{"FieldsMutable":["a"]}`, wantJSON: `{"FieldsMutable":["a"]}`,
			want: AttributeRestrictions{Unrecognized: map[string]runtime.RawExtension{"FieldsMutable": raw(`["a"]`)}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got AttributeRestrictions
			if err := json.Unmarshal([]byte(tc.in), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("decoded (-want +got):\n%s", diff)
			}
			out, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			if string(out) != tc.wantJSON {
				t.Errorf("encoded %s, want %s", out, tc.wantJSON)
			}
			// The copy and the conversion that patches go through keep everything, too.
			u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&PolicyRule{Verbs: []string{"get"}, AttributeRestrictions: got.DeepCopy()})
			if err != nil {
				t.Fatal(err)
			}
			var back PolicyRule
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u, &back); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tc.want, back.AttributeRestrictions); diff != "" {
				t.Errorf("through unstructured (-want +got):\n%s", diff)
			}
		})
	}
}

// PO-11
func TestAmbiguousInputIsAnError(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"two spellings", `{"attributeRestrictions":{"fieldsMutable":["a"],"fieldsMutatable":["b"]}}`, "two spellings"},
		{"a key twice", `{"deny":true,"verbs":["get"],"deny":false}`, `duplicate field "deny"`},
		{"a restriction twice", `{"attributeRestrictions":{"labelsContain":["a"],"labelsContain":[]}}`, `duplicate field "labelsContain"`},
		{"not an object", `{"attributeRestrictions":["sameMinionRestriction"]}`, "attributeRestrictions"},
		{"not a list", `{"attributeRestrictions":{"fieldsMutatable":"labels"}}`, "fieldsMutatable"},
		{"not a bool", `{"attributeRestrictions":{"sameMinionRestriction":"yes"}}`, "true or false"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var rule PolicyRule
			err := json.Unmarshal([]byte(tc.in), &rule)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// PO-1: a misspelled key must not silently widen a rule or turn a deny into an allow.
func TestRuleKeepsWhatItDoesNotKnow(t *testing.T) {
	const in = `{"Deny":true,"resourceKinds":["pods"],"verbs":["delete"],"wehre":"false"}`
	var rule PolicyRule
	if err := json.Unmarshal([]byte(in), &rule); err != nil {
		t.Fatal(err)
	}
	if rule.Deny || len(rule.Unrecognized) != 2 {
		t.Fatalf("deny %v, unrecognized %v: want both misspelled keys kept apart", rule.Deny, rule.Unrecognized)
	}
	out, err := json.Marshal(rule)
	if err != nil {
		t.Fatal(err)
	}
	if string(out) != in {
		t.Errorf("encoded %s, want %s", out, in)
	}
}

// FuzzRuleJSON: decoding never panics, what was decoded encodes to something that decodes to the same value, and a
// restriction is never lost on the way.
func FuzzRuleJSON(f *testing.F) {
	for _, s := range []string{
		`{}`, `null`, `{"verbs":["*","-deletecollection"],"resourceKinds":["*","-roles"]}`,
		`{"deny":true,"verbs":["delete"],"attributeRestrictions":{"labelsContain":["protected"]}}`,
		`{"verbs":["update"],"attributeRestrictions":{"fieldsMutatable":["labels"]}}`,
		`{"verbs":["*"],"resourceKinds":["Pod"],"attributeRestrictions":{"kind":"sameMinionRestriction"}}`,
		`{"attributeRestrictions":{"kind":"other","fieldsMutable":[],"x":null}}`,
		`{"attributeRestrictions":null,"Where":"1","where":"a\u0000b"}`, `{"a":1,"a":2}`, `[]`, `"x"`, `{"attributeRestrictions":{}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var first PolicyRule
		if json.Unmarshal(in, &first) != nil {
			return
		}
		out, err := json.Marshal(first)
		if err != nil {
			t.Fatalf("cannot encode what was decoded from %q: %v", in, err)
		}
		var second PolicyRule
		if err := json.Unmarshal(out, &second); err != nil {
			t.Fatalf("cannot decode %s again: %v", out, err)
		}
		again, err := json.Marshal(second)
		if err != nil || string(again) != string(out) {
			t.Fatalf("not stable: %s, then %s (%v)", out, again, err)
		}
		if (first.AttributeRestrictions == nil) != (second.AttributeRestrictions == nil) {
			t.Fatalf("restrictions appeared or disappeared: %s", out)
		}
		if a, b := first.AttributeRestrictions, second.AttributeRestrictions; a != nil {
			if a.SameNodeRestriction != b.SameNodeRestriction || len(a.FieldsMutable) != len(b.FieldsMutable) ||
				(a.FieldsMutable == nil) != (b.FieldsMutable == nil) || len(a.LabelsContain) != len(b.LabelsContain) ||
				len(a.Unrecognized) != len(b.Unrecognized) {
				t.Fatalf("restrictions changed: %+v, then %+v", a, b)
			}
		}
		if len(first.Unrecognized) != len(second.Unrecognized) || first.Deny != second.Deny {
			t.Fatalf("rule changed: %+v, then %+v", first, second)
		}
	})
}
