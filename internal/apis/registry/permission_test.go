package registry

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation/path"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
)

// fixedPermissions are those of a real table, which never changes.
type fixedPermissions struct{ table *fieldperm.Table }

func (f fixedPermissions) Permissions(context.Context) ([]fieldperm.Entry, error) {
	if f.table == nil {
		return nil, apierrors.NewServiceUnavailable("not yet")
	}
	return f.table.Permissions(), nil
}

func (f fixedPermissions) PermissionsOf(_ context.Context, resource string) ([]fieldperm.Entry, error) {
	r, err := fieldperm.ParseResource(resource)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return f.table.For(r), nil
}

func declared(name, permission, field string, exclusiveWhen string, resources ...string) *policy.FieldPermission {
	fp := &policy.FieldPermission{}
	fp.Name = name
	fp.Spec = policy.FieldPermissionSpec{Resources: resources, Field: field, Permission: permission, Exclusive: true, ExclusiveWhen: exclusiveWhen}
	return fp
}

// FP-12: permissions can be read as a flat list, one by one and per resource, and not written; mistakes are told apart
// from what is not there.
func TestPermissions(t *testing.T) {
	table, _ := fieldperm.New(fieldperm.Config{FieldPermissions: []*policy.FieldPermission{
		declared("network", "example.com/nodeNetwork", ".spec.hostNetwork", "", "pods"),
		declared("when", "example.com/selfDestruct", ".spec.x", "self == true", "widgets.example.com"), // no CEL here
		declared("bad", "Bad/Name:x", ".spec.y", "", "widgets.example.com"),
	}})
	s := serve(t, &world{permissions: fixedPermissions{table}})
	list := func(query string) []authz.Permission {
		t.Helper()
		var all authz.PermissionList
		if err := json.Unmarshal(s.must("GET", authzAPI+"/permissions"+query, nil).raw, &all); err != nil {
			t.Fatal(err)
		}
		return all.Items
	}
	names := func(all []authz.Permission) []string {
		var out []string
		for _, p := range all {
			out = append(out, p.Name)
		}
		return out
	}

	all := list("")
	entries := 0
	for _, p := range all {
		entries += len(p.Fields)
		if problems := path.IsValidPathSegmentName(p.Name); len(problems) > 0 {
			t.Errorf("%q cannot be a name: %v", p.Name, problems)
		}
		var one authz.Permission
		if err := json.Unmarshal(s.must("GET", authzAPI+"/permissions/"+p.Name, nil).raw, &one); err != nil {
			t.Fatal(err)
		}
		one.TypeMeta = p.TypeMeta // which elements of a list leave out
		if diff := cmp.Diff(p, one); diff != "" {
			t.Errorf("%s is another when it is read alone: %s", p.Name, diff)
		}
		for _, f := range p.Fields {
			if !slices.Contains(p.Verbs, f.Verb) {
				t.Errorf("%s: verb %s of a field is not in %v", p.Name, f.Verb, p.Verbs)
			}
		}
	}
	if want := len(table.Permissions()); entries != want {
		t.Errorf("the list has %d fields, the table %d", entries, want)
	}
	if !slices.IsSorted(names(all)) || !slices.Contains(names(all), "example.com:nodeNetwork") || !slices.Contains(names(all), "labels") {
		t.Errorf("names are %v", names(all))
	}

	pods := list("?fieldSelector=resource%3Dpods")
	entries = 0
	for _, p := range pods {
		for _, f := range p.Fields {
			entries++
			if f.Resource != "pods" {
				t.Errorf("pods have %+v", f)
			}
		}
	}
	if want := len(table.For(fieldperm.Resource{Resource: "pods"})); entries != want || !slices.Contains(names(pods), "example.com:nodeNetwork") || slices.Contains(names(pods), "replicas") {
		t.Errorf("pods have %d fields, want %d: %v", entries, want, names(pods))
	}
	if got := names(list("?fieldSelector=metadata.name%3Dlabels")); len(got) != 1 || got[0] != "labels" {
		t.Errorf("by name: %v", got)
	}
	if got := list("?fieldSelector=metadata.name!%3Dlabels"); len(got) != len(all)-1 {
		t.Errorf("by what the name is not: %d of %d", len(got), len(all))
	}
	if got := list("?labelSelector=a%3Db"); len(got) != 0 {
		t.Errorf("by a label that nothing has: %v", names(got))
	}

	for _, tc := range []struct {
		method, path, says string
		code               int
	}{
		{"GET", "/permissions/nobody", "not found", http.StatusNotFound},
		{"GET", "/permissions?fieldSelector=field%3D.spec", "permissions are selected by resource or metadata.name", http.StatusBadRequest},
		{"GET", "/permissions?fieldSelector=resource!%3Dpods", "resource selects one resource, such as resource=deployments.apps", http.StatusBadRequest},
		{"GET", "/permissions?fieldSelector=resource%3Dpods,resource%3Dnodes", "resource selects one resource", http.StatusBadRequest},
		{"GET", "/permissions?fieldSelector=resource%3D", "resource selects one resource", http.StatusBadRequest},
		{"GET", "/permissions?fieldSelector=resource%3Dpods/status", "subresource", http.StatusBadRequest},
		{"GET", "/permissions?continue=x", "listed as a whole", http.StatusBadRequest},
		{"GET", "/permissions?watch=1", "", http.StatusMethodNotAllowed},
		{"DELETE", "/permissions/labels", "", http.StatusMethodNotAllowed},
		{"POST", "/permissions", "", http.StatusMethodNotAllowed},
	} {
		got := s.call(tc.method, authzAPI+tc.path, nil)
		if got.code != tc.code || !strings.Contains(string(got.raw), tc.says) {
			t.Errorf("%s %s: %d %s, want %d with %q", tc.method, tc.path, got.code, got.raw, tc.code, tc.says)
		}
	}

	header, rows := s.table(authzAPI + "/permissions")
	if want := "Name | Verbs | Fields | Resources | Exclusive | (Source)"; header != want {
		t.Errorf("header %q, want %q", header, want)
	}
	for _, want := range []string{
		"label | granular:label(<prefix>) | .metadata.labels[] | * | false | shipped",
		"nodeAssignment | granular:nodeAssignment | .spec.nodeName,.template.spec.nodeName,.spec.template.spec.nodeName,+1 more | pods,jobs.batch,podtemplates,+6 more | false | shipped",
		`example.com:selfDestruct | granular:example.com/selfDestruct | .spec.x | widgets.example.com | partly | FieldPermission "when"`,
	} {
		if !slices.Contains(rows, want) {
			t.Errorf("no row %q in\n%s", want, strings.Join(rows, "\n"))
		}
	}
	if i := slices.IndexFunc(rows, func(r string) bool { return strings.HasPrefix(r, "invalid:") }); i < 0 || !strings.Contains(rows[i], "granular:Bad/Name:x <broken> | .spec.y") {
		t.Errorf("the broken declaration is not shown as such:\n%s", strings.Join(rows, "\n"))
	}
}

// FP-12: before everything is known the answer is that, not a list that lacks something.
func TestPermissionsNotYetKnown(t *testing.T) {
	s := serve(t, &world{})
	for _, path := range []string{"/permissions", "/permissions/labels"} {
		if got := s.call("GET", authzAPI+path, nil); got.code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d %s", path, got.code, got.raw)
		}
	}
}

// FP-12: a permission's object can be found by its name, and no two permissions have the same.
func TestPermissionObjectNames(t *testing.T) {
	seen := map[string]string{}
	for _, permission := range []string{"labels", "example.com/labels", "example.com/a", "example.com/a/b", "example.com:a", "a:b", "", ".", "..", "a%b", "Labels", "invalid:0000000000000000"} {
		name := permissionObjectName(permission)
		if problems := path.IsValidPathSegmentName(name); name == "" || len(problems) > 0 {
			t.Errorf("%q becomes %q: %v", permission, name, problems)
		}
		if other, taken := seen[name]; taken {
			t.Errorf("%q and %q both become %q", permission, other, name)
		}
		seen[name] = permission
	}
	if got := permissionObjectName("example.com/selfDestruct"); got != "example.com:selfDestruct" {
		t.Errorf("got %q", got)
	}
}
