package hiddenfield

import (
	"slices"
	"strings"
	"testing"
)

const (
	appliedPointer = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration"
	managedPointer = "/metadata/managedFields/0/fieldsV1/f:data/f:a"
)

// HF-4: a JSON patch does not read what repeats a hidden field, and may overwrite it.
func TestPatchesOfCopies(t *testing.T) {
	for _, keys := range []bool{false, true} {
		set := hidden(t, keys, ".data")
		for patch, want := range map[string]bool{
			`[{"op":"copy","from":"` + appliedPointer + `","path":"/metadata/annotations/leak"}]`:               false,
			`[{"op":"move","from":"` + appliedPointer + `","path":"/metadata/annotations/leak"}]`:               false,
			`[{"op":"add","from":"` + appliedPointer + `","path":"/metadata/annotations/leak","value":"x"}]`:    false,
			`[{"op":"copy","from":"/metadata/annotations","path":"/metadata/labels"}]`:                          false,
			`[{"op":"copy","from":"/metadata","path":"/metadata/labels"}]`:                                      false,
			`[{"op":"copy","from":"","path":"/metadata/labels"}]`:                                               false,
			`[{"op":"test","path":"` + appliedPointer + `","value":"x"}]`:                                       false,
			`[{"op":"test","path":"x` + appliedPointer + `","value":"x"}]`:                                      false,
			`[{"op":"test","path":"/metadata/annotations","value":{}}]`:                                         false,
			`[{"op":"test","path":"/metadata","value":{}}]`:                                                     false,
			`[{"op":"remove","path":"` + appliedPointer + `"}]`:                                                 false,
			`[{"op":"copy","from":"/metadata/labels/a","path":"` + appliedPointer + `"}]`:                       false,
			`[{"op":"add","path":"` + appliedPointer + `","value":"x"}]`:                                        true,
			`[{"op":"replace","path":"` + appliedPointer + `","value":"x"}]`:                                    true,
			`[{"op":"add","path":"/metadata/annotations","value":{}}]`:                                          true,
			`[{"op":"remove","path":"/metadata/annotations"}]`:                                                  true,
			`[{"op":"add","path":"/metadata/annotations/foo","value":"x"}]`:                                     true,
			`[{"op":"replace","path":"/metadata/annotations/foo","value":"x"}]`:                                 true,
			`[{"op":"remove","path":"/metadata/annotations/foo"}]`:                                              true,
			`[{"op":"test","path":"/metadata/annotations/team","value":"x"}]`:                                   true,
			`[{"op":"copy","from":"/metadata/annotations/team","path":"/metadata/labels/team"}]`:                true,
			`[{"op":"move","from":"/metadata/labels","path":"/metadata/annotations"}]`:                          true,
			`[{"op":"add","path":"/metadata/managedFields","value":[{}]}]`:                                      true,
			`[{"op":"replace","path":"/metadata/managedFields","value":[{}]}]`:                                  true,
			`[{"op":"copy","from":"` + managedPointer + `","path":"/metadata/labels"}]`:                         keys,
			`[{"op":"test","path":"` + managedPointer + `","value":{}}]`:                                        keys,
			`[{"op":"add","path":"` + managedPointer + `/x","value":{}}]`:                                       keys,
			`[{"op":"replace","path":"` + managedPointer + `","value":{}}]`:                                     keys,
			`[{"op":"remove","path":"` + managedPointer + `"}]`:                                                 keys,
			`[{"op":"remove","path":"/metadata/managedFields/1"}]`:                                              keys,
			`[{"op":"remove","path":"/metadata/managedFields"}]`:                                                keys,
			`[{"op":"test","path":"/metadata/managedFields/1/manager","value":"kubectl-client-side-apply"}]`:    keys,
			`[{"op":"copy","from":"/metadata/managedFields/1/manager","path":"/metadata/annotations/first"}]`:   keys,
			`[{"op":"test","path":"/stringData","value":{}}]`:                                                   false,
			`[{"op":"add","path":"/stringData","value":{"a":"x"}}]`:                                             true,
			`[{"op":"test","path":"/metadata/name","value":"x"},{"op":"test","path":"/type","value":"Opaque"}]`: true,
		} {
			if _, err := set.JSONPatch([]byte(patch)); (err == nil) != want {
				t.Errorf("keys are kept: %v: %s: %v", keys, patch, err)
			}
		}
		for _, at := range []string{appliedPointer, "/metadata/managedFields"} {
			if out, err := set.JSONPatch([]byte(`[{"op":"replace","path":"` + at + `","value":"x"}]`)); err != nil || strings.Contains(string(out), "replace") != (keys && at != appliedPointer) {
				t.Errorf("keys are kept: %v: whether %s was there is told: %s, %v", keys, at, out, err)
			}
		}
	}
}

// HF-4: a field is in more places than one, each of which is named once.
func TestPlaces(t *testing.T) {
	const applied = ".metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]"
	for _, tc := range []struct {
		field string
		keys  bool
		want  []string
	}{
		{".data", false, []string{".data", ".stringData", applied, ".metadata.managedFields"}},
		{".data[a]", true, []string{".data[a]", ".stringData[a]", applied}},
		{".spec.pin", false, []string{".spec.pin", applied, ".metadata.managedFields"}},
	} {
		var got []string
		for _, p := range Places(hidden(t, tc.keys, tc.field)[0]) {
			got = append(got, p.Path.String())
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v", tc.field, got)
		}
	}
}

// HF-8: what a client has written is redacted however it is spelled.
func TestRedactWhatIsWritten(t *testing.T) {
	set := hidden(t, false, ".data")
	for _, in := range []string{
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x"},"stringData":{"a":"secret"}}`,
		`{"metadata":{"managedFields":[{"fieldsV1":{"f:data":{"f:secret":{}}}}]}}`,
		`[{"op":"add","path":"/metadata/managedFields","value":[{"fieldsV1":{"f:data":{"f:secret":{}}}}]}]`,
	} {
		if text, ok := set.Redact([]byte(in)); !ok || strings.Contains(string(text), "secret") {
			t.Errorf("%s becomes %s", in, text)
		}
	}
}
