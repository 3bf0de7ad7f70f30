package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/cache"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/state/snapshot"
)

func written(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const manifests = `# what people write
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: dev, namespace: hammer}
rules: [{verbs: [get], resourceKinds: [pods]}]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: devs, namespace: hammer}
roleName: dev
userNames: [edgar]
---
# only a comment
---
apiVersion: v1
kind: List
items:
- {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: view, namespace: hammer}, roleRef: {kind: ClusterRole, name: view}, subjects: [{kind: User, name: hubert}]}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: other, namespace: hammer}}
`

// Manifests become what the server would have stored: roles stand in their containers, defaults are filled in.
func TestFiles(t *testing.T) {
	dir := written(t, map[string]string{
		"policy.yaml":   manifests,
		"deep/ns.json":  `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"hammer"}}`,
		"deep/notes.md": "no manifest",
		"served.yml":    `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1","resources":[{"name":"deployments","kind":"Deployment","namespaced":true,"verbs":["get"],"singularName":""}]}`,
	})
	files, err := ReadFiles(FilesConfig{Paths: []string{dir}, MasterNamespace: "master"})
	if err != nil {
		t.Fatal(err)
	}
	of := func(kind snapshot.Kind) snapshot.Objects {
		t.Helper()
		objects, err := files.Objects(kind)
		if err != nil {
			t.Fatal(err)
		}
		return objects
	}
	policies, bindings := snapshot.Of[*policyv1alpha1.Policy](of(snapshot.Policies)), snapshot.Of[*policyv1alpha1.PolicyBinding](of(snapshot.PolicyBindings))
	if len(policies) != 1 || policies[0].Name != "default" || len(policies[0].Roles["dev"].Rules) != 1 {
		t.Errorf("policies: %+v", policies)
	}
	if len(bindings) != 1 || bindings[0].Name != "hammer" || bindings[0].PolicyRef.Namespace != "hammer" || bindings[0].RoleBindings["devs"].RoleName != "dev" {
		t.Errorf("policy bindings: %+v", bindings)
	}
	rbac := snapshot.Of[*rbacv1.RoleBinding](of(snapshot.RoleBindings))
	if len(rbac) != 1 || rbac[0].Subjects[0].APIGroup != rbacv1.GroupName {
		t.Errorf("role bindings: %+v", rbac)
	}
	if of(snapshot.AuditSinks) != nil || of(snapshot.Namespaces) != nil {
		t.Error("there are audit sinks, or namespaces that nothing was stored in")
	}
	if ns, err := files.Namespace("hammer"); err != nil || ns.Name != "hammer" {
		t.Errorf("namespace: %v %v", ns, err)
	}
	if len(files.Others) != 1 || len(files.Served) != 1 {
		t.Errorf("others %v, served %v", files.Others, files.Served)
	}
	heard := 0
	registration, err := of(snapshot.Policies).AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { heard++ }})
	if err != nil || heard != 1 || !registration.HasSynced() {
		t.Errorf("heard of %d, %v", heard, err)
	}
	found, err := of(snapshot.Policies).GetIndexer().ByIndex(cache.NamespaceIndex, "hammer")
	if err != nil || len(found) != 1 {
		t.Errorf("by namespace: %v %v", found, err)
	}
}

// What cannot be understood is no smaller policy.
func TestFilesFailClosed(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"a field that nobody knows": {"apiVersion: authorization.proviso.dev/v1alpha1\nkind: Role\nmetadata: {name: dev, namespace: hammer}\nrules: [{verbs: [get], resourceKinds: [pods]}]\nunless: x", "unless"},
		"a version from the future": {"apiVersion: policy.proviso.dev/v9\nkind: Policy\nmetadata: {name: default, namespace: hammer}", "not known"},
		"no object":                 {"rules: []", "no kind"},
		"no YAML":                   {"kind: [", "document 1"},
		"a key given twice":         {"kind: A\nkind: B", "already set"},
		"the same object twice":     {strings.Repeat("---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\n", 2), "twice"},
		"the same role twice":       {strings.Repeat("---\napiVersion: authorization.proviso.dev/v1alpha1\nkind: Role\nmetadata: {name: a, namespace: b}\n", 2), "twice"},
	} {
		dir := written(t, map[string]string{"a.yaml": test.text})
		if _, err := ReadFiles(FilesConfig{Paths: []string{dir}, MasterNamespace: "master"}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ReadFiles(FilesConfig{Paths: []string{filepath.Join(t.TempDir(), "missing")}}); err == nil {
		t.Error("a file that is not there is an empty policy")
	}
}

// PO-20: in a dump, what has outlived its namespace is told by the UIDs of namespaces.
func TestNamespacesCountInADump(t *testing.T) {
	dir := written(t, map[string]string{"a.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: hammer, uid: \"1\"}"})
	files, err := ReadFiles(FilesConfig{Paths: []string{dir}, MasterNamespace: "master"})
	if err != nil {
		t.Fatal(err)
	}
	if objects, err := files.Objects(snapshot.Namespaces); err != nil || objects == nil {
		t.Errorf("%v %v", objects, err)
	}
}

// TR-1: a Namespace in a file has the label that a server gives it, and conditions see it although it was not stored.
func TestNamespacesHaveTheirName(t *testing.T) {
	dir := written(t, map[string]string{"a.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: hammer, labels: {env: dev}}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: anvil}\n"})
	files, err := ReadFiles(FilesConfig{Paths: []string{dir}, MasterNamespace: "master"})
	if err != nil {
		t.Fatal(err)
	}
	all := files.Namespaces()
	for _, name := range []string{"hammer", "anvil"} {
		if ns := all[name]; ns == nil || ns.Labels["kubernetes.io/metadata.name"] != name {
			t.Errorf("%s: %v", name, ns)
		}
	}
	if len(all) != 2 || all["hammer"].Labels["env"] != "dev" {
		t.Errorf("%v", all)
	}
}

// TR-2: what is to be applied belongs to the namespace that a dump has, and what was stored to the one that it was
// stored in.
func TestNewObjectsBelongToTheNamespaceOfTheDump(t *testing.T) {
	dir := written(t, map[string]string{"a.yaml": `
apiVersion: v1
kind: Namespace
metadata: {name: hammer, uid: "2", creationTimestamp: "2026-01-01T00:00:00Z"}
---
apiVersion: v1
kind: Namespace
metadata: {name: anvil, uid: "3", creationTimestamp: "2026-01-01T00:00:00Z"}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: r, namespace: hammer}
rules: [{verbs: [get], resourceKinds: [secrets]}]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: r, namespace: hammer}
roleRef: {namespace: hammer, name: r}
userNames: [edgar]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: Policy
metadata: {name: default, namespace: anvil, uid: "9", annotations: {policy.proviso.dev/namespace-uid: "1"}}
`})
	files, err := ReadFiles(FilesConfig{Paths: []string{dir}, MasterNamespace: "master"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		kind     snapshot.Kind
		key, uid string
	}{{snapshot.Policies, "hammer/default", "2"}, {snapshot.PolicyBindings, "hammer/hammer", "2"}, {snapshot.Policies, "anvil/default", "1"}} {
		objects, err := files.Objects(want.kind)
		if err != nil {
			t.Fatal(err)
		}
		obj, exists, err := objects.GetIndexer().GetByKey(want.key)
		if err != nil || !exists {
			t.Fatalf("%s: %v", want.key, err)
		}
		if got := obj.(metav1.Object).GetAnnotations()[policyv1alpha1.AnnotationNamespaceUID]; got != want.uid {
			t.Errorf("%s belongs to namespace %q, want %q", want.key, got, want.uid)
		}
	}
}
