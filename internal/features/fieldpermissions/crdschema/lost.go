package crdschema

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/state/kept"
)

// Lost is what a definition once declared and no longer does, although no authorized user has removed it (FP-18).
type Lost struct {
	// Declared still guards, and Templates are still looked into.
	Declared  []fieldperm.Declaration
	Templates []fieldperm.Template
	// Fields names the fields, for people.
	Fields []string
	// Problem is set if a declaration has no place in the schema: then it is unknown which field it is about.
	Problem string
}

// LostFrom compares what is stored with what is kept.
func LostFrom(crd *apiextensionsv1.CustomResourceDefinition, rec kept.Record) Lost {
	current, _ := decode(crd.Annotations[Annotation])
	missing := missingFrom(crd.Annotations[Annotation], current, versionNames(crd), rec)
	if len(missing) == 0 {
		return Lost{}
	}
	lost := Lost{}
	var inside apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd.DeepCopy(), &inside, nil); err != nil {
		lost.Problem = err.Error()
	}
	for _, r := range missing {
		for _, version := range slices.Sorted(maps.Keys(r)) {
			for _, at := range slices.Sorted(maps.Keys(r[version])) {
				lost.add(&inside, version, at, r[version][at])
			}
		}
	}
	return lost
}

func (l *Lost) add(crd *apiextensions.CustomResourceDefinition, version string, at place, e entry) {
	if name := at.label(version); !slices.Contains(l.Fields, name) {
		l.Fields = append(l.Fields, name)
	}
	r := resource{crd.Name, crd.Spec.Group, crd.Spec.Names.Plural}
	if !hasPlace(crd, version, at) {
		l.Problem = cmp.Or(l.Problem, fmt.Sprintf("%s was declared for a field that the schema no longer has: %s", e.what(), at.label(version)))
	}
	if e[KeyTemplate] != nil {
		t, err := template(r, version, at)
		if err != nil {
			l.Problem = cmp.Or(l.Problem, err.Error())
		}
		l.Templates = append(l.Templates, t)
	}
	if len(e.permission()) == 0 {
		return
	}
	d, err := declaration(r, version, at, e)
	if err != nil {
		l.Problem = cmp.Or(l.Problem, err.Error())
		return
	}
	l.Declared = append(l.Declared, d)
}

func versionNames(crd *apiextensionsv1.CustomResourceDefinition) (names []string) {
	for i := range crd.Spec.Versions {
		if v := &crd.Spec.Versions[i]; v.Served || v.Storage {
			names = append(names, v.Name)
		}
	}
	return names
}

// missingFrom is what the definition with this text lacks. If the text is one that was entered, that is known; if it
// was written unseen, it is everything of the states before that is no longer there.
func missingFrom(text string, current record, versions []string, rec kept.Record) (all []record) {
	if rec.IsEmpty() {
		return nil
	}
	states := rec.Of(text)
	for _, s := range states {
		for _, m := range s.Missing {
			all = collect(all, placed(decodeKept(m), versions))
		}
	}
	if len(states) > 0 {
		return all
	}
	for _, s := range rec.All() {
		for _, before := range append([]string{s.Text}, s.Missing...) {
			r := placed(decodeKept(before), versions)
			for version, places := range r {
				for at, e := range places {
					if places[at] = e.lacking(current[version][at]); len(places[at]) == 0 {
						delete(places, at)
					}
				}
			}
			all = collect(all, r)
		}
	}
	return all
}

// decodeKept reads as much as can be read. What was kept was valid.
func decodeKept(text string) record {
	r, _ := decode(text)
	return r
}

// collect adds a record that is not empty, once.
func collect(all []record, r record) []record {
	if r.size() == 0 || slices.ContainsFunc(all, func(have record) bool { return reflect.DeepEqual(have, r) }) {
		return all
	}
	return append(all, r)
}

// placed is what a record says about versions that may not be those it was made for: a version that it does not know
// gets all declarations, at the same places.
func placed(r record, versions []string) record {
	out := record{}
	for _, version := range versions {
		if places, known := r[version]; known {
			out[version] = maps.Clone(places)
			continue
		}
		out[version] = map[place]entry{}
		for _, places := range r {
			maps.Copy(out[version], places)
		}
	}
	return out
}

// left is what stays missing after a write, and whether the write has repeated or taken back any of it: at its place,
// or at another one if the schema no longer has the place. Versions that nothing is missing in stay, so that they are
// known.
func left(missing []record, written record, crd *apiextensions.CustomResourceDefinition) (after []record, resolved bool) {
	for _, m := range missing {
		r := placed(m, servedNames(crd))
		for version, places := range r {
			for at, e := range places {
				rest := e.without(written[version][at])
				if !hasPlace(crd, version, at) && written.hasPermission(version, e) {
					rest = nil
				}
				resolved = resolved || len(rest) < len(e)
				if places[at] = rest; len(rest) == 0 {
					delete(places, at)
				}
			}
		}
		after = collect(after, r)
	}
	return after, resolved
}

// Message says what is missing; empty if nothing is.
func (l Lost) Message() string {
	if len(l.Fields) == 0 {
		return ""
	}
	named, more := l.Fields, ""
	if len(named) > maxNamed {
		more = fmt.Sprintf(" and %d more", len(named)-maxNamed)
		named = named[:maxNamed]
	}
	text := fmt.Sprintf("the definition was written while field permissions were switched off, and no longer declares what it did; it still holds: %s%s; repeat the declarations, or write null, which takes the verb escalate on fieldpermissions",
		strings.Join(named, ", "), more)
	if l.Problem != "" {
		text += "; writing the resource takes a right that is granted for the whole cluster: " + l.Problem
	}
	return text
}
