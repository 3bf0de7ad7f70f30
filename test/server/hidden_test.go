package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/features/tokens"
	"proviso.dev/proviso/internal/hosts/apiserver"
)

// hidingServer hides data of secrets, values of environments, and credentials of a custom resource.
var hidingServer = &sharedServer{configure: func(o *apiserver.Options) {
	o.AuditDynamic.AllowInsecureSinks = true
	o.SwitchOn(tokens.Gate)
}}

const hidingRules = `
apiVersion: policy.proviso.dev/v1alpha1
kind: FieldPermission
metadata: {name: %s}
spec: {resources: [%s], field: "%s", permission: example.com/%s, readExclusive: true, keep: %s}
`

const safes = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"safes.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
 "names":{"plural":"safes","singular":"safe","kind":"Safe","listKind":"SafeList"},"versions":[{"name":"v1","served":true,"storage":true,
 "selectableFields":[{"jsonPath":".spec.color"},{"jsonPath":".spec.pin"}],
 "schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{
  "color":{"type":"string"},"pin":{"type":"string"},"credentials":{"type":"object","additionalProperties":{"type":"string"}},
  "boxes":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"code":{"type":"string"},"note":{"type":"string"}}}}}}}}},
 "additionalPrinterColumns":[{"name":"Pin","type":"string","jsonPath":".spec.pin"},{"name":"Color","type":"string","jsonPath":".spec.color"}]}]}}`

// hiding is a server with hidden fields, and a user who may do everything but see them.
func hiding(t *testing.T) (*fieldWorld, *instance) {
	t.Helper()
	s := hidingServer.get(t)
	f := &fieldWorld{s: s, clients: map[string]*http.Client{}}
	f.apply(t, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/safes.example.com", safes)
	for _, p := range [][4]string{
		{"secretdata", "secrets", ".data", "Nothing"}, {"mapdata", "configmaps", ".data", "Keys"}, {"env", "pods", ".spec.containers[].env[].value", "Nothing"}, {"succeeded", "jobs.batch", ".status.succeeded", "Nothing"},
	} {
		f.apply(t, fieldsGroup+"/"+p[0], fmt.Sprintf(hidingRules, p[0], p[1], p[2], p[0], p[3]))
	}
	f.settled(t, "the custom resource", func() bool {
		return f.as(t, "admin", http.MethodGet, "/apis/example.com/v1/safes", jsonBody, "").code == 200
	})
	for name, field := range map[string]string{"credentials": ".spec.credentials", "pin": ".spec.pin", "codes": ".spec.boxes[].code"} {
		f.apply(t, fieldsGroup+"/"+name, fmt.Sprintf(hidingRules, name, "safes.example.com", field, name, "Nothing"))
	}
	all := []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
	f.grant(t, "blind", []string{"", "apps", "batch", "example.com"},
		[]string{"secrets", "configmaps", "pods", "deployments", "controllerrevisions", "jobs", "safes", "deployments/scale", "deployments/status", "jobs/status", "safes/status"}, all...)
	f.grant(t, "sighted", []string{"", "apps", "example.com"}, []string{"secrets", "configmaps", "pods", "deployments", "safes"}, append(all, "reveal:example.com/secretdata", "reveal:example.com/mapdata",
		"reveal:example.com/env", "reveal:example.com/credentials", "reveal:example.com/pin", "reveal:example.com/codes")...)
	f.settled(t, "the rights", func() bool {
		return f.may(t, "blind", "example.com", "safes", "delete") && f.may(t, "sighted", "example.com", "safes", "reveal:example.com/codes")
	})
	return f, s
}

// namespace makes a namespace with the account that pods need.
func (f *fieldWorld) namespace(t *testing.T, name string) {
	t.Helper()
	f.apply(t, "/api/v1/namespaces/"+name, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+name+`"}}`)
	f.apply(t, "/api/v1/namespaces/"+name+"/serviceaccounts/default", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}`)
}

// HF-1, HF-2, HF-3: a caller without the verb gets objects without the field, and is told; others see what is stored.
func TestHiddenFieldsAreNotShown(t *testing.T) {
	f, _ := hiding(t)
	f.namespace(t, "hidden")
	const base = "/api/v1/namespaces/hidden/"
	f.admin(t, http.MethodPost, base+"secrets", jsonBody, `{"metadata":{"name":"s","labels":{"a":"b"}},"data":{"password":"c2VjcmV0"}}`)
	f.admin(t, http.MethodPost, base+"configmaps", jsonBody, `{"metadata":{"name":"c"},"data":{"key":"secret"}}`)

	get := f.as(t, "blind", http.MethodGet, base+"secrets/s", jsonBody, "")
	text, _ := json.Marshal(get.body)
	if get.code != 200 || strings.Contains(string(text), "c2VjcmV0") || strings.Contains(string(text), "password") {
		t.Errorf("get: %s", text)
	}
	if !strings.Contains(string(text), `"proviso.dev/hidden":".data"`) || !strings.Contains(get.warning, "reveal:example.com/secretdata") {
		t.Errorf("what is hidden is not said: %s %s", text, get.warning)
	}
	keys := f.as(t, "blind", http.MethodGet, base+"configmaps/c", jsonBody, "")
	if text, _ := json.Marshal(keys.body["data"]); string(text) != `{"key":""}` {
		t.Errorf("keys: %s", text)
	}
	for _, user := range []string{"admin", "sighted"} {
		seen := f.as(t, user, http.MethodGet, base+"secrets/s", jsonBody, "")
		if text, _ := json.Marshal(seen.body); !strings.Contains(string(text), `"password":"c2VjcmV0"`) || strings.Contains(string(text), "proviso.dev/hidden") || seen.warning != "" {
			t.Errorf("%s: %s %s", user, text, seen.warning)
		}
	}

	// A list shows what a get of each object shows, whatever is in it.
	f.admin(t, http.MethodPost, base+"secrets", jsonBody, `{"metadata":{"name":"noted","annotations":{"a":"b"}},"data":{"password":"c2VjcmV0","other":"eA=="},"type":"example.com/x"}`)
	f.admin(t, http.MethodPost, base+"secrets", jsonBody, `{"metadata":{"name":"empty"}}`)
	f.admin(t, http.MethodPost, base+"configmaps", jsonBody, `{"metadata":{"name":"d","annotations":{"a":"b"}},"data":{"one":"secret","two":"x"},"binaryData":{"three":"eA=="}}`)
	f.admin(t, http.MethodPost, base+"pods", jsonBody, `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"a","image":"i","env":[{"name":"K","value":"secret"}]},{"name":"b","image":"i"}]}}`)
	f.admin(t, http.MethodPost, base+"pods", jsonBody, `{"metadata":{"name":"q"},"spec":{"containers":[{"name":"a","image":"i","env":[{"name":"K","value":"secret"},{"name":"L"}]}]}}`)
	for _, resource := range []string{"secrets", "configmaps", "pods"} {
		list := f.as(t, "blind", http.MethodGet, base+resource, jsonBody, "")
		items, _ := list.body["items"].([]any)
		if list.code != 200 || len(items) < 2 {
			t.Fatalf("%s: %d, %d items", resource, list.code, len(items))
		}
		for _, item := range items {
			u := unstructured.Unstructured{Object: item.(map[string]any)}
			one := f.as(t, "blind", http.MethodGet, base+resource+"/"+u.GetName(), jsonBody, "").body
			delete(one, "kind")
			delete(one, "apiVersion")
			if diff := cmp.Diff(one, u.Object); diff != "" || !strings.Contains(fmt.Sprint(one), "proviso.dev/hidden") {
				t.Errorf("%s %s in a list: %s", resource, u.GetName(), diff)
			}
		}
	}

	// HF-5: selectors.
	selected := f.as(t, "blind", http.MethodGet, "/apis/example.com/v1/safes?fieldSelector=spec.pin%3D1234", jsonBody, "")
	if selected.code != 422 || !strings.Contains(selected.message, "reveal:example.com/pin") {
		t.Errorf("a selector: %d %s", selected.code, selected.message)
	}
	allowed(t, "another selector", f.as(t, "blind", http.MethodGet, "/apis/example.com/v1/safes?fieldSelector=spec.color%3Dred", jsonBody, ""))
	allowed(t, "a selector of who sees", f.as(t, "sighted", http.MethodGet, "/apis/example.com/v1/safes?fieldSelector=spec.pin%3D1234", jsonBody, ""))
}

// HF-2, HF-4: responses to reads and writes in a version other than that of the field lack it, too.
func TestHiddenFieldsInAnotherVersion(t *testing.T) {
	f, _ := hiding(t)
	f.namespace(t, "scaled")
	f.apply(t, fieldsGroup+"/most", fmt.Sprintf(hidingRules, "most", "horizontalpodautoscalers.autoscaling", ".spec.minReplicas", "most", "Nothing"))
	f.grant(t, "scaler", []string{"autoscaling"}, []string{"horizontalpodautoscalers"}, "get", "create", "update", "patch", "delete")
	f.settled(t, "the rights", func() bool {
		return f.may(t, "scaler", "autoscaling", "horizontalpodautoscalers", "delete")
	})
	const at = "/apis/autoscaling/v1/namespaces/scaled/horizontalpodautoscalers"
	body := `{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","metadata":{"name":"x"},"spec":{"minReplicas":3,"maxReplicas":%d,"scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"}}}`
	f.settled(t, "the field is hidden", func() bool {
		f.admin(t, http.MethodPost, at, jsonBody, fmt.Sprintf(body, 5))
		got := f.as(t, "scaler", http.MethodGet, at+"/x", jsonBody, "")
		text, _ := json.Marshal(got.body["spec"])
		return got.code == 200 && !strings.Contains(string(text), "minReplicas")
	})
	for name, got := range map[string]answer{
		"get":    f.as(t, "scaler", http.MethodGet, at+"/x", jsonBody, ""),
		"create": f.as(t, "scaler", http.MethodPost, at+"?dryRun=All", jsonBody, strings.Replace(fmt.Sprintf(body, 5), `"x"`, `"y"`, 1)),
		"delete": f.as(t, "scaler", http.MethodDelete, at+"/x?dryRun=All&propagationPolicy=Foreground", jsonBody, ""),
	} {
		text, _ := json.Marshal(got.body["spec"])
		if got.code >= 300 || !strings.Contains(string(text), "maxReplicas") || strings.Contains(string(text), "minReplicas") {
			t.Errorf("%s: %d %s %v", name, got.code, got.message, got.body)
		}
	}
	if got := f.admin(t, http.MethodGet, at+"/x", jsonBody, ""); fmt.Sprint(got.body["spec"].(map[string]any)["minReplicas"]) != "3" {
		t.Errorf("the hidden field has changed: %v", got.body)
	}
}

// HF-1: what cannot be hidden, and who may hide.
func TestHidingTakesEscalate(t *testing.T) {
	f, _ := hiding(t)
	for field, want := range map[string]string{".metadata.name": "never needs a permission", ".metadata": "cannot be hidden", ".spec.nodeName": "cannot be hidden", ".spec.containers[app].env": "write empty brackets"} {
		bad := f.as(t, "admin", http.MethodPost, fieldsGroup, "application/yaml", fmt.Sprintf(hidingRules, "bad", "pods", field, "bad", "Nothing"))
		if bad.code != 422 || !strings.Contains(bad.message, want) {
			t.Errorf("%s: %d %s", field, bad.code, bad.message)
		}
	}
	plain := f.as(t, "admin", http.MethodPost, fieldsGroup, jsonBody,
		`{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"FieldPermission","metadata":{"name":"bad"},"spec":{"resources":["pods"],"field":".spec.hostname","permission":"example.com/x","keep":"Keys"}}`)
	if plain.code != 422 || !strings.Contains(plain.message, "readExclusive") {
		t.Errorf("keep alone: %d %s", plain.code, plain.message)
	}
	f.grant(t, "hider", []string{"policy.proviso.dev"}, []string{"fieldpermissions"}, "create", "update", "patch", "delete", "get")
	f.settled(t, "the rights", func() bool { return f.may(t, "hider", "policy.proviso.dev", "fieldpermissions", "delete") })
	refused(t, "deleting", f.as(t, "hider", http.MethodDelete, fieldsGroup+"/secretdata", jsonBody, ""), "escalate")
	refused(t, "loosening", f.as(t, "hider", http.MethodPatch, fieldsGroup+"/secretdata", mergePatch, `{"spec":{"readExclusive":false,"keep":null}}`), "escalate")
}

// HF-4: round trips keep what is hidden, and what would tell it is refused.
func TestHiddenFieldsSurviveWrites(t *testing.T) {
	f, _ := hiding(t)
	f.namespace(t, "hiddenwrites")
	const base = "/api/v1/namespaces/hiddenwrites/"
	const safe = "/apis/example.com/v1/namespaces/hiddenwrites/safes"
	stored := func(path string) map[string]any {
		return f.admin(t, http.MethodGet, path, jsonBody, "").body
	}
	field := func(o map[string]any, path ...string) string {
		var v any = o
		for _, p := range path {
			m, _ := v.(map[string]any)
			v = m[p]
		}
		text, _ := json.Marshal(v)
		return string(text)
	}
	f.apply(t, base+"secrets/s", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"password":"c2VjcmV0"}}`)
	f.admin(t, http.MethodPost, base+"configmaps", jsonBody, `{"metadata":{"name":"c"},"data":{"key":"secret","other":"more"}}`)
	f.admin(t, http.MethodPost, safe, jsonBody, `{"apiVersion":"example.com/v1","kind":"Safe","metadata":{"name":"x"},"spec":{"color":"red","pin":"1234","credentials":{"a":"b"},"boxes":[{"name":"one","code":"1"},{"name":"two","code":"2"}]}}`)
	managers := field(stored(base+"secrets/s"), "metadata", "managedFields")

	for _, path := range []string{base + "secrets/s", base + "configmaps/c", safe + "/x"} {
		before := stored(path)
		shown := f.as(t, "blind", http.MethodGet, path, jsonBody, "").body
		shown["metadata"].(map[string]any)["labels"] = map[string]any{"written": "back"}
		text, _ := json.Marshal(shown)
		put := f.as(t, "blind", http.MethodPut, path, jsonBody, string(text))
		allowed(t, "put back "+path, put)
		after := stored(path)
		if field(before, "data") != field(after, "data") || field(before, "spec") != field(after, "spec") {
			t.Errorf("%s: a round trip changed %s to %s, %s to %s", path, field(before, "data"), field(after, "data"), field(before, "spec"), field(after, "spec"))
		}
		if field(after, "metadata", "labels") != `{"written":"back"}` || strings.Contains(field(after, "metadata"), "proviso.dev/hidden") {
			t.Errorf("%s: stored %s", path, field(after, "metadata"))
		}
		if text, _ := json.Marshal(put.body); strings.Contains(string(text), "c2VjcmV0") || strings.Contains(string(text), `"1234"`) {
			t.Errorf("%s: the response shows %s", path, text)
		}
	}
	if after := field(stored(base+"secrets/s"), "metadata", "managedFields"); !strings.Contains(after, `"f:password"`) {
		t.Errorf("nobody manages the data any more: %s, before %s", after, managers)
	}

	// Setting a value is a write as any other, in every way.
	allowed(t, "a new value", f.as(t, "blind", http.MethodPatch, base+"configmaps/c", mergePatch, `{"data":{"new":"value"}}`))
	if got := field(stored(base+"configmaps/c"), "data"); got != `{"key":"secret","new":"value","other":"more"}` {
		t.Error(got)
	}
	allowed(t, "an added field", f.as(t, "blind", http.MethodPatch, safe+"/x", jsonPatch, `[{"op":"replace","path":"/spec/pin","value":"5678"}]`))
	if got := field(stored(safe+"/x"), "spec", "pin"); got != `"5678"` {
		t.Error(got)
	}

	for what, try := range map[string][3]string{
		"a test":            {base + "secrets/s", jsonPatch, `[{"op":"test","path":"/data/password","value":"c2VjcmV0"}]`},
		"a copy":            {base + "secrets/s", jsonPatch, `[{"op":"copy","from":"/data/password","path":"/metadata/annotations/x"}]`},
		"a removal":         {base + "secrets/s", mergePatch, `{"data":null}`},
		"a key's removal":   {base + "configmaps/c", mergePatch, `{"data":{"key":null}}`},
		"a directive":       {base + "secrets/s", strategic, `{"data":{"$patch":"replace"}}`},
		"an ancestor":       {safe + "/x", jsonPatch, `[{"op":"replace","path":"/spec","value":{}}]`},
		"a removed element": {safe + "/x", mergePatch, `{"spec":{"boxes":[{"name":"one"}]}}`},
		"a dry run as text": {base + "secrets/s?dryRun=All", mergePatch, `{"stringData":{"password":"secret"}}`},
		"a dry run":         {base + "secrets/s?dryRun=All", mergePatch, `{"data":{"password":"c2VjcmV0"}}`},
	} {
		refused(t, what, f.as(t, "blind", http.MethodPatch, try[0], try[1], try[2]), "reveal:example.com/")
	}
	for what, body := range map[string]string{
		"an apply that takes over, equal":     `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"password":"c2VjcmV0"}}`,
		"an apply that takes over, different": `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"password":"b3RoZXI="}}`,
	} {
		for _, force := range []string{"", "&force=true"} {
			a := f.as(t, "blind", http.MethodPatch, base+"secrets/s?fieldManager=blind"+force, applyPatch, body)
			if a.code != 409 || !strings.Contains(a.message, "reveal:example.com/secretdata") {
				t.Errorf("%s: %d %s", what, a.code, a.message)
			}
		}
	}
	allowed(t, "an apply of something else", f.as(t, "blind", http.MethodPatch, base+"secrets/s?fieldManager=blind", applyPatch, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","labels":{"x":"y"}}}`))
	if got := field(stored(base+"secrets/s"), "data"); got != `{"password":"c2VjcmV0"}` {
		t.Error(got)
	}
	mine := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"mine"},"data":{"password":"c2VjcmV0"}}`
	allowed(t, "an apply of one's own", f.as(t, "blind", http.MethodPatch, base+"secrets/mine?fieldManager=blind", applyPatch, mine))
	allowed(t, "again", f.as(t, "blind", http.MethodPatch, base+"secrets/mine?fieldManager=blind", applyPatch, strings.ReplaceAll(mine, "c2VjcmV0", "b3RoZXI=")))
	left := f.as(t, "blind", http.MethodPatch, base+"secrets/mine?fieldManager=blind", applyPatch, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"mine"}}`)
	if left.code != 409 {
		t.Errorf("leaving it out: %d %s", left.code, left.message)
	}
}

// volatile is what differs between any two objects.
var volatile = regexp.MustCompile(`"continue":"[^"]*"|continue: \S+|"(uid|resourceVersion|creationTimestamp|deletionTimestamp|time|generation)":("[^"]*"|\d+)|"(\d+[dhms])+"|resourceVersion: "\d+"|uid: [-0-9a-f]+|(creationTimestamp|deletionTimestamp|time): "[^"]*"|generation: \d+`)

// raw sends a request and returns everything that comes back, as text.
func (f *fieldWorld) raw(t *testing.T, user, method, path, contentType, accept, body string) string {
	t.Helper()
	resp, text := f.send(t, user, method, path, contentType, accept, body)
	return fmt.Sprintf("%d %s %v\n%s", resp.StatusCode, resp.Header.Get("Content-Type"), resp.Header.Values("Warning"), text)
}

// HF-2, HF-10: two worlds that differ in hidden values only answer every request alike.
func TestTwoWorldsOfHiddenValues(t *testing.T) {
	f, _ := hiding(t)
	worlds := []struct{ name, secret, more, pin, env string }{
		{"worlda", `{"password":"c2VjcmV0"}`, `"credentials":{"user":"u","token":"t"},`, "1234", "one"},
		{"worldb", `{"other":"b3RoZXI=","third":"b3RoZXI="}`, ``, "9999", "a longer value"},
	}
	paths := map[string]string{"secrets": "/api/v1/namespaces/%s/secrets", "configmaps": "/api/v1/namespaces/%s/configmaps", "safes": "/apis/example.com/v1/namespaces/%s/safes",
		"pods": "/api/v1/namespaces/%s/pods", "deployments": "/apis/apps/v1/namespaces/%s/deployments", "controllerrevisions": "/apis/apps/v1/namespaces/%s/controllerrevisions"}
	for _, w := range worlds {
		f.namespace(t, w.name)
		spec := `{"automountServiceAccountToken":false,"containers":[{"name":"c","image":"i","env":[{"name":"A","value":"` + w.env + `"}]}]}`
		template := `{"metadata":{"labels":{"a":"b"}},"spec":` + spec + `}`
		for plural, body := range map[string]string{
			"secrets":             `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"x","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"kind\":\"Secret\",\"data\":{\"p\":\"` + w.pin + `\"}}\n"}},"type":"Opaque","data":` + w.secret + `}`,
			"configmaps":          `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"key":"` + w.pin + `"}}`,
			"safes":               `{"apiVersion":"example.com/v1","kind":"Safe","metadata":{"name":"x"},"spec":{"color":"red",` + w.more + `"pin":"` + w.pin + `","boxes":[{"name":"one","code":"` + w.pin + `"}]}}`,
			"pods":                `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":` + spec + `}`,
			"deployments":         `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"x"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":` + template + `}}`,
			"controllerrevisions": `{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"x"},"revision":1,"data":{"spec":{"template":` + template + `}}}`,
		} {
			path := fmt.Sprintf(paths[plural], w.name)
			f.admin(t, http.MethodPost, path, jsonBody, body)
			f.admin(t, http.MethodPost, path, jsonBody, strings.Replace(body, `"name":"x"`, `"name":"doomed","finalizers":["example.com/keep"]`, 1))
			f.admin(t, http.MethodDelete, path+"/doomed", jsonBody, "")
		}
	}
	type step struct{ method, suffix, contentType, body string }
	steps := []step{
		{http.MethodGet, "/x", "", ""}, {http.MethodGet, "", "", ""}, {http.MethodGet, "?limit=1", "", ""}, {http.MethodGet, "?resourceVersion=0", "", ""},
		{http.MethodGet, "?watch=true&timeoutSeconds=1&allowWatchBookmarks=false&resourceVersion=0", "", ""},
		{http.MethodGet, "?watch=true&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "", ""},
		{http.MethodGet, "?fieldSelector=data%3Dx", "", ""}, {http.MethodGet, "?fieldSelector=spec.pin%3D1234", "", ""},
		{http.MethodPatch, "/x", mergePatch, `{"metadata":{"labels":{"l":"1"}}}`},
		{http.MethodPatch, "/x?dryRun=All", mergePatch, `{"metadata":{"labels":{"l":"2"}}}`},
		{http.MethodPatch, "/x", strategic, `{"metadata":{"labels":{"l":"3"}}}`},
		{http.MethodPatch, "/x", jsonPatch, `[{"op":"add","path":"/metadata/labels","value":{"l":"4"}}]`},
		{http.MethodPatch, "/x?fieldManager=m&force=true", applyPatch, `{"metadata":{"name":"x","labels":{"m":"1"}}}`},
		{http.MethodPatch, "/x", jsonPatch, `[{"op":"test","path":"/data/password","value":"c2VjcmV0"}]`},
		{http.MethodPatch, "/x", jsonPatch, `[{"op":"test","path":"/spec/pin","value":"1234"}]`},
		{http.MethodPatch, "/x", jsonPatch, `[{"op":"test","path":"/spec/containers/0/env/0/value","value":"one"}]`},
		{http.MethodPatch, "/x", jsonPatch, `[{"op":"replace","path":"/data/password","value":"x"}]`},
		{http.MethodPatch, "/x?dryRun=All", mergePatch, `{"data":{"password":"c2VjcmV0"}}`},
		{http.MethodPatch, "/x?dryRun=All", mergePatch, `{"spec":{"pin":"1234"}}`},
		{http.MethodPatch, "/x", mergePatch, `{"data":{"password":null}}`}, {http.MethodPatch, "/x", mergePatch, `{"data":7}`}, {http.MethodPatch, "/x", mergePatch, `{"spec":7}`},
		{http.MethodPatch, "/x", mergePatch, `{"metadata":{"finalizers":[7]}}`}, {http.MethodPatch, "/x", mergePatch, `{"metadata":{"name":"y"}}`},
		{http.MethodPatch, "/x", mergePatch, `{"metadata":{"labels":{"-":"not valid!"}}}`},
		{http.MethodPatch, "/x", mergePatch, `{"metadata":{"resourceVersion":"1"}}`},
		{http.MethodPatch, "/x?fieldManager=n", applyPatch, `{"metadata":{"name":"x"},"data":{"password":"c2VjcmV0"}}`},
		{http.MethodPatch, "/x?fieldManager=n&force=true", applyPatch, `{"metadata":{"name":"x"},"spec":{"pin":"1234"}}`},
		{http.MethodPost, "", jsonBody, `{"metadata":{"name":"x"}}`}, {http.MethodPost, "?dryRun=All", jsonBody, `{"metadata":{"name":"x"}}`},
		{http.MethodDelete, "/doomed", "", ""}, {http.MethodPatch, "/doomed", mergePatch, `{"metadata":{"labels":{"l":"5"}}}`},
		{http.MethodDelete, "/x?dryRun=All", "", ""}, {http.MethodDelete, "?dryRun=All", "", ""},
		{http.MethodPatch, "/doomed", mergePatch, `{"metadata":{"finalizers":null}}`},
		{http.MethodDelete, "?propagationPolicy=Background", "", ""},
	}
	accepts := []string{"application/json", "application/yaml", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json",
		"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"}
	looked := 0
	for plural, path := range paths {
		for i, st := range steps {
			for _, accept := range accepts {
				if st.method != http.MethodGet && accept != accepts[i%len(accepts)] {
					continue // a write once
				}
				one := st.suffix == "/x"
				watches := strings.Contains(st.suffix, "watch=") && i%2 != len(accept)%2
				if watches || strings.Contains(accept, "MetadataList") && one || strings.Contains(accept, "as=PartialObjectMetadata;") && !one {
					continue
				}
				answers := make([]string, len(worlds))
				var asking sync.WaitGroup
				for n, w := range worlds {
					body := st.body
					if st.contentType == applyPatch || st.method == http.MethodPost {
						kinds := map[string]string{"secrets": `"apiVersion":"v1","kind":"Secret"`, "configmaps": `"apiVersion":"v1","kind":"ConfigMap"`, "safes": `"apiVersion":"example.com/v1","kind":"Safe"`,
							"pods": `"apiVersion":"v1","kind":"Pod"`, "deployments": `"apiVersion":"apps/v1","kind":"Deployment"`, "controllerrevisions": `"apiVersion":"apps/v1","kind":"ControllerRevision"`}
						body = strings.Replace(body, "{", "{"+kinds[plural]+",", 1)
					}
					asking.Go(func() {
						got := f.raw(t, "blind", st.method, fmt.Sprintf(path, w.name)+st.suffix, st.contentType, accept, body)
						for _, value := range []string{"c2VjcmV0", "b3RoZXI=", "9999", "a longer value"} {
							if strings.Contains(got, value) && !strings.Contains(body, value) {
								t.Errorf("%s %s%s %s as %s shows %s: %s", st.method, plural, st.suffix, st.body, accept, value, got)
							}
						}
						answers[n] = volatile.ReplaceAllString(strings.ReplaceAll(got, w.name, "world"), "")
					})
				}
				asking.Wait()
				looked++
				if diff := cmp.Diff(strings.Split(answers[0], ","), strings.Split(answers[1], ",")); diff != "" {
					t.Errorf("%s %s%s %s as %s:\n%s", st.method, plural, st.suffix, st.body, accept, diff)
				}
			}
		}
	}
	if looked < 250 {
		t.Errorf("only %d requests were compared", looked)
	}
}

// HF-2: protobuf shows nothing either. HF-6: an informer of who does not see stays consistent with the store.
func TestInformersOfHiddenFields(t *testing.T) {
	f, s := hiding(t)
	f.namespace(t, "hiddeninformers")
	config := rest.CopyConfig(s.as("blind"))
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, admin := kubernetes.NewForConfigOrDie(config), kubernetes.NewForConfigOrDie(s.admin)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace("hiddeninformers"))
	secrets := factory.Core().V1().Secrets().Lister().Secrets("hiddeninformers")
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	create := func(name, value string) *corev1.Secret {
		made, err := admin.CoreV1().Secrets("hiddeninformers").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"a": []byte(value)}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	for i := range 5 {
		made := create(fmt.Sprint("s", i), "one")
		made.Data["a"] = []byte("two") // nothing that is shown changes
		if _, err := admin.CoreV1().Secrets("hiddeninformers").Update(t.Context(), made, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.await("the informer", func() (bool, error) {
		stored, err := admin.CoreV1().Secrets("hiddeninformers").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		seen, err := secrets.List(labels.Everything())
		if err != nil || len(seen) != len(stored.Items) {
			return false, err
		}
		for _, one := range stored.Items {
			shown, err := secrets.Get(one.Name)
			if err != nil || shown.ResourceVersion != one.ResourceVersion {
				return false, nil //nolint:nilerr // it is asked again
			}
			if len(shown.Data) > 0 {
				t.Errorf("%s shows %v", one.Name, shown.Data)
			}
		}
		return true, nil
	})
}

// HF-2: what becomes hidden is hidden in watches that are open.
func TestHiddenFieldsEndWatches(t *testing.T) {
	f, s := hiding(t)
	f.namespace(t, "hiddenwatches")
	f.grant(t, "watcher", []string{""}, []string{"endpoints"}, "get", "list", "watch")
	f.settled(t, "the rights", func() bool { return f.may(t, "watcher", "", "endpoints", "watch") })
	w, err := kubernetes.NewForConfigOrDie(s.as("watcher")).CoreV1().Endpoints("hiddenwatches").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	f.apply(t, fieldsGroup+"/subsets", fmt.Sprintf(hidingRules, "subsets", "endpoints", ".subsets", "subsets", "Nothing"))
	defer f.admin(t, http.MethodDelete, fieldsGroup+"/subsets", jsonBody, "")
	select {
	case _, open := <-w.ResultChan():
		if open {
			t.Error("an event")
		}
	case <-time.After(30 * time.Second):
		t.Error("the watch goes on")
	}
}
