package observed

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"proviso.dev/proviso/internal/analysis/auditlog"
	"proviso.dev/proviso/internal/analysis/suggest"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/hosts/offline"
)

// bodies remembers the objects of a log, to tell what requests have changed.
type bodies struct {
	host  *offline.Host
	table *fieldperm.Table
	types managedfields.TypeConverter
	// seen are the last states of objects, and order is which of them came first.
	seen  map[objectKey][]map[string]any
	order []objectKey
}

type objectKey struct{ group, resource, namespace, name string }

const (
	// maxStates is how many states of an object are remembered, and maxRemembered of how many objects.
	maxStates     = 4
	maxRemembered = 20_000
)

func newBodies(host *offline.Host) *bodies {
	return &bodies{host: host, table: host.Snapshot().Fields, types: applyconfigurations.NewTypeConverter(scheme.Scheme), seen: map[objectKey][]map[string]any{}}
}

// parsed is a recorded body; nil if it is none.
func parsed(body []byte) map[string]any {
	var object map[string]any
	if body == nil || utiljson.Unmarshal(body, &object) != nil || object["kind"] == "Status" {
		return nil
	}
	return object
}

// answer is what a request was answered with, as far as it is an object of its kind: one, or a list of them.
func (b *bodies) answer(r *auditlog.Request) (one map[string]any, list []map[string]any) {
	if r.Level != "RequestResponse" || !r.IsResource() || r.Code < 200 || r.Code > 299 || r.Subresource != "" && r.Subresource != "status" {
		return nil, nil
	}
	object := parsed(r.Answer)
	if items, ok := object["items"].([]any); ok && r.Verb == "list" {
		kind, _ := object["kind"].(string)
		for _, item := range items {
			if content, ok := item.(map[string]any); ok {
				if _, has := content["kind"]; !has {
					content["kind"], content["apiVersion"] = strings.TrimSuffix(kind, "List"), object["apiVersion"]
				}
				list = append(list, content)
			}
		}
		return nil, list
	}
	return object, nil
}

// before is the object as it was before a write that has left it as it is now: the state that an update names by its
// resource version, the last that was seen for a patch. Nil if that is not known.
func (b *bodies) before(r *auditlog.Request, now map[string]any) (found map[string]any) {
	version := versionOf(parsed(r.Object))
	for _, o := range b.seen[keyOf(r, now)] {
		switch {
		case r.Verb == "update" && version != "" && versionOf(o) == version:
			return o
		case r.Verb == "patch" && number(o) <= number(now) && (found == nil || number(o) >= number(found)):
			found = o
		}
	}
	return found
}

// number is the resource version, which counts.
func number(object map[string]any) uint64 {
	n, _ := strconv.ParseUint(versionOf(object), 10, 64)
	return n
}

func keyOf(r *auditlog.Request, object map[string]any) objectKey {
	u := unstructured.Unstructured{Object: object}
	return objectKey{r.Group, r.Resource, u.GetNamespace(), u.GetName()}
}

func versionOf(object map[string]any) string {
	return (&unstructured.Unstructured{Object: object}).GetResourceVersion()
}

// remember keeps what a request was answered with.
func (b *bodies) remember(r *auditlog.Request, objects ...map[string]any) {
	for _, object := range objects {
		key := keyOf(r, object)
		if key.name == "" || versionOf(object) == "" {
			continue
		}
		states := b.seen[key]
		if states == nil {
			if b.order = append(b.order, key); len(b.order) > maxRemembered {
				delete(b.seen, b.order[0])
				b.order = b.order[1:]
			}
		}
		if len(states) > 0 && versionOf(states[len(states)-1]) == versionOf(object) {
			continue
		}
		if states = append(states, object); len(states) > maxStates {
			states = states[1:]
		}
		b.seen[key] = states
	}
}

// write is what a request changed, as permissions for fields see it. It is not known of what does not show its object
// before and after; of an apply, which also changes who manages what; and of what is seen in another version than field
// permissions are decided in.
func (b *bodies) write(r *auditlog.Request, old, now map[string]any) (w suggest.Write, known bool) {
	if b.table == nil || old == nil || now == nil || r.Group == "events.k8s.io" {
		return w, false
	}
	kind := (&unstructured.Unstructured{Object: now}).GroupVersionKind()
	served := b.host.Snapshot().Served
	resource := schema.GroupResource{Group: r.Group, Resource: r.Resource}
	if served.OwnKind(resource) != kind.Kind || served.PreferredVersion(kind.GroupKind()) != kind.Version || (&unstructured.Unstructured{Object: old}).GroupVersionKind() != kind {
		return w, false
	}
	pairs := [][2]map[string]any{{old, now}}
	if r.Verb == "patch" {
		without, ok := untouched(now, r.Object)
		if !ok {
			return w, false
		}
		pairs = append(pairs, [2]map[string]any{without, now})
	}
	target := fieldperm.Target{Resource: fieldperm.Resource{Group: r.Group, Resource: r.Resource}, Subresource: r.Subresource, Version: kind.Version}
	var requests []fieldperm.Request
	for _, pair := range pairs {
		before, err := b.typed(pair[0])
		if err != nil {
			return w, false
		}
		after, err := b.typed(pair[1])
		if err != nil {
			return w, false
		}
		requests = append(requests, fieldperm.Request{Target: target, Mode: fieldperm.Granular, Objects: func() (*typed.TypedValue, *typed.TypedValue, error) { return before, after, nil }})
	}
	w.Allowed = func(has func(verb string) bool) bool {
		for _, q := range requests {
			q.Check = func(verb string) (bool, error) { return has(verb), nil }
			if !b.table.Decide(q).Allowed() {
				return false
			}
		}
		return true
	}
	w.Verbs, known = b.needs(requests)
	return w, known
}

// needs asks the table again and again which permission is lacking, until none is.
func (b *bodies) needs(requests []fieldperm.Request) ([]string, bool) {
	has := map[string]bool{}
	for _, q := range requests {
		q.Check = func(verb string) (bool, error) { return has[verb], nil }
		for range fieldperm.MaxChecks {
			result := b.table.Decide(q)
			if result.Allowed() {
				break
			}
			if result.Missing == nil || result.Missing.Permission == "" {
				return nil, false // nobody can be given this field alone
			}
			for _, verb := range strings.Split(result.Missing.Permission, " and ") {
				has[verb] = true
			}
		}
		if !b.table.Decide(q).Allowed() {
			return nil, false
		}
	}
	return slices.Sorted(maps.Keys(has)), true
}

// typed is an object with the schema of its kind, or without one.
func (b *bodies) typed(object map[string]any) (*typed.TypedValue, error) {
	u := &unstructured.Unstructured{Object: object}
	if scheme.Scheme.Recognizes(u.GroupVersionKind()) {
		return b.types.ObjectToTyped(u)
	}
	return (&fieldperm.Schemas{}).ObjectToTyped(u)
}

// untouched is an object without the fields that a patch names: the patch takes the right to them, also where it
// changed nothing. False if the patch cannot be read as one.
func untouched(now map[string]any, patch []byte) (map[string]any, bool) {
	out := (&unstructured.Unstructured{Object: now}).DeepCopy().Object
	var merge map[string]any
	if utiljson.Unmarshal(patch, &merge) == nil {
		if merge["apiVersion"] != nil && merge["kind"] != nil {
			return nil, false // an apply
		}
		return out, withoutPatched(out, merge, nil)
	}
	var steps []struct{ Op, Path, From string }
	if json.Unmarshal(patch, &steps) != nil {
		return nil, false
	}
	for _, s := range steps {
		for _, pointer := range []string{s.Path, s.From} {
			if pointer == "" || s.Op == "test" {
				continue
			}
			var path []string
			for _, part := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
				path = append(path, strings.NewReplacer("~1", "/", "~0", "~").Replace(part))
			}
			if !withoutField(out, path) {
				return nil, false
			}
		}
	}
	return out, true
}

// withoutPatched takes out the fields of a merge patch.
func withoutPatched(object, patch map[string]any, path []string) bool {
	for key, value := range patch {
		if strings.HasPrefix(key, "$setElementOrder/") {
			continue
		}
		if strings.HasPrefix(key, "$") {
			return false // replaces or deletes what it does not name
		}
		at := append(slices.Clone(path), key)
		if slices.Equal(at, []string{"metadata", "resourceVersion"}) || slices.Equal(at, []string{"metadata", "uid"}) {
			continue
		}
		if inside, ok := value.(map[string]any); ok {
			if _, has, err := unstructured.NestedMap(object, at...); has && err == nil {
				if !withoutPatched(object, inside, at) {
					return false
				}
				continue
			}
		}
		if !withoutField(object, at) {
			return false
		}
	}
	return true
}

// withoutField takes a field out of an object. A list stays: which elements have changed, its states tell. What is not
// there any more was a label or an annotation, or is not known.
func withoutField(object map[string]any, path []string) bool {
	for i, step := range path {
		if _, err := strconv.Atoi(step); err == nil || step == "-" {
			path = path[:i]
			break
		}
	}
	value, found, err := unstructured.NestedFieldNoCopy(object, path...)
	switch {
	case err != nil || len(path) == 0:
		return false
	case found:
		if _, list := value.([]any); !list {
			unstructured.RemoveNestedField(object, path...)
		}
		return true
	case len(path) == 3 && path[0] == "metadata" && (path[1] == "labels" || path[1] == "annotations"):
		return unstructured.SetNestedField(object, "was there", path...) == nil
	}
	return false
}
