package validate

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	access "proviso.dev/proviso/api/access/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/narrowedtoken"
)

// Limits of what is asked for.
const (
	maxTokenRules   = 64
	maxAudience     = 256
	minTokenSeconds = 10
	maxRevoked      = 1000
)

// NarrowedToken checks what a caller asks for.
func NarrowedToken(t *access.NarrowedToken, check func(policy.PolicyRule, *field.Path) field.ErrorList) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	if s := t.Spec.ExpirationSeconds; s != nil && *s < minTokenSeconds {
		errs = append(errs, field.Invalid(spec.Child("expirationSeconds"), *s, fmt.Sprintf("want at least %d", minTokenSeconds)))
	}
	if err := narrowedtoken.CheckDescription(t.Spec.Description); err != nil {
		errs = append(errs, field.Invalid(spec.Child("description"), field.OmitValueType{}, err.Error()))
	}
	if len(t.Spec.Audience) > maxAudience {
		errs = append(errs, field.TooLong(spec.Child("audience"), "", maxAudience))
	}
	if len(t.Spec.Rules) > maxTokenRules {
		return append(errs, field.TooMany(spec.Child("rules"), len(t.Spec.Rules), maxTokenRules))
	}
	for i := range t.Spec.Rules {
		errs = append(errs, tokenRule(&t.Spec.Rules[i], spec.Child("rules").Index(i), check)...)
	}
	return errs
}

// tokenRule checks one rule as one of Policy that holds everywhere, and its namespaces.
func tokenRule(r *access.TokenRule, path *field.Path, check func(policy.PolicyRule, *field.Path) field.ErrorList) field.ErrorList {
	errs := Rules([]policy.PolicyRule{r.PolicyRule}, true, path, check)
	for _, e := range errs { // the rule is not in a list here
		if at := path.Index(0).String(); len(e.Field) >= len(at) && e.Field[:len(at)] == at {
			e.Field = path.String() + e.Field[len(at):]
		}
	}
	if r.Shadowed() {
		errs = append(errs, field.Forbidden(path.Child("enforcement"), "the rules of a token are always enforced"))
	}
	at := path.Child("namespaces")
	switch {
	case r.Namespaces != nil && len(r.Namespaces) == 0:
		errs = append(errs, field.Required(at, "name a namespace, or leave it out for all of them"))
	case len(r.Namespaces) > 0 && len(r.NonResourceURLs) > 0:
		errs = append(errs, field.Forbidden(at, "paths belong to no namespace"))
	}
	for i, name := range r.Namespaces {
		for _, msg := range validation.IsDNS1123Label(name) {
			errs = append(errs, field.Invalid(at.Index(i), name, msg))
		}
	}
	return errs
}

// TokenRevocation checks what is revoked. Nothing of it can be changed.
func TokenRevocation(r, old *access.TokenRevocation, now time.Time) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	if old != nil {
		if !slices.Equal(r.Spec.TokenIDs, old.Spec.TokenIDs) || !slices.Equal(r.Spec.UserNames, old.Spec.UserNames) || !r.Spec.IssuedBefore.Equal(old.Spec.IssuedBefore) {
			errs = append(errs, field.Forbidden(spec, "a revocation cannot be changed: create another one"))
		}
		return errs
	}
	if len(r.Spec.TokenIDs)+len(r.Spec.UserNames) == 0 {
		errs = append(errs, field.Required(spec, "give tokenIDs or userNames"))
	}
	if before := r.Spec.IssuedBefore; before == nil || before.After(now.Add(time.Second)) {
		errs = append(errs, field.Invalid(spec.Child("issuedBefore"), before, "only tokens that have been issued can be revoked: leave it out for all of them"))
	}
	for _, list := range []struct {
		name string
		of   []string
		is   func(string) bool
		want string
	}{
		{"tokenIDs", r.Spec.TokenIDs, narrowedtoken.IsID, "is not the id of a token; `proviso token inspect` shows it"},
		{"userNames", r.Spec.UserNames, func(name string) bool { return name != "" }, "a user has a name"},
	} {
		at := spec.Child(list.name)
		if len(list.of) > maxRevoked {
			errs = append(errs, field.TooMany(at, len(list.of), maxRevoked))
			continue
		}
		for i, one := range list.of {
			if !list.is(one) {
				errs = append(errs, field.Invalid(at.Index(i), one, list.want))
			}
		}
	}
	return errs
}
