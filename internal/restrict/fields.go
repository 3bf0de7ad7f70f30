package restrict

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"proviso.dev/proviso/internal/expr"
	"proviso.dev/proviso/internal/fieldperm"
)

// fieldsMutable holds when nothing changes but the given fields. It compares the stored object with the new one without
// them and without what the server owns, so that whatever it does not know counts as a change. A create changes
// everything.
type fieldsMutable struct {
	paths      []string
	steps      [][]string
	apiVersion string
}

// serverOwned never needs a permission.
var serverOwned = [][]string{
	{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "generateName"}, {"metadata", "namespace"}, {"metadata", "uid"},
	{"metadata", "resourceVersion"}, {"metadata", "generation"}, {"metadata", "creationTimestamp"}, {"metadata", "managedFields"},
	{"metadata", "selfLink"}, {"metadata", "deletionTimestamp"}, {"metadata", "deletionGracePeriodSeconds"},
}

func newFieldsMutable(paths []string, apiVersion string, at *field.Path) (expr.Condition, *field.Error) {
	c := &fieldsMutable{paths: paths, apiVersion: apiVersion}
	for i, p := range paths {
		steps, err := parsePath(p)
		if err != nil {
			return nil, field.Invalid(at.Index(i), p, err.Error())
		}
		c.steps = append(c.steps, steps)
	}
	return c, nil
}

// parsePath reads .metadata.labels, .metadata.labels[example.com/x] and the bare labels and annotations of the seed.
func parsePath(p string) ([]string, error) {
	if !strings.HasPrefix(p, ".") {
		switch p {
		case "labels", "annotations", "finalizers", "ownerReferences":
			return []string{"metadata", p}, nil
		}
		return nil, fmt.Errorf("want a field path that begins with a dot, such as .spec.replicas")
	}
	var steps []string
	rest := p
	for rest != "" {
		switch rest[0] {
		case '.':
			end := strings.IndexAny(rest[1:], ".[")
			if end < 0 {
				end = len(rest) - 1
			}
			if end == 0 {
				return nil, fmt.Errorf("a field name is missing after %q", p[:len(p)-len(rest)+1])
			}
			steps, rest = append(steps, rest[1:1+end]), rest[1+end:]
		case '[':
			end := strings.IndexByte(rest, ']')
			if end <= 1 {
				return nil, fmt.Errorf("want a key between brackets: [key]")
			}
			steps, rest = append(steps, rest[1:end]), rest[end+1:]
		default:
			return nil, fmt.Errorf("want . or [ after %q", p[:len(p)-len(rest)])
		}
	}
	return steps, nil
}

func (c *fieldsMutable) Type() string { return Type }

// Decide implements expr.Condition. A rule about what may change allows no reading.
func (c *fieldsMutable) Decide(req *expr.Request, effect expr.Effect) expr.Finding {
	if effect == expr.Allow && (req.Verb == "get" || req.Verb == "list" || req.Verb == "watch") {
		return expr.Decided(false)
	}
	return expr.Undecided(c, req, effect)
}

func (c *fieldsMutable) Evaluate(_ context.Context, _ *expr.Request, effect expr.Effect, data *expr.Data) (bool, error) {
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
	if !reflect.DeepEqual(without(before, c.steps), without(after, c.steps)) {
		return false, nil
	}
	if effect == expr.Deny {
		return true, nil // nobody gets out of a deny by changing managers besides
	}
	return c.keepsManagers(oldObject, newObject)
}

// keepsManagers tells whether nothing changes who manages another field, since that decides what the next apply of
// others removes.
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
		if !slices.ContainsFunc(c.steps, func(steps []string) bool {
			n := min(len(steps), len(path))
			return slices.Equal(steps[:n], path[:n])
		}) {
			return false, nil
		}
	}
	return true, nil
}

func (c *fieldsMutable) Text(*expr.Request, expr.Effect) string {
	return "only these fields change: " + strings.Join(c.paths, ", ")
}

// without returns the object less the given fields and the server's own. The input is not changed.
func without(object map[string]any, paths [][]string) map[string]any {
	for _, p := range serverOwned {
		object = remove(object, p)
	}
	for _, p := range paths {
		object = remove(object, p)
	}
	return object
}

// remove takes a field out, copying the maps on the way to it. A map that is empty afterwards goes too: whether it is
// missing or empty says nothing.
func remove(m map[string]any, path []string) map[string]any {
	value, ok := m[path[0]]
	if !ok {
		return m
	}
	m = maps.Clone(m)
	if len(path) == 1 {
		delete(m, path[0])
		return m
	}
	child, ok := value.(map[string]any)
	if !ok {
		return m
	}
	if child = remove(child, path[1:]); len(child) == 0 {
		delete(m, path[0])
	} else {
		m[path[0]] = child
	}
	return m
}
