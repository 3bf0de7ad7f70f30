package fieldperm

import "slices"

// place lists the permissions that apply to one kind of object, each where that kind of object has the field. A version
// that no declaration names gets the declarations of all versions, so that it is never a way round them.
func (t *Table) place(k treeKey) []placed {
	var all []placed
	for _, p := range t.perms {
		if p.Version != "" && k.version != "" && p.Version != k.version {
			continue
		}
		all = append(all, t.pathsIn(p, k)...)
	}
	return all
}

// pathsIn says where in an object of kind k a permission has its field.
func (t *Table) pathsIn(p *permission, k treeKey) []placed {
	applies := p.appliesTo(k.resource)
	switch {
	case k.form == scaleForm:
		if applies {
			return t.inScale(p, k.resource)
		}
		return nil
	case k.form == bindingForm, k.resource == bindings:
		var all []placed
		if applies && k.resource == bindings {
			all = append(all, placed{p.Field, p})
		}
		if p.appliesTo(pods) {
			all = append(all, inBinding(p)...)
		}
		return all
	}
	var all []placed
	if applies {
		all = append(all, placed{p.Field, p})
	}
	if root, ok := podTemplates[k.resource]; ok && p.guardsTemplates() && p.inTemplate() {
		all = append(all, placed{p.Field.under(root), p})
	}
	return all
}

func (p *permission) appliesTo(r Resource) bool {
	return slices.ContainsFunc(p.Resources, func(have Resource) bool { return have.All() || have == r })
}

// guardsTemplates tells whether a permission on pods reaches into embedded pod templates (FP-15). One that names pods
// does. One for all resources does if it is exclusive, or it could be walked round through a workload; otherwise not: who may
// change an object's labels may not thereby change those of the pods it makes.
func (p *permission) guardsTemplates() bool {
	return slices.Contains(p.Resources, pods) || p.Exclusive && slices.ContainsFunc(p.Resources, Resource.All)
}

// inTemplate tells whether a pod template has the field at all.
func (p *permission) inTemplate() bool {
	return p.Field.hasPrefix(specPath) || p.Field.hasPrefix(metadataPath)
}

// inScale maps the scale field and what lies around it to the Scale that stands in for the object.
func (t *Table) inScale(p *permission, r Resource) []placed {
	scale, ok := t.scaled[r]
	if !ok {
		scale = replicasPath
	}
	switch {
	case p.Field.hasPrefix(metadataPath), len(p.Field) == 1:
		return []placed{{p.Field, p}}
	case scale.hasPrefix(p.Field):
		return []placed{{replicasPath, p}}
	}
	return nil
}

// inBinding maps a pod's node assignment and what lies around it to the Binding that makes it, and a pod's metadata to
// the metadata that a Binding puts on the pod.
func inBinding(p *permission) []placed {
	switch {
	case p.Field.hasPrefix(metadataPath):
		return []placed{{p.Field, p}}
	case p.Field.compare(nodeNamePath) == 0:
		standIn := *p
		standIn.pick = "name"
		return []placed{{bindTargetPath, &standIn}}
	case p.Field.compare(specPath) == 0:
		return []placed{{bindTargetPath, p}}
	}
	return nil
}
