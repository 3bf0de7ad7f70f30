package answers

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/analysis/suggest"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/observed"
)

// auditAll has the server write every request with its bodies into its audit log.
const auditAll = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [{"level": "RequestResponse"}]}`

// auditFlags make the audit log of the server.
func auditFlags(t testing.TB) (log string, flags []string) {
	t.Helper()
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.json"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(auditAll), 0o600); err != nil {
		t.Fatal(err)
	}
	return log, []string{"--audit-policy-file=" + policy, "--audit-log-path=" + log}
}

// recorded is what the audit log has from a place on, up to a request that is made for this purpose.
func (o *oracle) recorded(t testing.TB, from int64) []byte {
	t.Helper()
	marker := fmt.Sprint("/version?marker=", time.Now().UnixNano())
	o.sudo(t, "GET", marker, "", nil)
	for {
		file, err := os.Open(o.log)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(io.NewSectionReader(file, from, 1<<40))
		_ = file.Close()
		if err != nil {
			t.Fatal(err)
		}
		if i := bytes.Index(text, []byte(marker)); i >= 0 && bytes.IndexByte(text[i:], '\n') >= 0 {
			return text[:bytes.LastIndexByte(text, '\n')+1]
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// logSize is how long the audit log is by now.
func (o *oracle) logSize(t testing.TB) int64 {
	t.Helper()
	info, err := os.Stat(o.log)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// suggested: with the suggestion in the place of the bindings that it replaces, the server lets the same requests of
// the subject pass, and no others (TR-10).
func (x *trial) suggested(h *offline.Host, policy []*unstructured.Unstructured, log []byte, refused map[at]string, i int) {
	s := x.subjects[i]
	who := ruleset.Subject{Name: s.User}
	seen, _, err := observed.Read(x.Context(), bytes.NewReader(log), h, []ruleset.Subject{who})
	if err != nil {
		x.Fatal(err)
	}
	if seen[who] == nil {
		return // nothing passed
	}
	in, err := observed.Input(x.Context(), h)
	if err != nil {
		x.Fatal(err)
	}
	in.Policy, in.MaxNames = len(log)%2 == 0, 20
	in = seen[who].Complete(in, who, true)
	result, err := suggest.Make(in)
	if err != nil || len(result.Broken) > 0 {
		x.found("suggest", "%s: %v, broken: %v", s.User, err, result)
		return
	}
	change := append(without(policy, result.Replaced, s.User), suggestion(x, in, result)...)
	x.settle(x, x.write(x, change))
	x.replaced += len(result.Replaced)
	for j, r := range x.requests {
		passed := refused[at{i, j}] == ""
		passes, message := x.do(x, s, r)
		if x.compared++; passes != passed {
			x.found("suggest", "%s %s: passed is %v, with the suggestion %v: %s\n%s", s.User, r.name, passed, passes, message, mustJSON(change))
		}
	}
	x.settle(x, x.remove(x, suggestion(x, in, result)))
	x.install(policy)
}

// bound is a subject whom the policy names, if there is one: the first from a place on.
func (x *trial) bound(policy string, from int) int {
	for i := range x.subjects {
		if at := (from + i) % len(x.subjects); strings.Contains(policy, fmt.Sprintf("%q", x.subjects[at].User)) {
			return at
		}
	}
	return from
}

// without are the replaced bindings, without the subject.
func without(policy []*unstructured.Unstructured, replaced []ruleset.BindingRef, name string) (all []*unstructured.Unstructured) {
	for _, object := range policy {
		if !slices.ContainsFunc(replaced, func(ref ruleset.BindingRef) bool {
			ofPolicy := ref.Kind == ruleset.PolicyRoleBinding
			return ref.Name == object.GetName() && ref.Namespace == object.GetNamespace() && strings.HasSuffix(object.GetKind(), "RoleBinding") &&
				ofPolicy == (object.GroupVersionKind().Group == authz.GroupName)
		}) {
			continue
		}
		next := object.DeepCopy()
		for _, list := range []string{"userNames", "subjects"} {
			members, _, _ := unstructured.NestedSlice(next.Object, list)
			if left := slices.DeleteFunc(members, func(m any) bool {
				subject, _ := m.(map[string]any)
				return m == name || subject["kind"] == "User" && subject["name"] == name
			}); len(left) > 0 {
				_ = unstructured.SetNestedSlice(next.Object, left, list) // what was read as a list is one
			} else {
				unstructured.RemoveNestedField(next.Object, list)
			}
		}
		all = append(all, next)
	}
	return all
}

// suggestion are the objects of a suggestion.
func suggestion(t testing.TB, in suggest.Input, result *suggest.Result) (all []*unstructured.Unstructured) {
	t.Helper()
	add := func(version, kind string, object any) {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			t.Fatal(err)
		}
		content["apiVersion"], content["kind"] = version, kind
		delete(content, "status")
		unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
		all = append(all, &unstructured.Unstructured{Object: content})
	}
	objects := in.Objects(result.Parts)
	const rbac = "rbac.authorization.k8s.io/v1"
	for i, role := range objects.ClusterRoles {
		add(rbac, "ClusterRole", role)
		add(rbac, "ClusterRoleBinding", objects.ClusterRoleBindings[i])
	}
	for i, role := range objects.Roles {
		add(rbac, "Role", role)
		add(rbac, "RoleBinding", objects.RoleBindings[i])
	}
	for namespace, rules := range objects.Policy {
		role := &authz.Role{Rules: rules}
		binding := &authz.RoleBinding{RoleRef: authz.RoleRef{Namespace: namespace, Name: in.Name}, UserNames: []string{in.Subject.Name}}
		role.Namespace, role.Name, binding.Namespace, binding.Name = namespace, in.Name, namespace, in.Name
		add(authz.SchemeGroupVersion.String(), "Role", role)
		add(authz.SchemeGroupVersion.String(), "RoleBinding", binding)
	}
	return all
}
