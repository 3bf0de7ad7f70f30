package fieldperm

import (
	"strings"
	"testing"
)

// FP-1: names that break a rule are refused with the rule they break.
func TestValidateName(t *testing.T) {
	for _, tc := range []struct{ name, want string }{
		{"example.com/selfDestruct", ""},
		{"proviso.dev/podSecurityLevel", ""},
		{"a.b/x", ""},
		{"nodeAssignment", ""}, // a CRD may reuse what is shipped
		{"replicas", ""},
		{"labels", ""},
		{"", "must have a name"},
		{"selfDestruct", "must have a domain prefix, such as example.com/selfDestruct"},
		{"example.com/SelfDestruct", "must be in lowerCamelCase"},
		{"example.com/self-destruct", "must be in lowerCamelCase"},
		{"example.com/", "must be in lowerCamelCase"},
		{"example.com/selbstzerstörung", "must be in lowerCamelCase"},
		{"example.com/pod.nodeAssignment", "must not contain dots in the name itself"},
		{"pod.nodeAssignment", "must not contain dots in the name itself"},
		{"example.com/a/b", "must have one slash at most"},
		{"/a", "must have a domain name before the slash"},
		{"Example.com/a", "must have a domain name before the slash"},
		{"example/a", "must have a full domain name before the slash"},
		{"granular:labels", "must not contain a colon"},
		{"example.com/label(x)", "must not contain parentheses"},
		{"example.com/" + strings.Repeat("a", 63), ""},
		{"example.com/" + strings.Repeat("a", 64), "must be at most 63 characters long"},
	} {
		err := ValidateName(tc.name)
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%q: %v", tc.name, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%q: got %v, want %s", tc.name, err, tc.want)
		}
	}
}

// FP-2: the shipped permissions obey the rules that others have to obey.
func TestShippedNames(t *testing.T) {
	for i := range shipped {
		if err := shipped[i].Validate(); err != nil {
			t.Errorf("%s: %v", shipped[i].Permission, err)
		}
	}
	want := "metadata labels label annotations annotation finalizers finalizer ownerReferences specification status conditions condition nodeAssignment schedulingGates replicas"
	if got := strings.Join(shippedNames(), " "); got != want {
		t.Errorf("shipped\n got %s\nwant %s", got, want)
	}
}

// FP-1, FP-4: a declaration that cannot work is refused with the rule it breaks.
func TestValidateDeclaration(t *testing.T) {
	labels, level := "metadata.labels", "example.com/level"
	for _, tc := range []struct {
		name string
		d    Declaration
		want string
	}{
		{"plain", Declaration{Permission: level, Field: mustPath(t, ".spec.level")}, ""},
		{"key", Declaration{Permission: level, Field: mustPath(t, "."+labels+"[]"), Parameter: &Parameter{From: FromKey}}, ""},
		{"key without brackets", Declaration{Permission: level, Field: mustPath(t, "."+labels), Parameter: &Parameter{From: FromKey}}, "needs a field with brackets"},
		{"element without brackets", Declaration{Permission: level, Field: mustPath(t, ".spec.x"), Parameter: &Parameter{From: FromElement}}, "needs a field with brackets"},
		{"no source", Declaration{Permission: level, Field: mustPath(t, ".spec.x"), Parameter: &Parameter{}}, "must say where it comes from"},
		{"treatment", Declaration{Permission: level, Field: mustPath(t, ".spec.x"), Parameter: &Parameter{From: FromValue, Treatment: "upper"}}, "must be empty or slash-delimited-prefix"},
		{"condition alone", Declaration{Permission: level, Field: mustPath(t, ".spec.x"), ExclusiveWhen: "true"}, "must come with exclusive"},
		{"identity", Declaration{Permission: level, Field: mustPath(t, ".metadata.name")}, "never needs a permission"},
		{"kind", Declaration{Permission: level, Field: mustPath(t, ".kind")}, "never needs a permission"},
		{"managed fields", Declaration{Permission: level, Field: mustPath(t, ".metadata.managedFields[].manager")}, "never needs a permission"},
		{"a name like an identity field", Declaration{Permission: level, Field: mustPath(t, ".spec.name")}, ""},
		{"shipped name, other parameter", Declaration{Permission: "labels", Field: mustPath(t, ".spec.x[]"), Parameter: &Parameter{From: FromKey}}, "must have no parameter"},
		{"shipped name, no parameter", Declaration{Permission: "label", Field: mustPath(t, ".spec.x")}, "must have a parameter"},
		{"shipped name", Declaration{Permission: "nodeAssignment", Field: mustPath(t, ".spec.node")}, ""},
		{"no field", Declaration{Permission: level}, "field must be set"},
		{"starts with a key", Declaration{Permission: level, Field: Path{Key("x")}}, "must start with a field's name"},
		{"long condition", Declaration{Permission: level, Field: mustPath(t, ".spec.x"), Exclusive: true, ExclusiveWhen: strings.Repeat("x", maxExpressionLength+1)}, "at most 10240 bytes"},
	} {
		err := tc.d.Validate()
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: got %v, want %s", tc.name, err, tc.want)
		}
	}
}

func TestParseResource(t *testing.T) {
	for text, want := range map[string]Resource{
		"pods": pods, "deployments.apps": {"apps", "deployments"}, "*": {}, "widgets.a.example.com": {"a.example.com", "widgets"},
	} {
		if got, err := ParseResource(text); err != nil || got != want || got.String() != text {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"": "must be a plural", "Pods": "must be a plural", "pods/status": "without a subresource", "pods.": "must have a group",
		"*.apps": "must be a plural", "a b": "must be a plural",
	} {
		if _, err := ParseResource(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
