package crdschema

import (
	"fmt"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"proviso.dev/proviso/internal/engine/fieldperm"
)

// Declared reads what a stored definition declares, each declaration for its own version of the resource. With an
// error, which is about what was stored while this system was off, comes as much as could be read.
//
// Objects are compared in one version (FP-10), whichever that is: what may be stored has every permission in every
// version that is served.
func Declared(crd *apiextensionsv1.CustomResourceDefinition) ([]fieldperm.Declaration, error) {
	text, ok := crd.Annotations[Annotation]
	if !ok {
		return nil, nil
	}
	r, first := decode(text)
	var all []fieldperm.Declaration
	for i := range crd.Spec.Versions {
		version := crd.Spec.Versions[i].Name
		for _, at := range slices.Sorted(maps.Keys(r[version])) {
			if len(r[version][at].permission()) == 0 {
				continue // it is a template
			}
			d, err := declaration(resource{crd.Name, crd.Spec.Group, crd.Spec.Names.Plural}, version, at, r[version][at])
			if err != nil {
				if first == nil {
					first = err
				}
				continue
			}
			all = append(all, d)
		}
	}
	return all, first
}

// Templates are the templates of pods that a stored definition declares (FP-19). What cannot be read Declared says.
func Templates(crd *apiextensionsv1.CustomResourceDefinition) (all []fieldperm.Template) {
	r, _ := decode(crd.Annotations[Annotation])
	for i := range crd.Spec.Versions {
		version := crd.Spec.Versions[i].Name
		for _, at := range slices.Sorted(maps.Keys(r[version])) {
			if r[version][at][KeyTemplate] == nil {
				continue
			}
			if t, err := template(resource{crd.Name, crd.Spec.Group, crd.Spec.Names.Plural}, version, at); err == nil {
				all = append(all, t)
			}
		}
	}
	return all
}

// template is what an entry with that key means.
func template(r resource, version string, at place) (fieldperm.Template, error) {
	path, err := at.path()
	if err != nil {
		return fieldperm.Template{}, err
	}
	t := fieldperm.Template{Resource: fieldperm.Resource{Group: r.group, Resource: r.plural}, Version: version, At: path}
	return t, t.Validate()
}

// resource is the custom resource that a definition defines.
type resource struct{ definition, group, plural string }

// declaration is what an entry means. It is not validated.
func declaration(r resource, version string, at place, e entry) (fieldperm.Declaration, error) {
	path, err := at.path()
	if err != nil {
		return fieldperm.Declaration{}, err
	}
	d := fieldperm.Declaration{
		Source:     fmt.Sprintf("CustomResourceDefinition %q", r.definition),
		Resources:  []fieldperm.Resource{{Group: r.group, Resource: r.plural}},
		Version:    version,
		Field:      path,
		Permission: e.text(KeyVerb),

		ExclusiveWhen: e.text(KeyWhen),
	}
	switch exclusive := e[KeyExclusive].(type) {
	case nil:
	case bool:
		d.Exclusive = exclusive
	default: // what cannot be read withholds, whatever the value
		d.Exclusive, d.ExclusiveWhen = true, ""
	}
	if e[KeyParameter] != nil || e[KeyTreatment] != nil {
		d.Parameter = &fieldperm.Parameter{From: source(e.text(KeyParameter)), Treatment: e.text(KeyTreatment)}
	}
	return d, nil
}

// sources are further names for where a parameter comes from, in the words of KEP-3617.
var sources = map[string]string{
	"label-key":      fieldperm.FromKey,
	"annotation-key": fieldperm.FromKey,
	"finalizer":      fieldperm.FromElement,
	"condition-type": "element.type",
}

func source(name string) string {
	if from, ok := sources[name]; ok {
		return from
	}
	return name
}
