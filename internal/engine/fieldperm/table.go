package fieldperm

import (
	"cmp"
	"maps"
	"slices"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// Config is everything a Table is compiled from, in addition to the shipped permissions.
type Config struct {
	// FieldPermissions are the stored objects.
	FieldPermissions []*policyv1alpha1.FieldPermission
	// Declared are the declarations of CRD schemas.
	Declared []Declaration
	// Scaled are the custom resources with a scale subresource, and where their scale field is. A resource with
	// different places in different versions gets no shipped permission: it must not guard different fields, depending
	// on the version.
	Scaled map[Resource][]Path
	// ShownInScale are all fields of theirs that the subresource shows.
	ShownInScale map[Resource][]Path
	// Templates are the pod templates in custom resources.
	Templates []Template
	// Unreadable are declarations of custom resources that cannot be read.
	Unreadable []Unreadable
	// Expressions compiles CEL; without it, declarations that need CEL cover nothing and exclude everything.
	Expressions Expressions
}

// Table is the compiled set of permissions of one snapshot. It never changes and is safe for concurrent use.
type Table struct {
	trees  map[treeKey]*node
	perms  []*permission
	scaled map[Resource][]Path
	// inScales are the fields that scale subresources of custom resources show.
	inScales map[Resource][]Path
	// carriers are the resources that carry others, according to all permissions.
	carriers Carriers
	issues   []Issue
	// unreadable are declarations that may withhold a field, without saying which: by resource, the zero Resource for
	// all.
	unreadable map[Resource]string
	// hidden are the fields that readers do not see, by resource, the zero Resource for all others; nil if there are
	// none.
	hidden map[Resource][]Hidden
}

// treeKey identifies a kind of object: a resource's own, or one that stands in for it in a subresource. The zero
// Resource stands for any that is not listed.
type treeKey struct {
	resource Resource
	form     form
	version  string
	// copied leaves out what was checked in the carrier.
	copied bool
}

// form is the shape of a request's body.
type form uint8

const (
	ownForm     form = iota // the resource itself
	scaleForm               // autoscaling Scale
	bindingForm             // core Binding
)

// Unreadable is a declaration for a known resource that cannot be read.
type Unreadable struct {
	Source   string
	Resource Resource
}

// Issue is a declaration that does not have its full effect.
type Issue struct{ Source, Message string }

// New compiles a table. Issues name the declarations that do not compile: in the table they cover nothing and exclude
// the fields that they name. Everything else takes effect.
func New(c Config) (*Table, []Issue) {
	t := &Table{trees: map[treeKey]*node{}, scaled: maps.Clone(scaled), inScales: c.ShownInScale, carriers: CarriersOf(c.Templates...)}
	maps.Copy(t.scaled, c.Scaled)
	var issues []Issue
	add := func(d Declaration, err error) {
		perm, compileErr := compile(d, c.Expressions)
		if err = cmp.Or(err, compileErr); err != nil {
			issues = append(issues, Issue{Source: d.Source, Message: err.Error()})
			perm.broken = perm.broken || compileErr == nil
		}
		if len(d.Field) > 0 && !neverCounts(d.Field) {
			t.perms = append(t.perms, perm)
		}
	}
	for _, d := range shipped {
		add(d, nil)
	}
	for _, r := range sortedResources(t.scaled) {
		if fields := t.scaled[r]; len(fields) == 1 {
			add(Declaration{Source: shippedSource, Permission: replicasPermission, Resources: []Resource{r}, Field: fields[0]}, nil)
		}
	}
	for _, fp := range sortedByName(c.FieldPermissions) {
		d, err := FromFieldPermission(fp)
		add(d, err)
		if fp.Annotations[policyv1alpha1.AnnotationUnreadable] != "" || d.Exclusive && len(d.Field) == 0 {
			t.withhold(d.Source, d.Resources)
		}
		if d.Exclusive && len(d.Templates) < len(fp.Spec.Templates) {
			t.withhold(d.Source, nil) // it is not known what else it withholds
		}
	}
	for _, u := range c.Unreadable {
		t.withhold(u.Source, []Resource{u.Resource})
	}
	for _, d := range c.Declared {
		add(d, nil)
	}
	t.plant()
	t.conceal()
	t.issues = issues
	return t, issues
}

// withhold records a declaration that cannot be read, for its resources or, if it does not name any, for all.
func (t *Table) withhold(source string, resources []Resource) {
	if t.unreadable == nil {
		t.unreadable = map[Resource]string{}
	}
	if len(resources) == 0 {
		resources = []Resource{{}}
	}
	for _, r := range resources {
		if _, known := t.unreadable[r]; !known {
			t.unreadable[r] = source
		}
	}
}

// Unreadable returns a declaration that may withhold an unknown field of the resource, or of what is created from it;
// empty if there is none. Unreadable declarations refuse (SV-8).
func (t *Table) Unreadable(r Resource) string {
	if t == nil || len(t.unreadable) == 0 {
		return ""
	}
	if source := t.unreadable[Resource{}]; source != "" {
		return source
	}
	source := ""
	t.carriers.visit(r, func(carried Resource) bool {
		source = t.unreadable[carried]
		return source == ""
	})
	return source
}

// Issues returns the declarations of the table that do not have their full effect.
func (t *Table) Issues() []Issue { return slices.Clone(t.issues) }

func sortedByName(in []*policyv1alpha1.FieldPermission) []*policyv1alpha1.FieldPermission {
	out := slices.Clone(in)
	slices.SortStableFunc(out, func(a, b *policyv1alpha1.FieldPermission) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func sortedResources[V any](m map[Resource]V) []Resource {
	return slices.SortedFunc(maps.Keys(m), func(a, b Resource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource))
	})
}

// plant builds the trees of every resource that has its own declarations, and one of each form for all the rest.
func (t *Table) plant() {
	versions := map[Resource][]string{{}: nil, pods: nil, bindings: nil}
	for r := range t.scaled {
		versions[r] = nil
	}
	for r := range spellings {
		versions[r] = nil
	}
	for r := range overwrites {
		versions[r] = nil
	}
	for r := range t.carrying() {
		versions[r] = nil
	}
	for _, p := range t.perms {
		for _, r := range p.Resources {
			versions[r] = append(versions[r], p.Version)
		}
	}
	for r, list := range t.carriers {
		// If declarations name versions, a version that they do not name gets the declarations of all of them.
		if slices.ContainsFunc(versions[r], func(version string) bool { return version != "" }) {
			continue
		}
		for _, c := range list {
			versions[r] = append(versions[r], c.version)
		}
	}
	t.trees[treeKey{pods, bindingForm, "", true}] = &node{} // the scheduler says where a pod goes
	t.trees[treeKey{bindings, ownForm, "", true}] = &node{}
	for r := range madeResources() {
		k := treeKey{r, ownForm, "", true}
		t.trees[k] = t.grow(k)
	}
	for r, list := range versions {
		for _, version := range append(list, "") {
			for _, f := range []form{ownForm, scaleForm, bindingForm} {
				k := treeKey{r, f, version, false}
				if t.trees[k] == nil && (f != bindingForm || r == pods) {
					t.trees[k] = t.grow(k)
				}
			}
		}
	}
}

// grow builds the tree of one kind of object.
func (t *Table) grow(k treeKey) *node {
	all := t.place(k)
	root := newTree(all)
	if k.form == ownForm {
		root.order(k.resource, all)
	}
	return root
}

// tree returns the tree for a request's body.
func (t *Table) tree(target Target) *node {
	k := treeKey{target.Resource, formOf(target), target.Version, false}
	if target.Copied {
		copied := treeKey{target.Resource, k.form, "", true}
		if n := t.trees[copied]; n != nil {
			return n
		}
	}
	for _, version := range []string{target.Version, ""} {
		k.version = version
		if n := t.trees[k]; n != nil {
			return n
		}
	}
	return t.trees[treeKey{form: min(k.form, scaleForm)}]
}

func formOf(target Target) form {
	switch {
	case target.Subresource == "scale":
		return scaleForm
	case target.Resource == pods && target.Subresource == "binding":
		return bindingForm
	}
	return ownForm
}

// Guards reports whether a write by a caller with the general verb has to be checked: whether any field of the resource
// is exclusive. If not, nothing needs to be converted or compared.
func (t *Table) Guards(target Target) bool {
	return t.tree(target).exclusive
}
