package enforce

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/denial"
)

// reshapes refuses to change what rules see of custom resources, or which requests write them, if a rule denies the
// caller something about the objects: the server would no longer show the rule a field, or show it another value, or
// not find the rule by the kind or the subresource, and the caller could undo the change afterwards.
func (c *cause) reshapes(ctx context.Context) error {
	rules := c.snapshot().Rules
	namespaces := append([]string{""}, rules.DeniesIn(c.GetUserInfo())...)
	was, ok := c.GetOldObject().(*apiextensions.CustomResourceDefinition)
	is, too := c.GetObject().(*apiextensions.CustomResourceDefinition)
	// An unreadable definition may hide everything: unserves has refused it only to callers who are denied some delete.
	change, version := "what cannot be read of the definition would be hidden from rules", ""
	if ok && too {
		change, version = reshaped(was, is), was.Spec.Version
	}
	if change == "" {
		return nil
	}
	plural, group, _ := strings.Cut(c.name(), ".")
	for _, namespace := range namespaces {
		for _, verb := range verbs.All() {
			for _, sub := range []string{"", "/status", "/scale"} {
				request := authorizer.AttributesRecord{User: c.GetUserInfo(), Verb: verb, Namespace: namespace, APIGroup: group, APIVersion: version,
					Resource: plural, Subresource: strings.TrimPrefix(sub, "/"), ResourceRequest: true}
				if hit, may := rules.MayDeny(request); may && c.Denials.MayBeDenied(ctx, request) {
					c.by.Rules, c.by.Ask = []string{hit.Reason()}, &denial.Question{Attributes: request}
					return forbidden(c, fmt.Sprintf("%s, and one denies you %s on %s: %s", change, verb, c.name()+sub, hit.Reason()))
				}
			}
		}
	}
	return nil
}

// reshaped says what a change of a definition does to what rules see or cover; empty if it does nothing.
func reshaped(was, is *apiextensions.CustomResourceDefinition) string {
	if hidden := hiddenBy(was, is); hidden != "" {
		return hidden + " would be hidden from rules"
	}
	return eachPair(was, is, func(old, now *apiextensions.CustomResourceDefinitionVersion) string {
		if path := refilled(schemaOf(was, old), schemaOf(is, now), true, ""); path != "" {
			return fmt.Sprintf("another default or nullable of %s in version %s would change what rules see", path, old.Name)
		}
		if sub := switched(subresourcesOf(was, old), subresourcesOf(is, now)); sub != "" {
			return fmt.Sprintf("another subresource %s of version %s would change which requests write which fields", sub, old.Name)
		}
		return ""
	})
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
	return eachPair(was, is, func(old, now *apiextensions.CustomResourceDefinitionVersion) string {
		if path := dropped(schemaOf(was, old), schemaOf(is, now), ""); path != "" {
			return fmt.Sprintf("%s of version %s", path, old.Name)
		}
		return ""
	})
}

// eachPair visits each version with what is left of it after the change, until one of them is found to differ. A
// version that is neither served nor stored now may have been stored before. If versions are used differently, the
// objects of each may become those of any other.
func eachPair(was, is *apiextensions.CustomResourceDefinition, differ func(old, now *apiextensions.CustomResourceDefinitionVersion) string) string {
	anyToAny := remixed(was, is)
	used := func(v *apiextensions.CustomResourceDefinitionVersion) bool { return v.Served || v.Storage }
	for i := range was.Spec.Versions {
		for k := range is.Spec.Versions {
			old, now := &was.Spec.Versions[i], &is.Spec.Versions[k]
			if old.Name != now.Name && (!anyToAny || !used(old) || !used(now)) {
				continue
			}
			if found := differ(old, now); found != "" {
				return found
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

func subresourcesOf(d *apiextensions.CustomResourceDefinition, v *apiextensions.CustomResourceDefinitionVersion) apiextensions.CustomResourceSubresources {
	for _, s := range []*apiextensions.CustomResourceSubresources{v.Subresources, d.Spec.Subresources} {
		if s != nil {
			return *s
		}
	}
	return apiextensions.CustomResourceSubresources{}
}

// switched returns a subresource that is added, removed or changed; empty if there is none. With a status, the main
// resource ignores the field of that name.
func switched(was, is apiextensions.CustomResourceSubresources) string {
	switch {
	case (was.Status == nil) != (is.Status == nil):
		return "status"
	case !equality.Semantic.DeepEqual(was.Scale, is.Scale):
		return "scale"
	}
	return ""
}
