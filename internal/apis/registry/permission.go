package registry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/state/policycodec"
)

// Permissions says which field permissions are in effect. An error that is an API status is the answer to the caller.
type Permissions interface {
	// Permissions lists every permission with the fields it guards.
	Permissions(ctx context.Context) ([]fieldperm.Entry, error)
	// PermissionsOf lists those that guard a field of one resource, which is a plural, resource.group or kind.
	PermissionsOf(ctx context.Context, resource string) ([]fieldperm.Entry, error)
}

// permissions serves the table of field permissions, for reading (FP-12): what the table is made of can be watched.
type permissions = computed[authz.Permission, *authz.Permission]

// newPermissions shows all permissions with the fields they guard or, with the field selector resource=R, those that
// guard a field of R. They are the same everywhere.
func newPermissions(all Permissions) *permissions {
	return &permissions{
		table:    table[*authz.Permission]{columns: permissionColumns(), resource: authz.Resource("permissions"), ageless: true},
		singular: "permission", short: "perm", plain: "permissions",
		list: func(items []authz.Permission) runtime.Object { return &authz.PermissionList{Items: items} },
		find: func(ctx context.Context, _ string, selector fields.Selector) ([]authz.Permission, error) {
			entries, err := selectedPermissions(ctx, all, selector)
			if err != nil {
				return nil, err
			}
			return permissionObjects(entries), nil
		},
		matches: func(selector fields.Selector, p *authz.Permission) bool { return namesMatch(selector, p.Name) },
	}
}

// selectedPermissions reads the entries of the one resource that the selector names, or all.
func selectedPermissions(ctx context.Context, all Permissions, selector fields.Selector) ([]fieldperm.Entry, error) {
	resource := ""
	for _, r := range selector.Requirements() {
		if r.Field != policycodec.SelectResource {
			continue
		}
		if r.Operator == selection.NotEquals || r.Value == "" || resource != "" && r.Value != resource {
			return nil, apierrors.NewBadRequest("field selector: resource selects one resource, such as resource=deployments.apps")
		}
		resource = r.Value
	}
	if resource == "" {
		return all.Permissions(ctx)
	}
	return all.PermissionsOf(ctx, resource)
}

func namesMatch(selector fields.Selector, name string) bool {
	for _, r := range selector.Requirements() {
		if r.Field == policycodec.SelectName && (r.Value == name) == (r.Operator == selection.NotEquals) {
			return false
		}
	}
	return true
}

// permissionObjects gathers the entries of each permission, by name.
func permissionObjects(entries []fieldperm.Entry) []authz.Permission {
	at := map[string]int{}
	var all []authz.Permission
	for _, e := range entries {
		i, known := at[e.Permission]
		if !known {
			i = len(all)
			at[e.Permission] = i
			all = append(all, authz.Permission{ObjectMeta: metav1.ObjectMeta{Name: permissionObjectName(e.Permission)}, Permission: e.Permission})
		}
		p := &all[i]
		if !slices.Contains(p.Verbs, e.Verb) {
			p.Verbs = append(p.Verbs, e.Verb)
		}
		p.Fields = append(p.Fields, authz.PermissionField{
			Resource: e.Resource, Field: e.Field, Verb: e.Verb, Source: e.Source,
			Exclusive: e.Exclusive, ExclusiveWhen: e.ExclusiveWhen, Broken: e.Broken,
		})
	}
	slices.SortFunc(all, func(a, b authz.Permission) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// permissionObjectName makes a name that can stand in a path. A valid name of a permission has one slash at most and no
// colon. One that is not valid, which only a broken declaration has, could be anything: it gets a name that no valid
// one has.
func permissionObjectName(permission string) string {
	if fieldperm.ValidateName(permission) != nil {
		sum := sha256.Sum256([]byte(permission))
		return "invalid:" + hex.EncodeToString(sum[:8])
	}
	return strings.Replace(permission, "/", ":", 1)
}
