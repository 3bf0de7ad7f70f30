package hiddenfield

import (
	"encoding/json"
	"fmt"

	"proviso.dev/proviso/internal/engine/fieldperm"
)

// lastApplied is the annotation in which kubectl keeps what it applied.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

var (
	appliedPath  = fieldperm.Path{fieldperm.Field("metadata"), fieldperm.Field("annotations"), fieldperm.Key(lastApplied)}
	managersPath = fieldperm.Path{fieldperm.Field("metadata"), fieldperm.Field("managedFields")}
)

// Place is where a hidden field can be read, or a copy of it.
type Place struct {
	Path fieldperm.Path
	// Copy is true for a place that repeats fields of the whole object. It does not depend on the hidden field whether
	// an object has what contains the place.
	Copy bool
}

// Places lists every place of an object where a hidden field can be read. Anything that protects the field must protect
// all of them.
func Places(h fieldperm.Hidden) []Place {
	var all []Place
	for _, at := range spellings(h.Field) {
		all = append(all, Place{Path: at})
	}
	all = append(all, Place{Path: appliedPath, Copy: true})
	if !h.Keys { // managers show keys, and no values
		all = append(all, Place{Path: managersPath, Copy: true})
	}
	return all
}

// spellings are the places that write a field: the data of a secret is also written as text.
func spellings(at fieldperm.Path) []fieldperm.Path {
	if at[0] != fieldperm.Field("data") {
		return []fieldperm.Path{at}
	}
	return []fieldperm.Path{at, append(fieldperm.Path{fieldperm.Field("stringData")}, at[1:]...)}
}

// check refuses an operation of a JSON patch that may reveal something about the place. A replace of it becomes an add.
func (p Place) check(o map[string]json.RawMessage, h fieldperm.Hidden) error {
	op, from, path := text(o["op"]), text(o["from"]), text(o["path"])
	repeats := ""
	if p.Copy {
		repeats = " (it repeats hidden fields)"
	}
	if _, has := o["from"]; has && p.relate(from) != apart {
		return &Refused{h, fmt.Sprintf("the operation %q from %s%s", op, from, repeats)}
	}
	refused := &Refused{h, fmt.Sprintf("the operation %q on %s%s", op, path, repeats)}
	switch where := p.relate(path); {
	case where == apart:
	case where == above && p.Copy && op != "test": // it may be overwritten or removed with what contains it
	case where == above, op != "add" && op != "replace":
		return refused
	case where == below && (p.Copy || !h.Keys || len(pointer(path)) > len(p.Path)+1):
		refused.What += " (set the field as a whole, or use a merge patch)"
		return refused
	case where == at && op == "replace":
		o["op"] = json.RawMessage(`"add"`)
	}
	return nil
}

// relate says where a JSON pointer is relative to the place.
func (p Place) relate(to string) relation { return relate(pointer(to), p.Path) }
