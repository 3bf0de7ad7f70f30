package game

import (
	"reflect"
	"slices"
	"strings"
)

// holds reports whether the condition of a rule lets it reach the objects. What cannot be known is taken the way in
// which less is reported.
func holds(r *Rule, q question) bool {
	kind, arg, _ := strings.Cut(r.If, ":")
	unknown := !r.Deny
	switch kind {
	case "":
		return true
	case "has": // of the stored object
		if q.Old == nil {
			return unknown && q.Verb != "create"
		}
		return HasLabel(q.Old, arg)
	case "where":
		if q.Old == nil && q.New == nil {
			return unknown
		}
		if r.Deny {
			return HasLabel(q.Old, arg) || HasLabel(q.New, arg)
		}
		return (q.Old == nil || HasLabel(q.Old, arg)) && (q.New == nil || HasLabel(q.New, arg))
	case "named":
		if q.Name == "" {
			return unknown
		}
		return Bare(q.Name) == arg
	case "only":
		if q.Old == nil || q.New == nil {
			return unknown
		}
		return !slices.ContainsFunc(Changed(q.Old, q.New), func(path string) bool { return !within(path, arg) })
	}
	return unknown
}

func within(path, of string) bool {
	return path == of || strings.HasPrefix(path, of+".") || strings.HasPrefix(path, of+"[")
}

// HasLabel reports whether an object has a label.
func HasLabel(object map[string]any, key string) bool {
	_, ok := Dig(object, "metadata", "labels", key).(string)
	return ok
}

// Dig walks into an object; nil if there is nothing.
func Dig(in map[string]any, path ...string) any {
	var at any = in
	for _, name := range path {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[name]
	}
	return at
}

// serverOwned is what changes by itself.
var serverOwned = []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "deletionTimestamp", "deletionGracePeriodSeconds", "name", "namespace", "selfLink", "generateName"}

// Changed lists what differs between two versions: labels and annotations by key, the rest of the metadata and
// everything else by field.
func Changed(before, after map[string]any) []string {
	var out []string
	each := func(prefix, suffix string, a, b map[string]any, skip []string) {
		for key := range union(a, b) {
			if !slices.Contains(skip, key) && !reflect.DeepEqual(a[key], b[key]) && !(nothing(a[key]) && nothing(b[key])) {
				out = append(out, prefix+key+suffix)
			}
		}
	}
	metaA, metaB := table(before["metadata"]), table(after["metadata"])
	each(".metadata.labels[", "]", table(metaA["labels"]), table(metaB["labels"]), nil)
	each(".metadata.annotations[", "]", table(metaA["annotations"]), table(metaB["annotations"]), nil)
	each(".metadata.", "", metaA, metaB, append([]string{"labels", "annotations"}, serverOwned...))
	each(".", "", before, after, []string{"metadata", "apiVersion", "kind"})
	slices.Sort(out)
	return out
}

// nothing reports whether a value is as if it were not there: a create may leave it to the server.
func nothing(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

func table(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func union(a, b map[string]any) map[string]bool {
	keys := map[string]bool{}
	for k := range a {
		keys[k] = true
	}
	for k := range b {
		keys[k] = true
	}
	return keys
}

// permissions are the verbs that cover a changed field, from general to specific (FP-2).
func permissions(path string) []string {
	key := func(of string) string {
		k := strings.TrimSuffix(strings.TrimPrefix(path, of+"["), "]")
		prefix, _, _ := strings.Cut(k, "/")
		return prefix
	}
	switch {
	case strings.HasPrefix(path, ".metadata.labels["):
		return []string{"granular:metadata", "granular:labels", "granular:label(" + key(".metadata.labels") + ")"}
	case strings.HasPrefix(path, ".metadata.annotations["):
		return []string{"granular:metadata", "granular:annotations", "granular:annotation(" + key(".metadata.annotations") + ")"}
	case path == ".metadata.finalizers":
		return []string{"granular:metadata", "granular:finalizers", "granular:finalizer(keep.example.com)"}
	case path == ".metadata.ownerReferences":
		return []string{"granular:metadata", "granular:ownerReferences"}
	case path == ".spec":
		return []string{"granular:specification", "granular:replicas", "granular:nodeAssignment"}
	case path == ".status":
		return []string{"granular:status", "granular:conditions"}
	}
	return []string{"granular:metadata"}
}

// Granular reports whether single fields are what a write may change (FP-6).
func (o *Oracle) Granular(a Ask) bool {
	general := a.Verb
	a.Verb = "granular"
	if o.Decide(Ask{User: a.User, Groups: a.Groups, Verb: general, Resource: a.Resource, NS: a.NS, Name: a.Name, Old: a.Old, New: a.New}) == Deny || o.Decide(a) != Allow {
		return false
	}
	for _, path := range Changed(a.Old, a.New) {
		if !slices.ContainsFunc(append(permissions(path), o.declared(a.Resource, path)...), func(verb string) bool {
			ask := a
			ask.Verb = verb
			return o.Decide(ask) == Allow
		}) {
			return false
		}
	}
	return true
}

// declared are the verbs of field permissions of the case for a field.
func (o *Oracle) declared(resource, path string) []string {
	var out []string
	for _, f := range o.Case.Fields {
		if f.Covers(resource) && (f.Path == path || strings.HasPrefix(f.Path, path+".")) {
			out = append(out, "granular:"+f.Permission)
		}
	}
	return out
}

// Covers reports whether a field permission is about a resource.
func (f Field) Covers(resource string) bool {
	resource, _, _ = strings.Cut(resource, "/")
	return slices.Contains(f.Resources, "*") || slices.Contains(f.Resources, resource)
}

// Value is what an object has in the field.
func (f Field) Value(object map[string]any) any {
	if key, ok := strings.CutPrefix(f.Path, ".metadata.labels["); ok {
		return Dig(object, "metadata", "labels", strings.TrimSuffix(key, "]"))
	}
	return Dig(object, strings.Split(strings.TrimPrefix(f.Path, "."), ".")...)
}

// Guards reports whether going from one value to another takes membership (PA-2).
func (p Protected) Guards(before, after any) bool {
	covered := func(v any) bool {
		text, ok := v.(string)
		return ok && (len(p.Values) == 0 || slices.Contains(p.Values, text))
	}
	return before != after && (covered(before) || covered(after))
}

// Value is what an object has in the attribute.
func (p Protected) Value(object map[string]any) any {
	return Dig(object, "metadata", map[string]string{"Label": "labels", "Annotation": "annotations"}[p.Kind], p.Attribute)
}
