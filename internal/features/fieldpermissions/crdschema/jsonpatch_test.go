package crdschema

import (
	"net/http"
	"strings"
	"testing"
)

// FP-3: a JSON patch works on what its author sees. One that carries keys goes on as a merge patch for that version of
// the object; one that carries none goes on as it is.
func TestJSONPatch(t *testing.T) {
	const fire = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/fire"
	const fire2 = "/spec/versions/1/schema/openAPIV3Schema/properties/spec/properties/fire"
	current := strings.Replace(definition(guarded), "metadata: {", `metadata: {resourceVersion: "7", `, 1)
	for _, tc := range []struct {
		name, patch string
		code        int
		want        string // in the answer, or the annotation
		sent        string // in what went on
	}{
		{"replace", `[{"op":"replace","path":"` + fire + `/x-kubernetes-permission-exclusive","value":false}]`, 200, `"x-kubernetes-permission-exclusive":false,`, `"resourceVersion":"7"`},
		{"remove is null", `[{"op":"remove","path":"` + fire + `/x-kubernetes-permission-exclusive"}]`, 200, `"x-kubernetes-permission-exclusive":null,`, ``},
		{"move is null", `[{"op":"move","from":"` + fire + `/x-kubernetes-permission-verb","path":"` + fire2 + `/x-kubernetes-permission-verb"}]`, 200, `{"v1":{"/properties/spec/properties/fire":{"x-kubernetes-permission-exclusive":true,"x-kubernetes-permission-verb":null}}`, ``},
		{"test what is shown", `[{"op":"test","path":"` + fire + `/x-kubernetes-permission-verb","value":"example.com/fire"},{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`, 200, `example.com/fire`, `"labels":{"a":"b"}`},
		{"value with keys", `[{"op":"replace","path":"/spec/versions/1/schema/openAPIV3Schema/properties/spec","value":{"type":"object","x-kubernetes-permission-verb":"specification"}}]`, 200, `"/properties/spec":{"x-kubernetes-permission-verb":"specification"}`, `"versions":[`},
		{"version of its own", `[{"op":"add","path":"/metadata/resourceVersion","value":"6"},{"op":"remove","path":"` + fire + `/x-kubernetes-permission-verb"}]`, 200, `null`, `"resourceVersion":"6"`},
		{"failing test", `[{"op":"test","path":"` + fire + `/x-kubernetes-permission-verb","value":"other"}]`, 422, "", ""},
		{"missing", `[{"op":"remove","path":"` + fire + `/x-kubernetes-permission-parameterized-by"}]`, 422, "", ""},
		{"wrong type", `[{"op":"replace","path":"` + fire + `/x-kubernetes-permission-verb","value":1}]`, 422, "must be a string", ""},
		{"duplicate", `[{"op":"replace","op":"test","path":"` + fire + `/x-kubernetes-permission-verb","value":"a"}]`, 400, "duplicate field", ""},
		{"too many", "[" + strings.Repeat(`{"op":"test","path":"`+fire+`/x-kubernetes-permission-verb","value":"a"},`, maxOperations) + `{"op":"test","path":""}]`, 413, "at most 10000", ""},
		{"not an object", `[{"op":"test","path":"` + fire + `/x-kubernetes-permission-verb","value":"example.com/fire"},{"op":"replace","path":"","value":[]}]`, 422, "", ""},
		{"with the annotation", `[{"op":"add","path":"/metadata/annotations","value":{"` + Annotation + `":"{}"}},{"op":"remove","path":"` + fire + `/x-kubernetes-permission-verb"}]`, 422, "the server keeps this annotation", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, sent := call{verb: "patch", contentType: "application/json-patch+json", body: tc.patch, current: current}.do(t)
			if tc.code != 200 {
				if sent != nil || w.Code != tc.code || !strings.Contains(w.Body.String(), tc.want) {
					t.Errorf("%d %v %s", w.Code, sent, w.Body)
				}
				return
			}
			if w.Code != 200 || sent == nil || sent.contentType != mergePatch || !strings.Contains(sent.carried.Annotation, tc.want) || !strings.Contains(sent.body, tc.sent) {
				t.Fatalf("%d %s\n%+v", w.Code, w.Body, sent)
			}
			if l := lift(tree(t, sent.body)); l.carries {
				t.Errorf("keys went on: %s", sent.body)
			}
		})
	}
	for _, tc := range []struct {
		patch    string
		versions bool
	}{
		{`[{"op":"add","path":"/metadata/labels","value":{}}]`, false},
		{`[{"op":"replace","path":"/spec/versions/0/served","value":false}]`, true},
		{`[{"op":"replace","path":"/spec","value":{}}]`, true},
	} {
		if _, sent := (call{verb: "patch", contentType: "application/json-patch+json", body: tc.patch}).do(t); sent == nil || sent.body != tc.patch || sent.carried.Annotation != "" || sent.carried.Versions != tc.versions {
			t.Errorf("%s: %+v", tc.patch, sent)
		}
	}
	if w, sent := (call{verb: "patch", contentType: "application/json-patch+json", body: `[`}).do(t); sent != nil || w.Code != 400 {
		t.Errorf("%d %v", w.Code, sent)
	}
}

// FP-3: a JSON patch is applied again when the object has changed meanwhile, and not if it names the version itself.
func TestJSONPatchConflicts(t *testing.T) {
	const op = `{"op":"remove","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/fire/x-kubernetes-permission-verb"}`
	current := strings.Replace(definition(guarded), "metadata: {", `metadata: {resourceVersion: "7", `, 1)
	for _, tc := range []struct {
		patch     string
		conflicts int
		calls     int
		code      int
	}{
		{`[` + op + `]`, 2, 3, 200},
		{`[` + op + `]`, 99, attempts, 409},
		{`[{"op":"replace","path":"/metadata/resourceVersion","value":"6"},` + op + `]`, 1, 1, 409},
	} {
		calls := 0
		w, _ := call{verb: "patch", contentType: "application/json-patch+json", body: tc.patch, current: current, answer: func(w http.ResponseWriter, _ *http.Request) {
			calls++
			w.Header().Set("Content-Type", "application/json")
			if calls <= tc.conflicts {
				w.WriteHeader(http.StatusConflict)
			}
			_, _ = w.Write([]byte(stored(t, guarded)))
		}}.do(t)
		if calls != tc.calls || w.Code != tc.code {
			t.Errorf("%d calls, %d", calls, w.Code)
		}
		if tc.code == 200 && (!strings.Contains(w.Body.String(), KeyVerb) || strings.Contains(w.Body.String(), Annotation)) {
			t.Errorf("not shown: %s", w.Body)
		}
	}
}
