package fieldperm

import (
	"fmt"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// RevealPrefix turns a permission's name into the verb that shows a hidden field.
const RevealPrefix = "reveal:"

// Hidden is a field that readers only see with a verb.
type Hidden struct {
	// Permission is the name; the verb is RevealPrefix followed by it. Source names the declaration.
	Permission, Source string
	// Field is where objects of the resource have it. It does not end with empty brackets.
	Field Path
	// Keys shows the keys of a map, with empty values.
	Keys bool
	// APIVersion is the version of the objects that have the field there; empty if all versions have.
	APIVersion string
	// Exclusive is true if the general right to write the object does not cover the field.
	Exclusive bool
}

// Verb returns the verb that shows the field.
func (h Hidden) Verb() string { return RevealPrefix + h.Permission }

// HidesAny reports whether any field of any resource is hidden.
func (t *Table) HidesAny() bool { return t != nil && len(t.hidden) > 0 }

// Hidden lists the hidden fields of a resource, those of what it carries included.
func (t *Table) Hidden(r Resource) []Hidden {
	if !t.HidesAny() {
		return nil
	}
	if fields, ok := t.hidden[r]; ok {
		return fields
	}
	return t.hidden[Resource{}]
}

// conceal computes the hidden fields of every resource that has its own, and those of all others.
func (t *Table) conceal() {
	hides := slices.DeleteFunc(slices.Clone(t.perms), func(p *permission) bool { return !p.ReadExclusive })
	if len(hides) == 0 {
		return
	}
	t.hidden = map[Resource][]Hidden{{}: nil}
	for _, p := range hides {
		for _, r := range p.Resources {
			t.hidden[r] = nil
		}
	}
	for r := range t.carrying() {
		t.hidden[r] = nil
	}
	for r := range t.hidden {
		for _, p := range hides {
			t.hidden[r] = append(t.hidden[r], t.hiddenIn(p, r)...)
		}
	}
}

// hiddenIn lists where an object of a resource has the field: in itself and in the templates that it carries.
func (t *Table) hiddenIn(p *permission, r Resource) []Hidden {
	var all []Hidden
	add := func(at Path) {
		for len(at) > 1 && at[len(at)-1].Any {
			at = at[:len(at)-1]
		}
		all = append(all, Hidden{Permission: p.Permission, Source: p.Source, Field: at, Keys: p.KeepKeys, Exclusive: p.Exclusive})
	}
	if p.appliesTo(r) {
		add(p.Field)
	}
	for _, at := range t.hiddenInTemplates(p, r) {
		add(at)
	}
	return all
}

func (t *Table) hiddenInTemplates(p *permission, r Resource) []Path {
	var all []Path
	for _, c := range t.carriersFor(p, r, "") {
		if c.at == nil {
			continue
		}
		inner := t.hiddenInTemplates(p, c.inner)
		if !c.inside && p.appliesTo(c.inner) {
			inner = append(inner, p.Field)
		}
		for _, at := range inner {
			if at.hasPrefix(specPath) || at.hasPrefix(metadataPath) {
				all = append(all, at.under(c.at))
			}
		}
	}
	return all
}

// validateHidden refuses fields that must not be hidden.
func (d *Declaration) validateHidden() error {
	if !d.ReadExclusive {
		if d.KeepKeys {
			return fmt.Errorf("keep must come with readExclusive: true")
		}
		return nil
	}
	for _, r := range d.Resources {
		if r.Resource == "events" && (r.Group == "" || r.Group == "events.k8s.io") {
			return fmt.Errorf("fields of events cannot be hidden: two API groups serve them, in different places")
		}
	}
	needed := append(slices.Clone(neededOfAll), d.neededOfSome()...)
	for _, at := range needed {
		if d.Field.leadsTo(at) || at.leadsTo(d.Field) {
			return fmt.Errorf("field %s cannot be hidden: the server needs %s to serve the object", d.Field, at)
		}
	}
	return nil
}

// neededOfSome returns the fields from which subresources of the declared resources are built.
func (d *Declaration) neededOfSome() []Path {
	var all []Path
	for _, r := range d.Resources {
		for of := range scaled {
			if r.All() || r == of {
				all = append(all, shownInScale(of)...)
			}
		}
		if r.All() || r == pods {
			all = append(all, neededOfPods...)
		}
	}
	return all
}

var (
	statusReplicasPath = path(".status.replicas")
	selectorPath       = path(".spec.selector")
	// neededOfAll identify an object, or tell clients about its state.
	neededOfAll = []Path{
		path(".apiVersion"), path(".kind"), path(".metadata.name"), path(".metadata.namespace"), path(".metadata.uid"),
		path(".metadata.resourceVersion"), path(".metadata.managedFields"), path(".metadata.deletionTimestamp"),
		path(".metadata.generation"), path(".metadata.creationTimestamp"),
	}
	// neededOfPods locate the log of a container.
	neededOfPods = []Path{
		nodeNamePath, path(".spec.containers[].name"), path(".spec.initContainers[].name"), path(".spec.ephemeralContainers[].name"),
	}
)

// Overlaps reports whether one of two fields equals the other one, or is below it.
func (p Path) Overlaps(q Path) bool { return p.leadsTo(q) || q.leadsTo(p) }

// LeadsTo reports whether a field is at this path or below it, however fields and entries are written.
func (p Path) LeadsTo(q Path) bool { return p.leadsTo(q) }

// OverlapsAny reports whether the field overlaps with one of several.
func (p Path) OverlapsAny(all []Path) bool { return slices.ContainsFunc(all, p.Overlaps) }

// ShownInScale returns the fields of a resource that its scale subresource shows.
func (t *Table) ShownInScale(r Resource) []Path {
	if all := shownInScale(r); all != nil || t == nil {
		return all
	}
	return t.inScales[r]
}

// shownInScale returns those of a built-in resource.
func shownInScale(r Resource) []Path {
	at := scaled[r]
	if at == nil {
		return nil
	}
	return append(slices.Clone(at), statusReplicasPath, selectorPath)
}

// CheckHidden reports why a field cannot be hidden by the schema of its kind; nil if it can. Elements of a list are
// shown without the field, but a key must not be hidden: without it a reader cannot tell the elements apart.
func CheckHidden(p Path, t typed.ParseableType) error {
	tr := t.TypeRef
	for i, e := range p {
		atom, ok := t.Schema.Resolve(tr)
		if !ok {
			return nil
		}
		if e.Bracket && !e.Any && atom.List != nil {
			return fmt.Errorf("field %s is a list: write empty brackets, which hide the field in all elements", p[:i])
		}
		if i > 0 && p[i-1].Any && i == len(p)-1 && slices.Contains(ListKeys(p[:i-1], t), e.Name) {
			return fmt.Errorf("field %s cannot be hidden: it is a key of the list %s", p, p[:i-1])
		}
		next, err := descend(p[:i], e, atom)
		if err != nil {
			return nil //nolint:nilerr // what has no schema has every field
		}
		tr = next
	}
	return nil
}

// HidingResources returns the resources that have hidden fields; the zero Resource stands for all that are not listed.
func (t *Table) HidingResources() []Resource {
	if !t.HidesAny() {
		return nil
	}
	var all []Resource
	for _, r := range sortedResources(t.hidden) {
		if len(t.hidden[r]) > 0 {
			all = append(all, r)
		}
	}
	return all
}
