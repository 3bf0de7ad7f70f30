package v1alpha1

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// DA-2, DA-14: the seed's examples, as written, and what they are normalised to.
func TestAuditClassAcceptsTheSpellingsOfTheSeed(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{
			name: "namespaces as objects",
			in:   `{groupResourceSelectors: [{group: "", resources: [{kind: secrets}, {kind: configmaps}], scope: Namespaced, namespaces: [{name: kube-system}]}]}`,
			want: `{"groupResourceSelectors":[{"group":"","resources":[{"kind":"secrets"},{"kind":"configmaps"}],"scope":"Namespaced","namespaces":[{"name":"kube-system"}]}]}`,
		},
		{
			name: "namespaces as strings",
			in:   `{groupResourceSelectors: [{group: "", resources: [{kind: secrets}], scope: Namespaced, namespaces: ["vault", {name: other}]}]}`,
			want: `{"groupResourceSelectors":[{"group":"","resources":[{"kind":"secrets"}],"scope":"Namespaced","namespaces":[{"name":"vault"},{"name":"other"}]}]}`,
		},
		{
			name: "no group",
			in:   `{groupResourceSelectors: [{resources: [{kind: secrets}]}, {group: apps}]}`,
			want: `{"groupResourceSelectors":[{"resources":[{"kind":"secrets"}]},{"group":"apps"}]}`,
		},
		{
			name: "subject types",
			in:   `{subjects: [{type: Users, names: [a]}, {type: User, names: [b]}, {type: Group, names: [c]}, {type: UserGroup, names: [d]}, {type: Robot, names: [e]}]}`,
			want: `{"subjects":[{"type":"User","names":["a"]},{"type":"User","names":["b"]},{"type":"UserGroup","names":["c"]},{"type":"UserGroup","names":["d"]},{"type":"Robot","names":["e"]}]}`,
		},
		{
			name: "nonResourceSelectors as an object",
			in:   `{nonResourceSelectors: {urls: ["/api*", "/version"]}}`,
			want: `{"nonResourceSelectors":[{"urls":["/api*","/version"]}]}`,
		},
		{
			name: "nonResourceSelectors as a list",
			in:   `{nonResourceSelectors: [{urls: ["/api*"]}, {urls: ["/version"]}]}`,
			want: `{"nonResourceSelectors":[{"urls":["/api*"]},{"urls":["/version"]}]}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var rule Rule
			if err := yaml.Unmarshal([]byte(tc.in), &rule); err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(rule)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("normalised (-want +got):\n%s", diff)
			}
		})
	}
}

// DA-2
func TestAuditClassRefusesOtherShapes(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"namespace with an unknown key", `{"groupResourceSelectors":[{"namespaces":[{"names":"a"}]}]}`, `unknown field "names"`},
		{"group selector with an unknown key", `{"groupResourceSelectors":[{"groups":["a"]}]}`, `unknown field "groups"`},
		{"namespace as a number", `{"groupResourceSelectors":[{"namespaces":[7]}]}`, "namespace selector"},
		{"selector with an unknown key", `{"nonResourceSelectors":{"url":["/a"]}}`, `unknown field "url"`},
		{"selector as a string", `{"nonResourceSelectors":"/a"}`, "nonResourceSelectors"},
		{"selector with a key twice", `{"nonResourceSelectors":{"urls":["/a"],"urls":["/b"]}}`, `duplicate field "urls"`},
		{"type as a list", `{"subjects":[{"type":["User"]}]}`, "type of a subject"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var rule Rule
			err := json.Unmarshal([]byte(tc.in), &rule)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// FuzzAuditRuleJSON: decoding never panics, and normalising is idempotent.
func FuzzAuditRuleJSON(f *testing.F) {
	for _, s := range []string{
		`{}`, `null`, `{"subjects":[{"type":"Users","names":["system:kube-proxy"]}],"verbs":["watch"]}`,
		`{"nonResourceSelectors":{"urls":["/api*","/version"]}}`, `{"nonResourceSelectors":[{"urls":["/api*"]}]}`, `{"nonResourceSelectors":[null]}`,
		`{"groupResourceSelectors":[{"group":"","resources":[{"kind":"secrets"}],"scope":"Namespaced","namespaces":["vault",{"name":"x"},null]}]}`,
		`{"nonResourceSelectors":null}`, `{"nonResourceSelectors":{}}`, `{"nonResourceSelectors": {"urls" : null }}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var first Rule
		if json.Unmarshal(in, &first) != nil {
			return
		}
		out, err := json.Marshal(first)
		if err != nil {
			t.Fatalf("cannot encode what was decoded from %q: %v", in, err)
		}
		var second Rule
		if err := json.Unmarshal(out, &second); err != nil {
			t.Fatalf("cannot decode %s again: %v", out, err)
		}
		again, err := json.Marshal(second)
		if err != nil || string(again) != string(out) {
			t.Fatalf("not stable: %s, then %s (%v)", out, again, err)
		}
		for _, s := range second.Subjects {
			if s.Type == "Users" || s.Type == "Group" {
				t.Fatalf("spelling %q was not normalised", s.Type)
			}
		}
	})
}
