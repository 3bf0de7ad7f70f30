package fieldperm

import (
	"slices"
	"strings"
	"testing"
)

func mustPath(t testing.TB, text string) Path {
	t.Helper()
	p, err := ParsePath(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// FP-4: paths as people write them.
func TestParsePath(t *testing.T) {
	for _, tc := range []struct {
		text string
		want Path
	}{
		{".metadata.labels[pod-security.kubernetes.io/enforce]", Path{Field("metadata"), Field("labels"), Key("pod-security.kubernetes.io/enforce")}},
		{".spec.template.spec.nodeName", Path{Field("spec"), Field("template"), Field("spec"), Field("nodeName")}},
		{".spec.containers[].image", Path{Field("spec"), Field("containers"), Any(), Field("image")}},
		{".spec.containers[app].ports[containerPort=80,protocol=TCP]", Path{Field("spec"), Field("containers"), Key("app"), Field("ports"), Key("containerPort=80,protocol=TCP")}},
		{`.data["a ] b"]`, Path{Field("data"), Key("a ] b")}},
		{`.data[""]`, Path{Field("data"), Key("")}},
		{`.data["\""][]`, Path{Field("data"), Key(`"`), Any()}},
		{".$ref.x-y._z", Path{Field("$ref"), Field("x-y"), Field("_z")}},
	} {
		got, err := ParsePath(tc.text)
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, %v", tc.text, got, err)
		}
		if got.String() != tc.text {
			t.Errorf("%s is written as %s", tc.text, got)
		}
	}
	for text, want := range map[string]string{
		"":                              "must be set",
		"spec.nodeName":                 "must start with a dot",
		"[x]":                           "must start with a dot",
		".":                             "must have a name after each dot",
		".spec..x":                      "must have a name after each dot",
		".spec.":                        "must have a name after each dot",
		".spec[x":                       "must have a closing bracket",
		".spec[x]y":                     "must have a dot or a bracket before",
		".spec[a b]":                    "write it in quotes",
		".spec[a[b]":                    "write it in quotes",
		`.spec["a]`:                     "quoted key that does not end",
		`.spec["a"`:                     "must have a closing bracket",
		`.spec["\xff"]`:                 "cannot be read",
		".a b":                          "has ' ' in a field's name",
		".spec.x]":                      "has ']' in a field's name",
		"." + string([]byte{0xff}):      "valid UTF-8",
		strings.Repeat(".a", 65):        "at most 64 levels",
		"." + strings.Repeat("a", 1024): "at most 1024 bytes",
	} {
		if _, err := ParsePath(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

// PO-11: a path stands for itself and everything below.
func TestCovers(t *testing.T) {
	for _, tc := range []struct {
		path, field string
		want        bool
	}{
		{".metadata.labels", ".metadata.labels[a]", true},
		{".metadata.labels", ".metadata.labels", true},
		{".metadata.labels", ".metadata.annotations[a]", false},
		{".metadata.labels[a]", ".metadata.labels", false},
		{".metadata.labels[a]", ".metadata.labels[b]", false},
		{".metadata.labels.a", ".metadata.labels[a]", true},
		{".spec.containers[].image", ".spec.containers[app].image", true},
		{".spec.containers[].image", ".spec.containers[app].name", false},
		{".spec[]", ".spec.containers", false},
	} {
		if got := mustPath(t, tc.path).Covers(mustPath(t, tc.field)); got != tc.want {
			t.Errorf("%s covers %s: %v", tc.path, tc.field, got)
		}
	}
}

// FuzzParsePath: whatever is accepted is written so that it parses back to the same, and any path of a real object
// can be written and read.
func FuzzParsePath(f *testing.F) {
	for _, seed := range []string{".metadata.labels[a/b]", `.x["\u00e9\""][]`, ".a[b]c", ".[", ".a[``]", ".spec.containers[a,b=c]", ".a[\x00]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := ParsePath(text); err == nil {
			again, err := ParsePath(p.String())
			if err != nil || !slices.Equal(p, again) {
				t.Errorf("%q was read as %#v, written as %q, read as %#v, %v", text, p, p.String(), again, err)
			}
		}
		key := strings.ToValidUTF8(text, "?")
		if len(key) > maxPathLength/8 {
			return
		}
		if p, err := ParsePath(Path{Field("data"), Key(key)}.String()); err != nil || len(p) != 2 || p[1] != Key(key) {
			t.Errorf("key %q: %#v, %v", key, p, err)
		}
	})
}
