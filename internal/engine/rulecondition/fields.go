package rulecondition

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/verbs"
)

// fieldsMutable holds when only the given fields and fields that the server owns change. A create changes everything.
type fieldsMutable struct {
	paths      []string
	fields     []fieldperm.Path
	apiVersion string
}

func newFieldsMutable(paths []string, apiVersion string, at *field.Path) (expr.Condition, *field.Error) {
	c := &fieldsMutable{paths: paths, apiVersion: apiVersion}
	for i, p := range paths {
		path, err := parsePath(p)
		if err != nil {
			return nil, field.Invalid(at.Index(i), p, err.Error())
		}
		c.fields = append(c.fields, path)
	}
	return c, nil
}

// parsePath reads the paths of field permissions, and the bare labels and annotations of the seed. A path names one
// field: elements of a list are not distinguished here.
func parsePath(p string) (fieldperm.Path, error) {
	switch p {
	case "labels", "annotations", "finalizers", "ownerReferences":
		return fieldperm.Path{fieldperm.Field("metadata"), fieldperm.Field(p)}, nil
	}
	path, err := fieldperm.ParsePath(p)
	if err != nil {
		return nil, err
	}
	if slices.Contains(path, fieldperm.Any()) {
		return nil, fmt.Errorf("field %q must name one field: write a key between the brackets", p)
	}
	return path, nil
}

func (c *fieldsMutable) Type() string { return Type }

// Decide implements expr.Condition. A rule about what may change does not allow reads.
func (c *fieldsMutable) Decide(req *expr.Request, effect expr.Effect) expr.Finding {
	if effect == expr.Allow && verbs.IsRead(req.Verb) {
		return expr.Decided(false)
	}
	return expr.Undecided(c, req, effect)
}

func (c *fieldsMutable) Evaluate(_ context.Context, req *expr.Request, effect expr.Effect, data *expr.Data) (bool, error) {
	if !data.OwnKind() {
		return false, errOtherKind
	}
	newObject, err := data.Object(c.apiVersion)
	if err != nil {
		return false, err
	}
	oldObject, err := data.OldObject(c.apiVersion)
	if err != nil {
		return false, err
	}
	if newObject == nil || oldObject == nil {
		return false, nil // a create sets everything, a delete removes everything
	}
	before, err := toMap(oldObject)
	if err != nil {
		return false, err
	}
	after, err := toMap(newObject)
	if err != nil {
		return false, err
	}
	changed, err := fieldperm.Changed(before, after)
	if err != nil {
		return false, err
	}
	if !c.cover(changed) {
		return false, nil
	}
	if effect == expr.Deny {
		return true, nil // changing managers as well, or what a controller overwrites, must not evade a deny
	}
	if !c.cover(fieldperm.Overwritten(fieldperm.Resource{Group: req.APIGroup, Resource: req.Resource}, changed)) {
		return false, nil
	}
	return c.keepsManagers(oldObject, newObject)
}

func (c *fieldsMutable) cover(changed []fieldperm.Path) bool {
	for _, path := range changed {
		if !slices.ContainsFunc(c.fields, func(f fieldperm.Path) bool { return f.Covers(path) }) {
			return false
		}
	}
	return true
}

// keepsManagers reports whether the managers of all other fields stay the same, since they decide what the next apply
// removes.
func (c *fieldsMutable) keepsManagers(oldObject, newObject runtime.Object) (bool, error) {
	before, err := meta.Accessor(oldObject)
	if err != nil {
		return false, err
	}
	after, err := meta.Accessor(newObject)
	if err != nil {
		return false, err
	}
	changed, err := fieldperm.ManagedChanges(before.GetManagedFields(), after.GetManagedFields())
	if err != nil {
		return false, err
	}
	for _, path := range changed {
		if !slices.ContainsFunc(c.fields, func(f fieldperm.Path) bool { return f.Covers(path) || path.Covers(f) }) {
			return false, nil
		}
	}
	return true, nil
}

func (c *fieldsMutable) Text(*expr.Request, expr.Effect) string {
	return "only these fields change: " + strings.Join(c.paths, ", ")
}
