package fieldperm

// Named lists where objects of a resource have the fields of a permission in a version, including what they carry.
// declared is false if nothing declares the permission, or if a declaration of it cannot be read.
func (t *Table) Named(permission string, r Resource, version string) (fields []Hidden, declared bool) {
	if t == nil {
		return nil, false
	}
	for _, p := range t.perms {
		if p.Permission != permission {
			continue
		}
		if p.broken {
			return nil, false
		}
		declared = true
		if p.Version == "" || p.Version == version {
			fields = append(fields, t.hiddenIn(p, r)...)
		}
	}
	return fields, declared
}

// Placed lists where objects of a resource have a field that some resources have, including what they carry. A nil
// table knows only the built-in resources.
func (t *Table) Placed(resources []Resource, field Path, r Resource) []Hidden {
	if t == nil {
		t = &Table{carriers: carriers}
	}
	return t.hiddenIn(&permission{Declaration: Declaration{Resources: resources, Field: field}}, r)
}
