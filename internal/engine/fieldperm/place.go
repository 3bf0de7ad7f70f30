package fieldperm

import "slices"

// place lists the permissions that apply to one kind of object, each where that kind of object has the field. A version
// that no declaration names gets the declarations of all versions, so it cannot be used to evade them.
func (t *Table) place(k treeKey) []placed {
	var all []placed
	for _, p := range t.perms {
		if p.Version != "" && k.version != "" && p.Version != k.version {
			continue
		}
		all = append(all, t.pathsIn(p, k)...)
	}
	if k.copied {
		checked := made(k.resource)
		all = slices.DeleteFunc(all, func(q placed) bool {
			return slices.ContainsFunc(checked, func(at Path) bool { return at.leadsTo(q.path) })
		})
	}
	return all
}

// pathsIn returns where an object of kind k has the field of a permission.
func (t *Table) pathsIn(p *permission, k treeKey) []placed {
	switch {
	case k.form == scaleForm:
		return t.inScale(p, k.resource, k.version)
	case k.form == bindingForm, k.resource == bindings:
		var all []placed
		if p.appliesTo(k.resource) && k.resource == bindings {
			all = append(all, placed{p.Field, p})
		}
		if p.appliesTo(pods) {
			all = append(all, inBinding(p)...)
		}
		return all
	}
	return t.written(p, k.resource, k.version)
}

func (p *permission) appliesTo(r Resource) bool { return p.about(r) }

func (d *Declaration) about(r Resource) bool {
	return slices.ContainsFunc(d.Resources, func(have Resource) bool { return have.All() || have == r })
}

// inScale maps the scale field, wherever it is, and its parents to the Scale that stands in for the object.
func (t *Table) inScale(p *permission, r Resource, version string) []placed {
	fields := t.scaled[r]
	if len(fields) == 0 {
		fields = []Path{replicasPath}
	}
	var all []placed
	for _, q := range t.written(p, r, version) {
		if q.path.hasPrefix(metadataPath) {
			all = append(all, q)
			continue
		}
		for _, scale := range fields {
			switch {
			case scale.leadsTo(q.path):
				all = append(all, placed{replicasPath, q.perm})
			case q.path.leadsTo(scale):
				all = append(all, placed{replicasPath, q.perm.partly()})
			}
		}
	}
	return all
}

// inBinding maps a pod's node assignment and its parents to the Binding that makes the assignment, and a pod's metadata
// to the metadata that a Binding puts on the pod.
func inBinding(p *permission) []placed {
	switch {
	case p.Field.hasPrefix(metadataPath):
		return []placed{{p.Field, p}}
	case nodeNamePath.leadsTo(p.Field):
		standIn := *p
		standIn.pick = "name"
		return []placed{{bindTargetPath, &standIn}}
	case p.Field.leadsTo(nodeNamePath):
		return []placed{{bindTargetPath, p.partly()}}
	}
	return nil
}

// partly returns the permission for a place that has only a part of its field.
func (p *permission) partly() *permission {
	if !p.Exclusive {
		return p
	}
	return p.blunt()
}
