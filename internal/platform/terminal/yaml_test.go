package terminal

import (
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// NI-7: in YAML everything can be seen, and what is read is what was written, whatever names hold. A document without
// such characters stays as it is.
func TestYAML(t *testing.T) {
	plain := "a: b\nlines: |\n  one\n  two\n"
	if got, err := YAML([]byte(plain)); err != nil || string(got) != plain {
		t.Errorf("%q, %v", got, err)
	}
	for _, text := range []string{"a\u202eb", "tab\tand \x1b[2J", "\u2028", "tag \U000e0041", "two\nlines \u202e", "quote \" and \\ \u200b", "ümlaut \u202e <&>"} {
		want := map[string]any{text: []any{text, int64(1) << 53, true, nil}, "plain": "x"}
		data, err := yaml.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := YAML(data)
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsFunc(string(got), func(r rune) bool { return r != '\n' && hides(r) }) {
			t.Errorf("%q has something hidden: %q", text, got)
		}
		var back, there map[string]any
		if err := yaml.Unmarshal([]byte(got), &back); err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		if err := yaml.Unmarshal(data, &there); err != nil || !reflect.DeepEqual(back, there) {
			t.Errorf("%q is read as %#v, want %#v", got, back, there)
		}
	}
	if _, err := YAML([]byte("a: [\u202e")); err == nil {
		t.Error("what is not YAML is passed on")
	}
}
