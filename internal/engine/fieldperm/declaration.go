package fieldperm

import (
	"fmt"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// Declaration maps a field to a permission.
type Declaration struct {
	// Source names the author of the declaration, for people: shipped, FieldPermission "x", CustomResourceDefinition
	// "y".
	Source string
	// stored is set for a FieldPermission object.
	stored bool
	// Resources that have the field.
	Resources []Resource
	// Version restricts the declaration to one version of a custom resource; empty means all.
	Version string
	// Field is the field's place.
	Field Path
	// Permission is the name.
	Permission string
	// Parameter is set for a permission that is granted for single keys or elements.
	Parameter *Parameter
	// Exclusive excludes the field from every other permission and from the general verb.
	Exclusive bool
	// ExclusiveWhen is a CEL expression that narrows Exclusive to some values.
	ExclusiveWhen string
	// ReadExclusive hides the field from readers who do not hold the verb that reveals it; KeepKeys shows the keys of a
	// hidden map.
	ReadExclusive, KeepKeys bool
	// Templates of pods in custom resources, to which a permission for a field of pods applies, too.
	Templates []Template
}

// Parameter defines what goes into the parentheses of a verb.
type Parameter struct {
	// From is key, value, element or a CEL expression over them.
	From string
	// Treatment is empty or slash-delimited-prefix.
	Treatment string
}

// Sources and treatments of a parameter.
const (
	FromKey                  = policyv1alpha1.ParameterFromKey
	FromValue                = policyv1alpha1.ParameterFromValue
	FromElement              = policyv1alpha1.ParameterFromElement
	TreatSlashPrefix         = string(policyv1alpha1.TreatmentSlashDelimitedPrefix)
	shippedSource            = "shipped"
	fromElementType          = "element.type" // as CEL reads, and known without CEL
	treatVerbatim            = string(policyv1alpha1.TreatmentVerbatim)
	maxParameterLength       = 253
	maxExpressionLength      = 10240
	unknownTreatmentTemplate = "parameter treatment %q must be empty or %s"
)

// SourceOf returns the source of declarations of a FieldPermission.
func SourceOf(fp *policyv1alpha1.FieldPermission) string {
	return fmt.Sprintf("FieldPermission %q", fp.Name)
}

// FromFieldPermission reads a stored FieldPermission. If it returns an error, which names the broken rule, it also
// returns as much of the declaration as could be read, so what it excludes can stay excluded.
func FromFieldPermission(fp *policyv1alpha1.FieldPermission) (Declaration, error) {
	d := Declaration{
		Source:        SourceOf(fp),
		stored:        true,
		Permission:    fp.Spec.Permission,
		Exclusive:     fp.Spec.Exclusive,
		ExclusiveWhen: fp.Spec.ExclusiveWhen,
		ReadExclusive: fp.Spec.ReadExclusive,
		KeepKeys:      fp.Spec.Keep == policyv1alpha1.KeepKeys,
	}
	if p := fp.Spec.Parameter; p != nil {
		d.Parameter = &Parameter{From: p.From, Treatment: string(p.Treatment)}
	}
	var first error
	if why := fp.Annotations[policyv1alpha1.AnnotationQuarantined]; why != "" {
		// The part that was not understood could be what narrows it.
		first, d.ExclusiveWhen = fmt.Errorf("quarantined: %s", why), ""
	}
	if len(fp.Spec.Resources) == 0 && first == nil {
		first = fmt.Errorf("resources must name at least one resource, or *")
	}
	for _, text := range fp.Spec.Resources {
		if r, err := ParseResource(text); err == nil {
			d.Resources = append(d.Resources, r)
		} else if first == nil {
			first = err
		}
	}
	if (d.Exclusive || d.ReadExclusive) && (len(d.Resources) == 0 || len(d.Resources) < len(fp.Spec.Resources)) {
		d.Resources = []Resource{{}} // whichever resource is meant, the field stays withheld
	}
	templates, err := templatesOf(fp.Spec.Templates)
	if d.Templates = templates; first == nil {
		first = err
	}
	if len(d.Templates) > 0 && !d.about(pods) && first == nil {
		first = fmt.Errorf("templates are those of pods: resources must name pods or *")
	}
	field, err := ParsePath(fp.Spec.Field)
	if err == nil {
		d.Field = field
		err = d.Validate()
	}
	if first == nil {
		first = err
	}
	return d, first
}

// Validate checks a declaration without a schema and without CEL. The error names the broken rule.
func (d *Declaration) Validate() error {
	if err := ValidateName(d.Permission); err != nil {
		return err
	}
	if len(d.Field) == 0 {
		return fmt.Errorf("field must be set, such as .spec.nodeName")
	}
	if d.Field[0].Bracket {
		return fmt.Errorf("field %s must start with a field's name", d.Field)
	}
	if neverCounts(d.Field) {
		return fmt.Errorf("field %s identifies the object or belongs to the server: it never needs a permission", d.Field)
	}
	if err := d.validateParameter(); err != nil {
		return err
	}
	if err := d.validateHidden(); err != nil {
		return err
	}
	if d.ExclusiveWhen != "" && !d.Exclusive {
		return fmt.Errorf("exclusiveWhen must come with exclusive: true")
	}
	if len(d.ExclusiveWhen) > maxExpressionLength {
		return fmt.Errorf("exclusiveWhen must be at most %d bytes long", maxExpressionLength)
	}
	return nil
}

func (d *Declaration) validateParameter() error {
	if s, ok := shippedByName(d.Permission); ok && (s.Parameter != nil) != (d.Parameter != nil) {
		if s.Parameter != nil {
			return fmt.Errorf("permission %s must have a parameter, as it has where it is shipped: %s", d.Permission, s.Field)
		}
		return fmt.Errorf("permission %s must have no parameter, as it has none where it is shipped: %s", d.Permission, s.Field)
	}
	p := d.Parameter
	if p == nil {
		return nil
	}
	switch {
	case p.From == "":
		return fmt.Errorf("parameter must say where it comes from: key, value, element or a CEL expression")
	case len(p.From) > maxExpressionLength:
		return fmt.Errorf("parameter expression must be at most %d bytes long", maxExpressionLength)
	case (p.From == FromKey || p.From == FromElement) && !d.Field.bracketed():
		return fmt.Errorf("parameter from %s needs a field with brackets, such as .metadata.labels[]: %s has none", p.From, d.Field)
	case p.Treatment != treatVerbatim && p.Treatment != TreatSlashPrefix:
		return fmt.Errorf(unknownTreatmentTemplate, p.Treatment, TreatSlashPrefix)
	}
	return nil
}
