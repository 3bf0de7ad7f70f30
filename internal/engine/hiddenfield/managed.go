package hiddenfield

import (
	"bytes"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
)

// matches reports whether a managed field is at a hidden field or below it. One that is managed as a whole, such as an
// atomic list, also matches if the hidden field is in it.
func matches(at fieldperm.Path, managed fieldpath.Path, whole func(fieldpath.Path) bool) bool {
	for i, e := range at[:min(len(at), len(managed))] {
		name := managed[i].FieldName
		switch {
		case e.Any:
		case name != nil && *name != e.Name:
			return false
		case name == nil && !e.Bracket:
			return false
		}
	}
	return len(managed) >= len(at) || whole(managed)
}

// isWhole reports whether nothing below a path is in the set: its manager manages everything in it.
func isWhole(all *fieldpath.Set, p fieldpath.Path) bool {
	for _, e := range p {
		child, ok := all.Children.Get(e)
		if !ok {
			return true
		}
		all = child
	}
	return all.Empty()
}

// places are where managers may have the fields, except those of which the keys are kept: they are shown. Server-side
// apply records a field as it was spelled.
func (s Set) places() []fieldperm.Path {
	var all []fieldperm.Path
	for _, f := range s {
		if !f.Keys {
			all = append(all, spellings(f.Field)...)
		}
	}
	return all
}

// splitAt divides a set of managed fields into those at some places, or in them, and the others.
func splitAt(all *fieldpath.Set, places []fieldperm.Path) (others, within *fieldpath.Set) {
	others, within = fieldpath.NewSet(), fieldpath.NewSet()
	all.Iterate(func(p fieldpath.Path) {
		for _, at := range places {
			if matches(at, p, func(p fieldpath.Path) bool { return isWhole(all, p) }) {
				within.Insert(p.Copy())
				return
			}
		}
		others.Insert(p.Copy())
	})
	return others, within
}

// managers shows the managers of the fields that are shown. An entry of which nothing is left, or that cannot be read,
// is not shown.
func (s Set) managers(entries []metav1.ManagedFieldsEntry, memo *Memo) []metav1.ManagedFieldsEntry {
	memo = memo.of(s)
	out := make([]metav1.ManagedFieldsEntry, 0, len(entries))
	for _, e := range entries {
		if e.FieldsV1 != nil {
			e.FieldsV1 = memo.fields(e.FieldsV1)
			if e.FieldsV1 == nil {
				continue
			}
		}
		out = append(out, e)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// shownFields returns the text of the managed fields that are shown; nil if there are none.
func (s Set) shownFields(raw []byte) []byte {
	all := fieldpath.NewSet()
	if all.FromJSON(bytes.NewReader(raw)) != nil {
		return nil
	}
	shown, hidden := splitAt(all, s.places())
	if hidden.Empty() {
		return raw
	}
	if shown.Empty() {
		return nil
	}
	text, err := shown.ToJSON()
	if err != nil {
		return nil
	}
	return text
}

// Memo caches results for objects of one response: most of them have the same managed fields. The objects share its
// results.
type Memo struct {
	set  Set
	mark map[string]string // the annotation that names what is hidden
	seen map[string]*metav1.FieldsV1
}

// maxMemo bounds the cache.
const maxMemo = 64

// of returns the memo without results for another set; a new one if it is nil.
func (m *Memo) of(s Set) *Memo {
	if m == nil {
		m = &Memo{}
	}
	if m.mark != nil && slices.EqualFunc(m.set, s, sameField) {
		return m
	}
	*m = Memo{set: s, mark: map[string]string{policyv1alpha1.AnnotationHidden: s.Names()}, seen: map[string]*metav1.FieldsV1{}}
	return m
}

// sameField reports whether two fields hide the same.
func sameField(a, b fieldperm.Hidden) bool {
	return a.Keys == b.Keys && slices.Equal(a.Field, b.Field)
}

// fields shows managed fields; nil if nothing is left of them.
func (m *Memo) fields(of *metav1.FieldsV1) *metav1.FieldsV1 {
	if known, ok := m.seen[string(of.Raw)]; ok {
		return known
	}
	var made *metav1.FieldsV1
	if text := m.set.shownFields(of.Raw); text != nil {
		made = &metav1.FieldsV1{Raw: text}
	}
	if len(m.seen) < maxMemo {
		m.seen[string(of.Raw)] = made
	}
	return made
}
