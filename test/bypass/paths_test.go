package bypass

import (
	"fmt"
	"strings"
	"testing"
)

// oddPaths are spellings of the path of a secret. None of them may be one thing to the authorizers and another to the
// handlers.
func oddPaths(namespace, name string) []string {
	plain := fmt.Sprintf("/api/v1/namespaces/%s/secrets/%s", namespace, name)
	odd := []string{
		plain, plain + "/", plain + "//", plain + "/.", "/" + plain, "/." + plain, plain + "?x=y", plain + "%2F", plain + "%00", plain + "%20",
		"/api/v1/secrets/" + name, "/api/v1/secrets?fieldSelector=metadata.name%3D" + name,
		"/api/v1/watch/namespaces/" + namespace + "/secrets/" + name + "?timeoutSeconds=1", "/api/v1/proxy/namespaces/" + namespace + "/secrets/" + name,
		"/api/v1/namespaces/" + namespace + "/secrets;x=y/" + name, "/api/v1/namespaces/" + namespace + "/secrets%3B/" + name,
		"/apis//v1/namespaces/" + namespace + "/secrets/" + name, "/apis/core/v1/namespaces/" + namespace + "/secrets/" + name,
		"/apis/hunt.example.com/v1/namespaces/" + namespace + "/widgets/../../../../../../.." + plain,
		"/openapi/.." + plain, "/healthz/.." + plain, "/healthz/%2e%2e" + plain, "/version/../" + plain,
	}
	for old, replacements := range map[string][]string{
		"/api/":        {"//api/", "/api//", "/API/", "/%61pi/", "/api/./", "/api/x/../"},
		"/v1/":         {"/v1//", "/V1/", "/v1/./", "/%76%31/"},
		"/secrets/":    {"/secrets//", "//secrets/", "/Secrets/", "/SECRETS/", "/secret/", "/%73ecrets/", "/configmaps/../secrets/", "/configmaps/%2e%2e/secrets/", "/configmaps/..%2Fsecrets/", "%2Fsecrets/", "/secrets%2F", "/secrets%00/", "/secrets%20/"},
		"/namespaces/": {"/namespaces//", "/Namespaces/", "/namespaces/./", "/n%61mespaces/", "/watch/../namespaces/"},
	} {
		for _, new := range replacements {
			odd = append(odd, strings.Replace(plain, old, new, 1))
		}
	}
	return odd
}

// paths: PO-7. A cluster admin who is denied secrets, and nothing else, cannot spell the path of one so that he gets at
// it.
func (w *world) paths(t *testing.T) {
	c, namespace := w.caller("no-secrets"), w.settle("no-secrets")
	const hidden = "aGlkZGVuLWluLXRoZS1zZWNyZXQ="
	w.install("/api/v1/namespaces/"+namespace+"/secrets", `{"metadata": {"name": "hidden"}, "data": {"key": "`+hidden+`"}}`)
	at := "/api/v1/namespaces/" + namespace + "/secrets/hidden"
	before := w.admins("GET", at, nil)
	if !strings.Contains(string(before.answer), hidden) {
		t.Fatalf("the twin, an admin, does not see it: %s", before)
	}
	if o := w.try("paths", c, request{verb: "list", method: "GET", path: "/api/v1/namespaces/" + namespace + "/configmaps"}); !o.succeeded() {
		t.Errorf("nothing denies him anything else: %s", o)
	}
	put := encodeJSON(change{field: "labels", key: "touched", value: "yes"}.done(parse(string(before.answer))))
	for _, path := range oddPaths(namespace, "hidden") {
		path, query, _ := strings.Cut(path, "?")
		for _, r := range []request{
			{method: "GET"}, {method: "HEAD"},
			{method: "PUT", body: put, header: map[string]string{"Content-Type": jsonType}},
			{method: "PATCH", body: encodeJSON(touch.merge()), header: map[string]string{"Content-Type": mergePatch}},
			{method: "DELETE"},
		} {
			r.way, r.path, r.query = "odd path", path, query
			o := c.do(w.ctx, r)
			if o.succeeded() && r.method == "HEAD" && (path == at) || strings.Contains(string(o.answer), hidden) {
				t.Errorf("it is denied, and got at: %s", o)
			}
		}
	}
	if after := w.admins("GET", at, nil); string(after.answer) != string(before.answer) {
		t.Errorf("it was changed: %s", after)
	}
}
