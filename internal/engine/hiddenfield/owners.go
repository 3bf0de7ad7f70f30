package hiddenfield

import (
	"bytes"

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

var markPath = fieldpath.MakePathOrDie("metadata", "annotations", policyv1alpha1.AnnotationHidden)

// restoreManagers restores the managers of the hidden fields. The annotation that marks them gets no manager.
func (s Set) restoreManagers(old, new []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	hidden := map[manager]*fieldpath.Set{}
	var order []metav1.ManagedFieldsEntry
	for _, e := range old {
		if _, part := s.everything().split(fieldsIn(e)); !part.Empty() {
			hidden[managerOf(e)] = part
			order = append(order, e)
		}
	}
	var out []metav1.ManagedFieldsEntry
	for _, e := range new {
		if e.FieldsV1 == nil {
			out = append(out, e)
			continue
		}
		all := fieldsIn(e)
		shown, _ := s.everything().split(all)
		shown = shown.Difference(fieldpath.NewSet(markPath))
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
// or remove it: what managers had before, and have after it.
func (s Set) TakenOver(old, new []metav1.ManagedFieldsEntry) bool {
	for _, f := range s {
		one := Set{f}.everything()
		before, after := map[manager]*fieldpath.Set{}, map[manager]*fieldpath.Set{}
		for _, e := range old {
			_, before[managerOf(e)] = one.split(fieldsIn(e))
		}
		for _, e := range new {
			_, after[managerOf(e)] = one.split(fieldsIn(e))
		}
		if loses(before, after) || shares(before, after) {
			return true
		}
	}
	return false
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
		for _, e := range entries {
			if e.Manager != name || e.Operation != metav1.ManagedFieldsOperationApply {
				continue
			}
			if _, part := (Set{f}).everything().split(fieldsIn(e)); !part.Empty() {
				all = append(all, f)
				break
			}
		}
	}
	return all
}
