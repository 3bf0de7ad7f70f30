package fieldperm

import (
	"cmp"
	"slices"
)

// Entry is one line of the reference of permissions (FP-12).
type Entry struct {
	// Permission is the name, Verb what to grant: granular:label(<prefix>).
	Permission, Verb string
	// Resource that has the field, * for all.
	Resource string
	// Field that the permission guards there.
	Field string
	// Source names the declaration; Stored is set if that is a FieldPermission object.
	Source string
	Stored bool
	// Exclusive is set if the general verb does not cover the field, ExclusiveWhen if only for some values.
	Exclusive     bool
	ExclusiveWhen string
	// Broken is set if the declaration does not compile: it cannot be granted.
	Broken bool
}

// Permissions lists every permission with the fields it guards, by name. Fields that an object carries for other
// objects, for example in templates, are listed with the carrier.
func (t *Table) Permissions() []Entry {
	var all []Entry
	for _, p := range t.perms {
		for _, r := range p.Resources {
			all = append(all, p.entry(p.Field, r))
		}
		for r := range t.carrying() {
			for _, q := range t.carried(p, r, p.Version) {
				all = append(all, q.perm.entry(q.path, r))
			}
		}
	}
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Permission, b.Permission), cmp.Compare(a.Resource, b.Resource),
			cmp.Compare(a.Field, b.Field), cmp.Compare(a.Source, b.Source))
	})
	return slices.Compact(all)
}

// For lists the permissions that guard a field of one resource, in the order of its fields, from the most general to
// the most specific.
func (t *Table) For(r Resource) []Entry {
	var all []placed
	for _, p := range t.perms {
		all = append(all, t.pathsIn(p, treeKey{resource: r, version: p.Version})...)
	}
	slices.SortFunc(all, func(a, b placed) int { return cmp.Or(a.path.compare(b.path), moreGeneral(a.perm, b.perm)) })
	entries := make([]Entry, len(all))
	for i, p := range all {
		entries[i] = p.perm.entry(p.path, r)
	}
	return oncePerField(entries)
}

// oncePerField drops the shipped permission of a field if the same permission is declared there.
func oncePerField(entries []Entry) []Entry {
	return slices.DeleteFunc(slices.Compact(entries), func(e Entry) bool {
		return e.Source == shippedSource && slices.ContainsFunc(entries, func(o Entry) bool {
			return o.Source != shippedSource && o.Verb == e.Verb && o.Field == e.Field && !o.Broken
		})
	})
}

func (p *permission) entry(at Path, r Resource) Entry {
	return Entry{
		Permission: p.Permission, Verb: p.display(), Resource: r.String(), Field: at.String(), Source: p.Source, Stored: p.stored,
		Exclusive: p.Exclusive, ExclusiveWhen: p.ExclusiveWhen, Broken: p.broken,
	}
}

// display returns the verb with a placeholder for its parameter.
func (p *permission) display() string {
	if p.Parameter == nil {
		return verb(p.Permission, "", false)
	}
	placeholder := "<parameter>"
	switch {
	case p.Parameter.Treatment == TreatSlashPrefix:
		placeholder = "<prefix>"
	case p.Parameter.From == fromElementType:
		placeholder = "<type>"
	case builtinParameter(p.Parameter.From):
		placeholder = "<" + p.Parameter.From + ">"
	}
	return verb(p.Permission, placeholder, true)
}
