package registry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/registry/rest"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/fieldperm"
)

// Permissions says which field permissions are in effect. An error that is an API status is the answer to the caller.
type Permissions interface {
	// Permissions lists every permission with the fields it guards.
	Permissions(ctx context.Context) ([]fieldperm.Entry, error)
	// PermissionsOf lists those that guard a field of one resource, which is a plural, resource.group or kind.
	PermissionsOf(ctx context.Context, resource string) ([]fieldperm.Entry, error)
}

const (
	selectName     = "metadata.name"
	selectResource = "resource"
)

// permissions serves the table of field permissions, for reading (FP-12). Nothing is stored, and there is nothing to
// watch: what the table is made of can be watched.
type permissions struct {
	table Permissions
}

var (
	_ rest.Scoper               = &permissions{}
	_ rest.Getter               = &permissions{}
	_ rest.Lister               = &permissions{}
	_ rest.SingularNameProvider = &permissions{}
	_ rest.ShortNamesProvider   = &permissions{}
)

// New returns an empty permission.
func (*permissions) New() runtime.Object { return &authz.Permission{} }

// NewList returns an empty list.
func (*permissions) NewList() runtime.Object { return &authz.PermissionList{} }

// Destroy does nothing.
func (*permissions) Destroy() {}

// NamespaceScoped is false: permissions are the same everywhere.
func (*permissions) NamespaceScoped() bool { return false }

// GetSingularName is the singular of the resource.
func (*permissions) GetSingularName() string { return "permission" }

// ShortNames are what a user can type instead of the plural.
func (*permissions) ShortNames() []string { return []string{"perm"} }

// Get reads one permission with all the fields it guards.
func (s *permissions) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	entries, err := s.table.Permissions(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range permissionObjects(entries) {
		if p.Name == name {
			return &p, nil
		}
	}
	return nil, notFound(authz.Resource("permissions"), name)
}

// List reads all permissions, or with the field selector resource=R those that guard a field of R. It always returns
// all of them: a limit is a request, not a promise.
func (s *permissions) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	label, selector := labels.Everything(), fields.Everything()
	if options != nil {
		if options.Continue != "" {
			return nil, apierrors.NewBadRequest("continue: permissions are listed as a whole; leave it out")
		}
		if options.LabelSelector != nil {
			label = options.LabelSelector
		}
		if options.FieldSelector != nil {
			selector = options.FieldSelector
		}
	}
	list := &authz.PermissionList{Items: []authz.Permission{}}
	entries, err := s.selected(ctx, selector)
	if err != nil {
		return nil, err
	}
	for _, p := range permissionObjects(entries) {
		if label.Matches(labels.Set(p.Labels)) && namesMatch(selector, p.Name) {
			list.Items = append(list.Items, p)
		}
	}
	return list, nil
}

// selected reads the entries of the one resource that the selector names, or all.
func (s *permissions) selected(ctx context.Context, selector fields.Selector) ([]fieldperm.Entry, error) {
	resource := ""
	for _, r := range selector.Requirements() {
		if r.Field != selectResource {
			continue
		}
		if r.Operator == selection.NotEquals || r.Value == "" || resource != "" && r.Value != resource {
			return nil, apierrors.NewBadRequest("field selector: resource selects one resource, such as resource=deployments.apps")
		}
		resource = r.Value
	}
	if resource == "" {
		return s.table.Permissions(ctx)
	}
	return s.table.PermissionsOf(ctx, resource)
}

func namesMatch(selector fields.Selector, name string) bool {
	for _, r := range selector.Requirements() {
		if r.Field == selectName && (r.Value == name) == (r.Operator == selection.NotEquals) {
			return false
		}
	}
	return true
}

// permissionSelectors tells which field selectors there are; every other one is the caller's mistake.
func permissionSelectors(label, value string) (string, string, error) {
	switch label {
	case selectName, selectResource:
		return label, value, nil
	}
	return "", "", fmt.Errorf("field selector %q: permissions are selected by %s or %s, such as resource=deployments.apps", label, selectResource, selectName)
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

// ConvertToTable prints permissions.
func (*permissions) ConvertToTable(ctx context.Context, object, tableOptions runtime.Object) (*metav1.Table, error) {
	return table[*authz.Permission]{columns: permissionColumns(), resource: authz.Resource("permissions"), ageless: true}.ConvertToTable(ctx, object, tableOptions)
}
