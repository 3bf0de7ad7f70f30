package answers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/platform/pki"
	"proviso.dev/proviso/internal/request/freshness"
	"proviso.dev/proviso/internal/state/source"
	"proviso.dev/proviso/test/inprocess"
	"proviso.dev/proviso/test/inprocess/byflags"
)

func TestMain(m *testing.M) { inprocess.Main(m) }

// patience bounds every request.
const patience = 30 * time.Second

// Subject is a person who asks the server, with all that the server knows of them.
type Subject struct {
	User   string
	Groups []string
	Extra  map[string][]string
}

// info is the subject as the authenticator makes it.
func (s Subject) info() user.Info {
	return &user.DefaultInfo{Name: s.User, Groups: append(slices.Clone(s.Groups), user.AllAuthenticated), Extra: s.Extra}
}

// oracle is the live server.
type oracle struct {
	*inprocess.Server
	// admin is in system:masters; proxy vouches for any user.
	admin, proxy *http.Client
	// base is the policy of the empty server, and host what the tools make of it.
	base []manifests.Document
	host *offline.Host
	// stored are the objects that requests are about.
	stored map[string]map[string]any
	// log is the server's audit log.
	log string
}

// scenery are the objects that requests are about. Nothing changes them: every write is a dry run.
const scenery = `
apiVersion: v1
kind: Namespace
metadata: {name: team, labels: {team: a}}
---
apiVersion: v1
kind: Namespace
metadata: {name: other}
---
apiVersion: policy.proviso.dev/v1alpha1
kind: Policy
metadata: {name: default, namespace: team}
---
apiVersion: policy.proviso.dev/v1alpha1
kind: PolicyBinding
metadata: {name: team, namespace: team}
policyRef: {namespace: team}
---
apiVersion: policy.proviso.dev/v1alpha1
kind: Policy
metadata: {name: default, namespace: other}
---
apiVersion: policy.proviso.dev/v1alpha1
kind: PolicyBinding
metadata: {name: other, namespace: other}
policyRef: {namespace: other}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: one, namespace: team, labels: {team: a, owner: bob}}
data: {k: v}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: two, namespace: team, labels: {team: b, env: prod}}
data: {k: v}
---
apiVersion: v1
kind: Secret
metadata: {name: s, namespace: team}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot, namespace: team}
---
apiVersion: v1
kind: Pod
metadata: {name: shell, namespace: team, labels: {team: a}}
spec: {containers: [{name: c, image: i}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: team, labels: {team: a, app: web}}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: answers-guard}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: answers-ask}
rules:
- {verbs: [create], apiGroups: [authorization.proviso.dev], resources: [subjectaccessreviews]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: answers-ask}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: answers-ask}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:authenticated"}]
`

func newOracle(t testing.TB) *oracle {
	t.Helper()
	log, flags := auditFlags(t)
	s := byflags.Serve(t, append(flags, "--controllers=clusterrole-aggregation-controller", "--disable-admission-plugins=ServiceAccount")...)
	o := &oracle{Server: s, stored: map[string]map[string]any{}, log: log}
	files, err := pki.Open(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	own := s.Admin.TLSClientConfig
	vouching := rest.TLSClientConfig{CAData: own.CAData, CAFile: own.CAFile, CertFile: files.ProxyClientCert, KeyFile: files.ProxyClientKey}
	for client, tls := range map[**http.Client]rest.TLSClientConfig{&o.admin: own, &o.proxy: vouching} {
		if *client, err = rest.HTTPClientFor(&rest.Config{Host: s.Admin.Host, TLSClientConfig: tls}); err != nil {
			t.Fatal(err)
		}
	}
	o.settle(t, o.write(t, objects(t, scenery)))
	for _, object := range objects(t, scenery) {
		code, _, body := o.sudo(t, "GET", pathOf(object)+"/"+object.GetName(), "", nil)
		if code != http.StatusOK {
			t.Fatalf("%s: %d", pathOf(object), code)
		}
		o.stored[object.GetKind()+" "+object.GetName()] = body
	}
	for _, r := range requests() {
		if r.verb != "create" || r.content == nil {
			continue
		}
		code, _, made := o.sudo(t, r.method, r.path, r.contentType, []byte(r.body))
		if code != http.StatusCreated {
			t.Fatalf("%s: %d", r.name, code)
		}
		meta, _ := made["metadata"].(map[string]any)
		for _, field := range []string{"uid", "creationTimestamp", "resourceVersion", "managedFields", "generation"} {
			delete(meta, field)
		}
		delete(made, "status")
		o.stored[r.name] = made
	}
	dumped, err := source.Dump(t.Context(), s.Admin)
	if err != nil {
		t.Fatal(err)
	}
	o.base = manifests.OfServer(dumped)
	o.host = hostOf(t, nil, o.base)
	return o
}

func hostOf(t testing.TB, base *offline.Host, documents []manifests.Document) *offline.Host {
	t.Helper()
	h, err := offline.New(offline.Config{Texts: manifests.Texts(documents), MasterNamespace: "master", Base: base})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// objects reads manifests.
func objects(t testing.TB, text string) (all []*unstructured.Unstructured) {
	t.Helper()
	for _, part := range strings.Split(text, "\n---\n") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(part), &object.Object); err != nil {
			t.Fatalf("%v in\n%s", err, part)
		}
		all = append(all, object)
	}
	return all
}

// plurals are those of the kinds that are written here.
var plurals = map[string]string{
	"ClusterProtectedAttribute": "clusterprotectedattributes", "FieldPermission": "fieldpermissions", "ClusterRole": "clusterroles",
	"ClusterRoleBinding": "clusterrolebindings", "Role": "roles", "RoleBinding": "rolebindings", "Namespace": "namespaces", "ConfigMap": "configmaps",
	"ServiceAccount": "serviceaccounts", "Secret": "secrets", "Pod": "pods", "Deployment": "deployments", "Policy": "policies", "PolicyBinding": "policybindings", "CustomResourceDefinition": "customresourcedefinitions",
}

// pathOf is the collection of an object.
func pathOf(object *unstructured.Unstructured) string {
	path := "/apis/" + object.GetAPIVersion()
	if object.GetAPIVersion() == "v1" {
		path = "/api/v1"
	}
	if ns := object.GetNamespace(); ns != "" {
		path += "/namespaces/" + ns
	}
	return path + "/" + plurals[object.GetKind()]
}

// write creates or replaces objects, and returns the revisions of what is policy.
func (o *oracle) write(t testing.TB, all []*unstructured.Unstructured) (revisions map[string]string) {
	t.Helper()
	revisions = map[string]string{}
	for _, object := range all {
		body, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		at := fmt.Sprintf("%s/%s?fieldManager=answers&force=true", pathOf(object), object.GetName())
		code, header, out := o.sudo(t, "PATCH", at, "application/apply-patch+yaml", body)
		if code >= 300 {
			t.Fatalf("%s: %d %v\n%s", at, code, out["message"], body)
		}
		if token := header.Get(freshness.Header); token != "" {
			revisions[object.GetKind()+object.GetAPIVersion()] = token
		}
	}
	return revisions
}

// remove deletes objects.
func (o *oracle) remove(t testing.TB, all []*unstructured.Unstructured) (revisions map[string]string) {
	t.Helper()
	revisions = map[string]string{}
	for i := range all {
		object := all[len(all)-1-i]
		code, header, out := o.sudo(t, "DELETE", pathOf(object)+"/"+object.GetName(), "", nil)
		if code >= 300 && code != http.StatusNotFound {
			t.Fatalf("%s/%s: %d %v", pathOf(object), object.GetName(), code, out["message"])
		}
		if token := header.Get(freshness.Header); token != "" {
			revisions[object.GetKind()+object.GetAPIVersion()] = token
		}
	}
	return revisions
}

// settle waits until the server decides by what was written.
func (o *oracle) settle(t testing.TB, revisions map[string]string) {
	t.Helper()
	for _, token := range revisions {
		req := o.request(t, "GET", "/api/v1/namespaces/default", "", nil)
		req.Header.Set(freshness.AtLeast, token)
		if code, _, out := send(t, o.admin, req); code != http.StatusOK {
			t.Fatalf("waiting for %s: %d %v", token, code, out)
		}
	}
}

// aggregated waits until the controller has gathered the rules of an aggregated cluster role.
func (o *oracle) aggregated(t testing.TB, name string, selector map[string]any) {
	t.Helper()
	var want []any
	for {
		_, _, list := o.sudo(t, "GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles", "", nil)
		items, _ := list["items"].([]any)
		want = want[:0]
		var has []any
		for _, item := range items {
			u := unstructured.Unstructured{Object: item.(map[string]any)}
			rules, _, _ := unstructured.NestedSlice(u.Object, "rules")
			if u.GetName() == name {
				has = rules
				continue
			}
			matches := true
			for k, v := range selector {
				matches = matches && u.GetLabels()[k] == v
			}
			if matches {
				want = append(want, rules...)
			}
		}
		if len(has) == 0 && len(want) == 0 || mustJSON(has) == mustJSON(want) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	_, _, role := o.sudo(t, "GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/"+name, "", nil)
	meta, _ := role["metadata"].(map[string]any)
	o.settle(t, o.write(t, []*unstructured.Unstructured{{Object: map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
		"metadata": map[string]any{"name": "answers-marker", "annotations": map[string]any{"after": fmt.Sprint(meta["resourceVersion"], time.Now().UnixNano())}}}}}))
}

func mustJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

func (o *oracle) request(t testing.TB, method, at, contentType string, body []byte) *http.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, o.Admin.Host+at, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json")
	if contentType == "" {
		contentType = "application/json"
	}
	req.Header.Set("Content-Type", contentType)
	return req
}

func send(t testing.TB, client *http.Client, req *http.Request) (int, http.Header, map[string]any) {
	t.Helper()
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	_ = json.Unmarshal(raw, &out) // not everything is an object
	return resp.StatusCode, resp.Header, out
}

// sudo sends a request as an admin.
func (o *oracle) sudo(t testing.TB, method, at, contentType string, body []byte) (int, http.Header, map[string]any) {
	t.Helper()
	return send(t, o.admin, o.request(t, method, at, contentType, body))
}

// as sends a request as a subject.
func (o *oracle) as(t testing.TB, s Subject, method, at, contentType string, body []byte, header map[string]string) (int, map[string]any) {
	t.Helper()
	req := o.request(t, method, at, contentType, body)
	req.Header.Set("X-Remote-User", s.User)
	for _, g := range s.Groups {
		req.Header.Add("X-Remote-Group", g)
	}
	for k, values := range s.Extra {
		for _, v := range values {
			req.Header.Add("X-Remote-Extra-"+k, v)
		}
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	code, _, out := send(t, o.proxy, req)
	return code, out
}
