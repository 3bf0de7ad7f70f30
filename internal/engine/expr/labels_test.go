package expr

import (
	"slices"
	"testing"
)

// TR-9: the labels that a condition names, however it is written.
func TestLabels(t *testing.T) {
	c := compiler(t)
	for source, want := range map[string][]string{
		`resource.metadata.labels.team == "a"`:                                                              {"team"},
		`resource.metadata.labels["a.com/team"] == "a" && has(object.metadata.labels.env)`:                  {"a.com/team", "env"},
		`"protected" in oldObject.metadata.?labels.orValue({}) || !("x" in object.metadata.labels)`:         {"protected", "x"},
		`object.metadata.?labels[?"allow"].orValue("") == "true"`:                                           {"allow"},
		`object.metadata.labels.?allow.orValue("") == "true"`:                                               {"allow"},
		`[1].exists(x, resource.metadata.labels.team == "a")`:                                               {"team"},
		`resource.metadata.labels.all(k, k in ["a", "b"])`:                                                  {},
		`resource.spec.labels.team == "a" && resource.metadata.annotations.b == "c" && request.user == "x"`: {},
	} {
		e, issues := c.Syntax(source)
		if len(issues) > 0 {
			t.Fatalf("%s: %v", source, issues)
		}
		if got := Labels(e); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}
