package policytools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/analysis/auditlog"
	"proviso.dev/proviso/internal/hosts/offline"
)

// TR-10: a part of what upstream's conformance tests were recorded doing, with bodies: no request breaks, and where few
// fields were changed, these are granted. `go run ./hack/prove suggest-conformance` does the same with all of it.
func TestSuggestForConformance(t *testing.T) {
	const log, policy = "testdata/suggest/conformance.log.gz", "testdata/suggest/conformance.yaml"
	out, code, err := execute(t, NewSuggestCommand, "", "--replay", log, "--from", policy)
	if code != 0 || err != nil || !strings.Contains(out, "decided as before; the suggestion grants nothing new") || !strings.Contains(out, "which is 99.2% less") ||
		!strings.Contains(out, "  - test-api\n  resources:\n  - cronjobs\n  verbs:\n  - granular\n  - granular:annotation(patched)\n  - granular:annotation(updated)\n") || strings.Count(out, "granular:") < 8 {
		t.Fatalf("%d %v\n%s", code, err, out)
	}
	plain, _, _ := execute(t, NewSuggestCommand, "", "--replay", log, "--from", policy, "--fields=false")
	if strings.Contains(plain, "granular") {
		t.Errorf("--fields=false:\n%s", plain)
	}
	host, err := offline.New(offline.Config{Texts: nil, Paths: []string{write(t, map[string]string{"least.yaml": out})}, MasterNamespace: "master"})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if _, err := auditlog.Read(t.Context(), bytes.NewReader(data), auditlog.Config{Workers: 1, Each: func(_ int, r *auditlog.Request) {
		n++
		want := offline.Allowed
		if r.Verb == "update" || r.Verb == "patch" {
			want = offline.Depends // on the fields, which the command has proven
		}
		if got := host.Decide(t.Context(), r.Attributes()); got < want {
			t.Errorf("%s %s: %v", r.Verb, r.URI, got)
		}
	}}); err != nil || n < 280 {
		t.Errorf("%d requests, %v", n, err)
	}
}

// recording writes events with bodies.
type recording struct {
	strings.Builder
	n int
}

// event records a request of dora about deployments, or what object says, in shop. Bodies are YAML.
func (r *recording) event(verb, resource, name, sent, answer string) {
	r.n++
	group, plural := "apps", resource
	if resource == "configmaps" {
		group = ""
	}
	body := func(text string) json.RawMessage {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			panic(err)
		}
		return data
	}
	plural, sub, _ := strings.Cut(plural, "/")
	text, err := json.Marshal(map[string]any{"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "RequestResponse", "stage": "ResponseComplete", "auditID": fmt.Sprint(r.n), "verb": verb,
		"user": map[string]any{"username": "dora"}, "objectRef": map[string]any{"resource": plural, "subresource": sub, "namespace": "shop", "apiGroup": group, "apiVersion": "v1", "name": name},
		"responseStatus": map[string]any{"code": 200}, "requestObject": body(sent), "responseObject": body(answer)})
	if err != nil {
		panic(err)
	}
	r.Write(append(text, '\n'))
}

func deploymentAt(version int, more string) string {
	return fmt.Sprintf("{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop, resourceVersion: '%d', labels: {app: web%s}}, spec: {replicas: 1}}", version, more)
}

const dora = `apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: dora, namespace: shop}
rules: [{apiGroups: ["", apps], resources: ["*"], verbs: [%s]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: dora, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: dora}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: dora}]
`

// TR-10: fields are suggested if all changes are known and permissions for them exist, and if that grants nothing that
// was not held: a right to fields is also one to create.
func TestSuggestFields(t *testing.T) {
	const everything, noCreate = "get, create, update, patch, delete", "get, update, patch, delete"
	labelled := func(r *recording) {
		r.event("get", "deployments", "web", "null", deploymentAt(5, ""))
		r.event("update", "deployments", "web", deploymentAt(5, ", a.com/x: v"), deploymentAt(6, ", a.com/x: v"))
	}
	const exclusive = "---\napiVersion: policy.proviso.dev/v1alpha1\nkind: FieldPermission\nmetadata: {name: x}\nspec: {resources: [deployments.apps], field: '.metadata.labels[a.com/x]', permission: example.com/x, exclusive: true}\n"
	for _, test := range []struct {
		name, verbs, more string
		log               func(*recording)
		want, not         string
	}{
		{"an update", everything, "", labelled, "  - granular\n  - granular:label(a.com)\n", "- update"},
		{"as policy", everything, "", labelled, "granular:label(a.com)", "- update"},
		{"without create", noCreate, "", labelled, "- update", "granular"},
		{"without create but with rights to other fields", noCreate + `, granular, "granular:annotations"`, "", labelled, "- update", "granular"},
		{"of another version than is known", everything, "", func(r *recording) {
			r.event("get", "deployments", "web", "null", deploymentAt(4, ""))
			r.event("update", "deployments", "web", deploymentAt(5, ", a.com/x: v"), deploymentAt(6, ", a.com/x: v"))
		}, "- update", "granular"},
		{"once unknown", everything, "", func(r *recording) {
			labelled(r)
			r.event("update", "deployments", "web", deploymentAt(8, ""), deploymentAt(9, ""))
		}, "- update", "granular"},
		{"a patch", everything, "", func(r *recording) {
			r.event("get", "deployments", "web", "null", deploymentAt(5, ""))
			r.event("patch", "deployments", "web", "{metadata: {annotations: {b.com/n: '1'}}}", strings.Replace(deploymentAt(6, ""), "labels:", "annotations: {b.com/n: '1'}, labels:", 1))
		}, "  - granular\n  - granular:annotation(b.com)\n", "- patch"},
		{"a patch that changed nothing", everything, "", func(r *recording) {
			r.event("get", "deployments", "web", "null", deploymentAt(5, ", a.com/x: v"))
			r.event("patch", "deployments", "web", "{metadata: {labels: {a.com/x: v, c.com/gone: null}}}", deploymentAt(5, ", a.com/x: v"))
		}, "granular:label(a.com)\n  - granular:label(c.com)", "- patch"},
		{"a JSON patch", everything, "", func(r *recording) {
			r.event("get", "deployments", "web", "null", deploymentAt(5, ""))
			r.event("patch", "deployments", "web", "[{op: add, path: /metadata/labels/a.com~1x, value: v}]", deploymentAt(6, ", a.com/x: v"))
		}, "granular:label(a.com)", "- patch"},
		{"an apply", everything, "", func(r *recording) {
			r.event("get", "deployments", "web", "null", deploymentAt(5, ""))
			r.event("patch", "deployments", "web", deploymentAt(5, ", a.com/x: v"), deploymentAt(6, ", a.com/x: v"))
		}, "- patch", "granular"},
		{"a patch of what was never seen", everything, "", func(r *recording) {
			r.event("patch", "deployments", "web", "{metadata: {labels: {a.com/x: v}}}", deploymentAt(6, ", a.com/x: v"))
		}, "- patch", "granular"},
		{"status", noCreate, "", func(r *recording) {
			status := func(version int, value string) string {
				return strings.Replace(deploymentAt(version, ""), "spec: {replicas: 1}", "status: {conditions: [{type: Ready, status: '"+value+"'}, {type: Other, status: 'True'}]}", 1)
			}
			r.event("get", "deployments", "web", "null", status(5, "False"))
			r.event("update", "deployments/status", "web", status(5, "True"), status(6, "True"))
		}, "granular:condition(Ready)", "- update"},
		{"a field without a permission", everything, "", func(r *recording) {
			const settings = "{apiVersion: v1, kind: ConfigMap, metadata: {name: s, namespace: shop, resourceVersion: '%d'}, data: {a: '%d'}}"
			r.event("get", "configmaps", "s", "null", fmt.Sprintf(settings, 5, 1))
			r.event("update", "configmaps", "s", fmt.Sprintf(settings, 5, 2), fmt.Sprintf(settings, 6, 2))
		}, "- update", "granular"},
		{"an exclusive field", everything, exclusive, labelled, "- update", "granular"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var r recording
			test.log(&r)
			as := "rbac"
			if test.name == "as policy" {
				as = "policy"
			}
			out, code, err := execute(t, NewSuggestCommand, r.String(), "--replay", "-", "--format", as, "--from", write(t, map[string]string{"a.yaml": fmt.Sprintf(dora, test.verbs) + test.more}))
			if code != 0 || err != nil || !strings.Contains(out, test.want) || strings.Contains(out, test.not+"\n") || test.not == "granular" && strings.Contains(out, test.not) {
				t.Errorf("%d %v\n%s", code, err, out)
			}
			if strings.Contains(out, "proviso policy open shop") != (as == "policy") {
				t.Errorf("as %s, in a namespace without roles of Policy:\n%s", as, out)
			}
		})
	}
}

// TR-10: what the server noted about permissions for fields stays granted, whatever the level of the log.
func TestSuggestKeepsFields(t *testing.T) {
	const event = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","stage":"ResponseComplete","auditID":"1","verb":"patch","user":{"username":"dora"},` +
		`"objectRef":{"resource":"deployments","namespace":"shop","apiGroup":"apps","name":"web"},"responseStatus":{"code":200},` +
		`"annotations":{"fieldpermissions.proviso.dev/checks":"granular:metadata=no,granular:labels=allow"}}` + "\n"
	from := write(t, map[string]string{"a.yaml": fmt.Sprintf(dora, `get, granular, "granular:labels", "granular:annotations"`)})
	out, code, err := execute(t, NewSuggestCommand, event, "--replay", "-", "--from", from)
	if code != 0 || err != nil || !strings.Contains(out, "  resourceNames:\n  - web\n  resources:\n  - deployments\n  verbs:\n  - granular\n  - granular:labels\n") || strings.Contains(out, "annotations") {
		t.Errorf("%d %v\n%s", code, err, out)
	}
}

// TR-10: a where is suggested if objects of the server show that it separates, and if not, that is said.
func TestSuggestWhere(t *testing.T) {
	var log strings.Builder
	for i := range 4 {
		fmt.Fprintf(&log, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","stage":"ResponseComplete","auditID":"%d","verb":"delete","user":{"username":"dora"},`+
			`"objectRef":{"resource":"configmaps","namespace":"shop","name":"c%d"},"responseStatus":{"code":200}}`+"\n", i, i)
	}
	from := write(t, map[string]string{"a.yaml": fmt.Sprintf(dora, "get, delete")})
	settings := func(name, team, kind string) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "labels": map[string]any{"team": team}}, "immutable": kind == "x"}}
	}
	serving := func(all ...unstructured.Unstructured) reader {
		return func(_ context.Context, resource schema.GroupVersionResource, namespace string, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
			if resource != (schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}) || namespace != "shop" || options.Limit == 0 {
				return nil, fmt.Errorf("asked for %v in %q with limit %d", resource, namespace, options.Limit)
			}
			return &unstructured.UnstructuredList{Items: all}, nil
		}
	}
	touched := func(team, kind string, others ...unstructured.Unstructured) []unstructured.Unstructured {
		return append([]unstructured.Unstructured{settings("c0", team, kind), settings("c1", team, kind), settings("c2", team, kind), settings("c3", team, kind)}, others...)
	}
	for _, test := range []struct {
		name      string
		objects   reader
		want, not string
	}{
		{"a label", serving(touched("a", "y", settings("d0", "b", "y"), settings("d1", "b", "y"))...), "where: resource.metadata.labels[\"team\"] == \"a\"", ""},
		{"a field", serving(touched("a", "x", settings("d0", "a", "y"))...), "where: resource.immutable == true", ""},
		{"not shared", serving(append(touched("a", "y", settings("d0", "b", "y"))[1:], settings("c0", "z", "y"))...), "- delete", "where:"},
		{"separates nothing", serving(touched("a", "y", settings("d0", "a", "y"))...), "- delete", "where:"},
		{"separates too little", serving(touched("a", "y", settings("d0", "b", "y"), settings("d1", "a", "y"), settings("d2", "a", "y"))...), "- delete", "where:"},
		{"one is gone", serving(touched("a", "y", settings("d0", "b", "y"))[1:]...), "- delete", "where:"},
		{"refused", func(context.Context, schema.GroupVersionResource, string, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
			return nil, errors.New("forbidden")
		}, "No condition is suggested for configmaps in shop: forbidden.", "where:"},
		{"in the master namespace", serving(touched("a", "y", settings("d0", "b", "y"), settings("d1", "b", "y"))...), "- delete", "where:"},
		{"no server", nil, "The log has more than 3 names of configmaps in shop: use --kubeconfig or --live", "where:"},
	} {
		t.Run(test.name, func(t *testing.T) {
			command := func(streams genericiooptions.IOStreams) *cobra.Command {
				return newSuggestCommand(streams, test.objects)
			}
			args := []string{"--replay", "-", "--from", from, "--max-names", "3"}
			if test.name == "in the master namespace" {
				args = append(args, "--master-namespace", "shop")
			}
			out, code, err := execute(t, command, log.String(), args...)
			if code != 0 || err != nil || !strings.Contains(out, test.want) || test.not != "" && strings.Contains(out, test.not) || !strings.Contains(out, "decided as before") {
				t.Errorf("%d %v\n%s", code, err, out)
			}
		})
	}
}

// TR-10: a where must hold before and after an update or patch. What the objects are like now does not say so: a robot
// that sets a label on all of them would be refused.
func TestSuggestWhereOfPatches(t *testing.T) {
	from := write(t, map[string]string{"a.yaml": fmt.Sprintf(dora, "get, patch")})
	settings := func(name, labels string, version int) string {
		return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: shop, resourceVersion: '%d', labels: {%s}}}", name, version, labels)
	}
	live := &unstructured.UnstructuredList{}
	for i := range 4 {
		live.Items = append(live.Items, unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": fmt.Sprint("c", i), "labels": map[string]any{"team": "a", "checked": "yes"}}}})
	}
	live.Items = append(live.Items, unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "d"}}})
	for _, test := range []struct {
		name, before string // without a state before, the log has no bodies
		where        string
	}{
		{"without bodies", "", ""},
		{"it sets the label", "a: b", ""},
		{"it had the label", "team: a", `where: resource.metadata.labels["team"] == "a"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var r recording
			for i := range 4 {
				name := fmt.Sprint("c", i)
				if test.before != "" {
					r.event("get", "configmaps", name, "null", settings(name, test.before, 5))
				}
				r.event("patch", "configmaps", name, "{metadata: {labels: {checked: 'yes'}}}", settings(name, "team: a, checked: 'yes'", 6))
			}
			log := r.String()
			if test.before == "" {
				log = strings.ReplaceAll(log, "RequestResponse", "Metadata")
			}
			command := func(streams genericiooptions.IOStreams) *cobra.Command {
				return newSuggestCommand(streams, func(context.Context, schema.GroupVersionResource, string, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
					return live, nil
				})
			}
			out, code, err := execute(t, command, log, "--replay", "-", "--from", from, "--max-names", "3", "--fields=false")
			if code != 0 || err != nil || !strings.Contains(out, "- patch") || !strings.Contains(out, test.where) || strings.Contains(out, "where:") != (test.where != "") {
				t.Errorf("%d %v\n%s", code, err, out)
			}
		})
	}
}
