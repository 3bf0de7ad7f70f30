package registry

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/klog/v2"

	access "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/apis/registry/validate"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/journal"
	"proviso.dev/proviso/internal/state/policycodec"
)

func tokenRevocationKind() *kind[*access.TokenRevocation] {
	return &kind[*access.TokenRevocation]{
		version: access.SchemeGroupVersion, plural: "tokenrevocations", singular: "tokenrevocation",
		newObject: func() *access.TokenRevocation { return &access.TokenRevocation{} },
		newList:   func() runtime.Object { return &access.TokenRevocationList{} },
		columns: []column[*access.TokenRevocation]{
			{name: "Tokens", description: "The ids of the tokens.", cell: func(r *access.TokenRevocation) any { return strings.Join(r.Spec.TokenIDs, ",") }},
			{name: "Users", description: "The users, all of whose tokens are meant.", cell: func(r *access.TokenRevocation) any { return strings.Join(r.Spec.UserNames, ",") }},
			{name: "Issued Before", description: "Tokens that were issued later are not meant.", cell: func(r *access.TokenRevocation) any {
				if r.Spec.IssuedBefore == nil {
					return ""
				}
				return r.Spec.IssuedBefore.UTC().Format(time.RFC3339)
			}},
		},
		prepare: func(r, old *access.TokenRevocation) {
			if old == nil && r.Spec.IssuedBefore == nil {
				now := metav1.Now().Rfc3339Copy()
				r.Spec.IssuedBefore = &now
			}
		},
		validate: func(_ context.Context, r, old *access.TokenRevocation) field.ErrorList {
			return validate.TokenRevocation(r, old, time.Now())
		},
		sameContent: func(a, b *access.TokenRevocation) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) },
	}
}

// withTokens adds the resources of narrowed tokens to those of the group.
func withTokens(all map[string]rest.Storage, cfg Config, revocations *storage[*access.TokenRevocation]) map[string]rest.Storage {
	all["narrowedtokens"] = &narrowedTokens{cfg: cfg}
	all["tokenrevocations"] = &tokenRevocations{storage: revocations, tokens: cfg.Tokens}
	return all
}

// tokenRevocations keeps revocations for as long as a token could live that they are about.
type tokenRevocations struct {
	*storage[*access.TokenRevocation]
	tokens Tokens
	pace   pace
}

// Create revokes. A caller with a narrowed token needs no right, and can revoke that token, once.
func (s *tokenRevocations) Create(ctx context.Context, obj runtime.Object, validation rest.ValidateObjectFunc, options *metav1.CreateOptions) (runtime.Object, error) {
	if token := requestctx.TokenOf(ctx); token != nil {
		ctx = journal.OwnToken(ctx)
		r := cast[*access.TokenRevocation](obj)
		if r == nil || !slices.Equal(r.Spec.TokenIDs, []string{token.Payload.ID}) || len(r.Spec.UserNames) > 0 {
			return nil, apierrors.NewForbidden(access.Resource("tokenrevocations"), "", fmt.Errorf("a narrowed token can revoke itself only: give spec.tokenIDs [%s]", token.Payload.ID))
		}
		r.ObjectMeta = metav1.ObjectMeta{Name: "token-" + token.Payload.ID}
		r.Spec.IssuedBefore = nil // now, so that it is about this token
		if err := s.pace.allow(token.Payload.User.Name, time.Now()); err != nil {
			return nil, err
		}
	}
	return s.storage.Create(ctx, obj, validation, options)
}

// Delete removes a revocation that no token can be about any more.
func (s *tokenRevocations) Delete(ctx context.Context, name string, validation rest.ValidateObjectFunc, options *metav1.DeleteOptions) (runtime.Object, bool, error) {
	return s.storage.Delete(ctx, name, s.over(validation), options)
}

// DeleteCollection removes revocations, up to the first one that is still needed.
func (s *tokenRevocations) DeleteCollection(ctx context.Context, validation rest.ValidateObjectFunc, options *metav1.DeleteOptions, list *metainternalversion.ListOptions) (runtime.Object, error) {
	return s.storage.DeleteCollection(ctx, s.over(validation), options, list)
}

func (s *tokenRevocations) over(validation rest.ValidateObjectFunc) rest.ValidateObjectFunc {
	return func(ctx context.Context, obj runtime.Object) error {
		if validation != nil {
			if err := validation(ctx, obj); err != nil {
				return err
			}
		}
		r := cast[*access.TokenRevocation](obj)
		if policycodec.Quarantined(r) != "" || r.Spec.IssuedBefore == nil {
			return nil // nothing says until when it is needed; it revokes every token until it is gone
		}
		if s.tokens == nil {
			return apierrors.NewForbidden(s.kind.resource(), r.Name, fmt.Errorf("narrowed tokens are off"))
		}
		longest, err := s.tokens.Longest(ctx)
		if err != nil {
			klog.ErrorS(err, "A revocation was not deleted, because it is not known how long a narrowed token can live")
			return apierrors.NewServiceUnavailable("it is not known how long a token can live that it revokes: try again in a moment")
		}
		if until := r.Spec.IssuedBefore.Add(longest); time.Now().Before(until) {
			return apierrors.NewForbidden(s.kind.resource(), r.Name, fmt.Errorf(
				"tokens that it revokes may live until %s: it cannot be deleted before, and is deleted by itself then", until.UTC().Format(time.RFC3339)))
		}
		return nil
	}
}
