package hiddenfield

import (
	"bytes"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

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

// isWhole reports whether nothing below a path is in the set: who manages it manages all that is in it.
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

// split divides a set of managed fields into those that are shown and those that are hidden. The names of keys that are
// kept are shown.
func (s Set) split(all *fieldpath.Set) (shown, hidden *fieldpath.Set) {
	shown, hidden = fieldpath.NewSet(), fieldpath.NewSet()
	all.Iterate(func(p fieldpath.Path) {
		for _, f := range s {
			if !f.Keys && matches(f.Field, p, func(p fieldpath.Path) bool { return isWhole(all, p) }) {
				hidden.Insert(p.Copy())
				return
			}
		}
		shown.Insert(p.Copy())
	})
	return shown, hidden
}

// managers shows who manages the fields that are shown. An entry of which nothing is left is not shown, and neither is
// one that cannot be read.
func (s Set) managers(entries []metav1.ManagedFieldsEntry, memo *Memo) []metav1.ManagedFieldsEntry {
	var out []metav1.ManagedFieldsEntry
	for _, e := range entries {
		if e.FieldsV1 == nil {
			out = append(out, e)
			continue
		}
		if text := memo.fields(e.FieldsV1.Raw, s.shownFields); text != nil {
			e.FieldsV1 = &metav1.FieldsV1{Raw: text}
			out = append(out, e)
		}
	}
	return out
}

// shownFields is the text of what is shown of managed fields; nil if that is nothing.
func (s Set) shownFields(raw []byte) []byte {
	all := fieldpath.NewSet()
	if all.FromJSON(bytes.NewReader(raw)) != nil {
		return nil
	}
	shown, hidden := s.split(all)
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

// Memo remembers what was made of managed fields within one response: most objects of a list have the same.
type Memo struct{ seen map[string][]byte }

// maxMemo bounds what is remembered.
const maxMemo = 64

func (m *Memo) fields(raw []byte, of func([]byte) []byte) []byte {
	if m == nil {
		return of(raw)
	}
	if known, ok := m.seen[string(raw)]; ok {
		return known
	}
	made := of(raw)
	if m.seen == nil {
		m.seen = map[string][]byte{}
	}
	if len(m.seen) < maxMemo {
		m.seen[string(raw)] = made
	}
	return made
}
