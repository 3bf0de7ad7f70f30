package hiddenfield

import (
	"bytes"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// manager identifies an entry of managed fields.
type manager struct {
	name, version, subresource string
	operation                  metav1.ManagedFieldsOperationType
}

func managerOf(e metav1.ManagedFieldsEntry) manager {
	return manager{e.Manager, e.APIVersion, e.Subresource, e.Operation}
}

func fieldsIn(e metav1.ManagedFieldsEntry) *fieldpath.Set {
	set := fieldpath.NewSet()
	if e.FieldsV1 != nil && set.FromJSON(bytes.NewReader(e.FieldsV1.Raw)) != nil {
		return fieldpath.NewSet()
	}
	return set
}

// appliedSet is the annotation in which kubectl keeps what it applied.
var appliedSet = fieldpath.NewSet(fieldpath.MakePathOrDie("metadata", "annotations", lastApplied))

var markPath = fieldpath.MakePathOrDie("metadata", "annotations", policyv1alpha1.AnnotationHidden)

// restoreManagers restores the managers of the hidden fields and, if kept is true, of what kubectl applied. The
// annotation that marks hidden fields gets no manager.
func (s Set) restoreManagers(old, new []metav1.ManagedFieldsEntry, kept bool) []metav1.ManagedFieldsEntry {
	places, mine := s.everything().places(), fieldpath.NewSet(markPath)
	if kept {
		mine = mine.Union(appliedSet)
	}
	hidden, times := map[manager]*fieldpath.Set{}, map[manager]*metav1.Time{}
	var order []metav1.ManagedFieldsEntry
	for _, e := range old {
		times[managerOf(e)] = e.Time
		all := fieldsIn(e)
		_, part := splitAt(all, places)
		if kept {
			part = part.Union(all.Intersection(appliedSet))
		}
		if !part.Empty() {
			hidden[managerOf(e)] = part
			order = append(order, e)
		}
	}
	var out []metav1.ManagedFieldsEntry
	for _, e := range new {
		if was := times[managerOf(e)]; kept && was != nil {
			e.Time = was // it may be the time at which the kept annotation was written
		}
		if e.FieldsV1 == nil {
			out = append(out, e)
			continue
		}
		all := fieldsIn(e)
		shown, _ := splitAt(all, places)
		shown = shown.Difference(mine)
		if part := hidden[managerOf(e)]; part != nil {
			shown = shown.Union(part)
			delete(hidden, managerOf(e))
		}
		out = appendFields(out, e, all, shown)
	}
	for _, e := range order {
		if part := hidden[managerOf(e)]; part != nil {
			out = appendFields(out, e, nil, part)
		}
	}
	return out
}

// appendFields appends an entry with other fields than it had, unless there are none.
func appendFields(out []metav1.ManagedFieldsEntry, e metav1.ManagedFieldsEntry, had, now *fieldpath.Set) []metav1.ManagedFieldsEntry {
	if had != nil && had.Equals(now) {
		return append(out, e)
	}
	if now.Empty() {
		return out
	}
	text, err := now.ToJSON()
	if err != nil {
		return append(out, e)
	}
	e.FieldsV1 = &metav1.FieldsV1{Raw: text}
	return append(out, e)
}

// everything returns the same fields with their keys hidden.
func (s Set) everything() Set {
	all := make(Set, len(s))
	for i, f := range s {
		f.Keys = false
		all[i] = f
	}
	return all
}

// TakenOver reports whether a server-side apply would take over a hidden field from another manager, share it with one,
// or remove it: what managers had before, and have after it. What kubectl applied must not be taken over or shared,
// either: whether sharing succeeds depends on the stored value.
func (s Set) TakenOver(old, new []metav1.ManagedFieldsEntry) bool {
	for _, f := range s {
		places := Set{f}.everything().places()
		there := func(all *fieldpath.Set) *fieldpath.Set {
			_, part := splitAt(all, places)
			return part
		}
		before, after := owned(old, there), owned(new, there)
		if loses(before, after) || shares(before, after) {
			return true
		}
	}
	return len(s) > 0 && shares(owned(old, appliedSet.Intersection), owned(new, appliedSet.Intersection))
}

// owned returns some of the managed fields, by their managers.
func owned(entries []metav1.ManagedFieldsEntry, some func(*fieldpath.Set) *fieldpath.Set) map[manager]*fieldpath.Set {
	all := map[manager]*fieldpath.Set{}
	for _, e := range entries {
		all[managerOf(e)] = some(fieldsIn(e))
	}
	return all
}

func loses(before, after map[manager]*fieldpath.Set) bool {
	for m, had := range before {
		if has := after[m]; !had.Empty() && (has == nil || !had.Difference(has).Empty()) {
			return true
		}
	}
	return false
}

// shares reports whether a manager has gained a field that another one had.
func shares(before, after map[manager]*fieldpath.Set) bool {
	for m, has := range after {
		gained := has
		if had := before[m]; had != nil {
			gained = has.Difference(had)
		}
		for other, had := range before {
			if other != m && touches(gained, had) {
				return true
			}
		}
	}
	return false
}

// touches reports whether a path of one set leads to a path of the other.
func touches(a, b *fieldpath.Set) bool {
	found := false
	a.Iterate(func(p fieldpath.Path) {
		p = p.Copy()
		b.Iterate(func(q fieldpath.Path) {
			n := min(len(p), len(q))
			found = found || p[:n].Equals(q[:n])
		})
	})
	return found
}

// AppliedBy lists the hidden fields that a manager has applied.
func (s Set) AppliedBy(name string, entries []metav1.ManagedFieldsEntry) Set {
	var all Set
	for _, f := range s {
		places := Set{f}.everything().places()
		applied := slices.ContainsFunc(entries, func(e metav1.ManagedFieldsEntry) bool {
			_, part := splitAt(fieldsIn(e), places)
			return isApplyOf(name, e) && !part.Empty()
		})
		if applied {
			all = append(all, f)
		}
	}
	return all
}

func isApplyOf(name string, e metav1.ManagedFieldsEntry) bool {
	return e.Manager == name && e.Operation == metav1.ManagedFieldsOperationApply
}
