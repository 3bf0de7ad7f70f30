package enforce

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/denial"
)

// reshapes refuses to remove a field from the schema of a custom resource, or to change its kind, if a rule denies the
// caller something about its objects: the server would no longer show the field to the rule, or find the rule by the
// kind, and the caller could put it back afterwards.
func (c *cause) reshapes(ctx context.Context) error {
	rules := c.snapshot().Rules
	namespaces := append([]string{""}, rules.DeniesIn(c.GetUserInfo())...)
	was, ok := c.GetOldObject().(*apiextensions.CustomResourceDefinition)
	is, too := c.GetObject().(*apiextensions.CustomResourceDefinition)
	// An unreadable definition may hide everything: unserves has refused it only to callers who are denied some delete.
	hidden, version := "what cannot be read of the definition", ""
	if ok && too {
		hidden, version = hiddenBy(was, is), was.Spec.Version
	}
	if hidden == "" {
		return nil
	}
	plural, group, _ := strings.Cut(c.name(), ".")
	for _, namespace := range namespaces {
		for _, verb := range verbs.All() {
			request := authorizer.AttributesRecord{User: c.GetUserInfo(), Verb: verb, Namespace: namespace, APIGroup: group, APIVersion: version,
				Resource: plural, ResourceRequest: true}
			if hit, may := rules.MayDeny(request); may && c.Denials.MayBeDenied(ctx, request) {
				c.by.Rules, c.by.Ask = []string{hit.Reason()}, &denial.Question{Attributes: request}
				return forbidden(c, fmt.Sprintf("%s would be hidden from rules, and one denies you %s on objects of the definition: %s", hidden, verb, hit.Reason()))
			}
		}
	}
	return nil
}

// renamed reports whether the objects are of another kind after the change, so rules that name the kind miss them. The
// API server accepts that of a definition whose status says that it is not established, and shows the kind that the
// status names.
func renamed(was, is *apiextensions.CustomResourceDefinition) bool {
	return kindOf(was) != kindOf(is) || was.Spec.Names.Kind != is.Spec.Names.Kind
}

// kindOf returns the kind that is served.
func kindOf(d *apiextensions.CustomResourceDefinition) string {
	return cmp.Or(d.Status.AcceptedNames.Kind, d.Spec.Names.Kind)
}

// hiddenBy returns a field that a version keeps now and would drop after the change; empty if there is none.
func hiddenBy(was, is *apiextensions.CustomResourceDefinition) string {
	switch {
	case renamed(was, is):
		return "the kind " + kindOf(was)
	case unpruned(was) && !unpruned(is):
		return "every field without a schema"
	case is.Spec.Conversion != nil && is.Spec.Conversion.Strategy == apiextensions.WebhookConverter && !equality.Semantic.DeepEqual(was.Spec.Conversion, is.Spec.Conversion):
		return "what the webhook of the conversion leaves out"
	case unpruned(is):
		return ""
	}
	anyToAny := remixed(was, is)
	for i := range was.Spec.Versions {
		old := &was.Spec.Versions[i]
		if !old.Served && !old.Storage {
			continue
		}
		for k := range is.Spec.Versions {
			now := &is.Spec.Versions[k]
			if now.Name != old.Name && (!anyToAny || !now.Served && !now.Storage) {
				continue
			}
			if path := dropped(schemaOf(was, old), schemaOf(is, now), ""); path != "" {
				return fmt.Sprintf("%s of version %s", path, old.Name)
			}
		}
	}
	return ""
}

// remixed reports whether objects may be read and written in other versions than before, or rules see them in a
// different one.
func remixed(was, is *apiextensions.CustomResourceDefinition) bool {
	type use struct{ served, storage bool }
	uses := func(d *apiextensions.CustomResourceDefinition) map[string]use {
		all := map[string]use{}
		for i := range d.Spec.Versions {
			if v := &d.Spec.Versions[i]; v.Served || v.Storage {
				all[v.Name] = use{v.Served, v.Storage}
			}
		}
		return all
	}
	return !maps.Equal(uses(was), uses(is)) || !equality.Semantic.DeepEqual(was.Spec.Conversion, is.Spec.Conversion)
}

func unpruned(d *apiextensions.CustomResourceDefinition) bool {
	return d.Spec.PreserveUnknownFields != nil && *d.Spec.PreserveUnknownFields
}

func schemaOf(d *apiextensions.CustomResourceDefinition, v *apiextensions.CustomResourceDefinitionVersion) *apiextensions.JSONSchemaProps {
	validation := v.Schema
	if validation == nil {
		validation = d.Spec.Validation
	}
	if validation == nil {
		return nil
	}
	return validation.OpenAPIV3Schema
}

// dropped returns a path that one schema keeps and the other drops; empty if there is none.
func dropped(old, new *apiextensions.JSONSchemaProps, path string) string {
	keepsAll := func(s *apiextensions.JSONSchemaProps) bool {
		return s == nil || s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields
	}
	switch {
	case new == nil:
		return ""
	case keepsAll(old) && !keepsAll(new), old != nil && old.XEmbeddedResource && !new.XEmbeddedResource:
		return "what is below " + named(path)
	case old == nil:
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(old.Properties)) {
		p, below := old.Properties[name], path+"."+name
		if next, ok := new.Properties[name]; ok {
			if found := dropped(&p, &next, below); found != "" {
				return found
			}
			continue
		}
		if more := new.AdditionalProperties; more != nil && more.Schema != nil {
			if found := dropped(&p, more.Schema, below); found != "" {
				return found
			}
			continue
		}
		if !keepsAll(new) && (new.AdditionalProperties == nil || !new.AdditionalProperties.Allows) {
			return below
		}
	}
	if more := old.AdditionalProperties; more != nil && (more.Allows || more.Schema != nil) {
		switch next := new.AdditionalProperties; {
		case next == nil && !keepsAll(new):
			return "what is below " + named(path)
		case next != nil && next.Schema != nil:
			if found := dropped(more.Schema, next.Schema, path+".*"); found != "" {
				return found
			}
		}
	}
	if old.Items != nil && old.Items.Schema != nil {
		if new.Items == nil || new.Items.Schema == nil {
			if !keepsAll(new) {
				return "what is below " + named(path)
			}
			return ""
		}
		return dropped(old.Items.Schema, new.Items.Schema, path+"[]")
	}
	return ""
}

func named(path string) string {
	if path == "" {
		return "the object"
	}
	return path
}
