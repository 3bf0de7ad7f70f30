package registry

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"

	access "proviso.dev/proviso/api/access/v1alpha1"
	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/apis/registry/validate"
	"proviso.dev/proviso/internal/state/policycodec"
)

// Tokens issues narrowed tokens.
type Tokens interface {
	// Issue makes a token for the caller, found in the context. A dry run makes none, and fails for the same reasons.
	Issue(ctx context.Context, spec access.NarrowedTokenSpec, dryRun bool) (access.NarrowedTokenStatus, error)
	// Longest is how long a token lives at most, whichever server has issued it.
	Longest(ctx context.Context) (time.Duration, error)
}

// narrowedTokens answers who asks for a token. Nothing is stored.
type narrowedTokens struct{ cfg Config }

var (
	_ rest.Creater              = &narrowedTokens{}
	_ rest.Scoper               = &narrowedTokens{}
	_ rest.SingularNameProvider = &narrowedTokens{}
)

// New returns an empty question.
func (*narrowedTokens) New() runtime.Object { return &access.NarrowedToken{} }

// Destroy does nothing.
func (*narrowedTokens) Destroy() {}

// NamespaceScoped is false: a token is about all namespaces that its rules name.
func (*narrowedTokens) NamespaceScoped() bool { return false }

// GetSingularName is the singular of the resource.
func (*narrowedTokens) GetSingularName() string { return "narrowedtoken" }

// Create issues a token.
func (r *narrowedTokens) Create(ctx context.Context, obj runtime.Object, validation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	token, ok := obj.(*access.NarrowedToken)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a narrowed token: %T", obj))
	}
	if r.cfg.Tokens == nil {
		return nil, apierrors.NewMethodNotSupported(access.Resource("narrowedtokens"), "create")
	}
	if err := r.check(ctx, token); err != nil {
		return nil, err
	}
	if validation != nil {
		if err := validation(ctx, token.DeepCopyObject()); err != nil {
			return nil, err
		}
	}
	out := token.DeepCopy()
	var err error
	out.Status, err = r.cfg.Tokens.Issue(ctx, token.Spec, options != nil && len(options.DryRun) > 0)
	return out, err
}

// check checks everything about what is asked for. Conditions are compiled in the caller's turn.
func (r *narrowedTokens) check(ctx context.Context, token *access.NarrowedToken) error {
	rules := make([]policy.PolicyRule, 0, len(token.Spec.Rules))
	for _, one := range token.Spec.Rules {
		rules = append(rules, one.PolicyRule)
	}
	done, err := conditionsTurn(ctx, r.cfg, &authz.Role{Rules: rules}, nil)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	errs := validate.NarrowedToken(token, func(rule policy.PolicyRule, path *field.Path) field.ErrorList {
		if ctx.Err() != nil {
			return field.ErrorList{field.Invalid(path, field.OmitValueType{}, fmt.Sprintf("checking the conditions takes longer than %s: simplify them", checkTimeout))}
		}
		return r.cfg.Rules.CheckRule(rule, path)
	})
	if len(errs) > 0 {
		kinds, _, err := policycodec.Scheme.ObjectKinds(token)
		if err != nil {
			return err
		}
		return apierrors.NewInvalid(kinds[0].GroupKind(), token.Name, few(errs))
	}
	for _, text := range validate.Warnings(rules, r.cfg.Rules.Unserved, true) {
		warning.AddWarning(ctx, "", text)
	}
	return nil
}
