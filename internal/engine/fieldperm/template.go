package fieldperm

import (
	"fmt"
	"maps"
	"slices"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// Template says where objects of a custom resource have a pod template (FP-19).
type Template struct {
	Resource Resource
	// Version restricts it to one version; empty means all.
	Version string
	// At is the place of its metadata and its spec.
	At Path
}

// MaxTemplates is the maximum number of templates in a FieldPermission.
const MaxTemplates = 64

func (t Template) carrier() carrier { return carrier{inner: pods, at: t.At, version: t.Version} }

// Carriers are the resources whose objects carry those of others.
type Carriers map[Resource][]carrier

// CarriersOf returns the built-in carriers and custom resources with templates.
func CarriersOf(templates ...Template) Carriers {
	if len(templates) == 0 {
		return carriers
	}
	all := maps.Clone(carriers)
	for _, t := range templates {
		all[t.Resource] = append(slices.Clip(all[t.Resource]), t.carrier())
	}
	return all
}

// Carry reports whether objects of a resource are, or carry, objects of another one, directly or through what they
// carry.
func (c Carriers) Carry(r, inner Resource) bool {
	found := false
	c.visit(r, func(carried Resource) bool {
		found = carried == inner
		return !found
	})
	return found
}

// visit visits a resource and all that its objects carry, until the callback returns false.
func (c Carriers) visit(r Resource, visit func(Resource) bool) {
	if r == bindings {
		r = pods
	}
	seen := map[Resource]bool{r: true}
	for todo := []Resource{r}; len(todo) > 0; todo = todo[1:] {
		if !visit(todo[0]) {
			return
		}
		for _, carried := range c[todo[0]] {
			if !seen[carried.inner] {
				seen[carried.inner] = true
				todo = append(todo, carried.inner)
			}
		}
	}
}

// carriersFor returns the carriers in one version of a resource into which a permission reaches: those of all
// permissions, and those that it names itself.
func (t *Table) carriersFor(p *permission, r Resource, version string) []carrier {
	all := t.carriers[r]
	if version != "" {
		all = slices.DeleteFunc(slices.Clone(all), func(c carrier) bool { return c.version != "" && c.version != version })
	}
	for _, own := range p.Templates {
		if own.Resource == r && !slices.ContainsFunc(all, func(c carrier) bool { return c.inner == pods && c.at.compare(own.At) == 0 }) {
			all = append(slices.Clip(all), own.carrier())
		}
	}
	return all
}

// carrying returns all resources with carriers, of all permissions.
func (t *Table) carrying() map[Resource]bool {
	all := map[Resource]bool{}
	for r := range t.carriers {
		all[r] = true
	}
	for _, p := range t.perms {
		for _, own := range p.Templates {
			all[own.Resource] = true
		}
	}
	return all
}

// templatesOf reads the templates that a FieldPermission names. If it returns an error, it also returns what could be
// read.
func templatesOf(named []policyv1alpha1.FieldPermissionTemplate) (all []Template, first error) {
	if len(named) > MaxTemplates {
		first = fmt.Errorf("templates must be at most %d", MaxTemplates)
		named = named[:MaxTemplates]
	}
	for _, n := range named {
		t := Template{}
		var err error
		if t.Resource, err = ParseResource(n.Resource); err == nil && t.Resource.All() {
			err = fmt.Errorf("template of %q must name one resource", n.Resource)
		}
		if err == nil {
			t.At, err = ParsePath(n.Field)
		}
		if err == nil {
			err = t.Validate()
		}
		switch {
		case err == nil:
			all = append(all, t)
		case first == nil:
			first = err
		}
	}
	return all, first
}

// Validate checks a template without a schema.
func (t Template) Validate() error {
	switch {
	case t.At[0].Bracket:
		return fmt.Errorf("template %s must start with a field's name", t.At)
	case t.At.hasPrefix(metadataPath):
		return fmt.Errorf("template %s cannot be in the metadata of the object", t.At)
	}
	return nil
}
