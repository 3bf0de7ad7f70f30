package accessreview

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
)

// at is the context of a question about an instant. Without one it stays as it is.
func at(ctx context.Context, question *reviewv1.Question) (context.Context, error) {
	if question.Time == nil {
		return ctx, nil
	}
	holder := requestctx.From(ctx)
	if holder == nil || holder.Snapshot == nil {
		return ctx, apierrors.NewBadRequest("spec.time: the policy of this server does not depend on the time")
	}
	return requestctx.At(ctx, holder.Snapshot, question.Time.Time), nil
}

// until is when the answer changes next: from yes, no or conditional to another of them.
func (a *answerer) until(ctx context.Context, attrs authorizer.AttributesRecord, want form, now *reviewv1.SubjectAccessReviewStatus) *metav1.Time {
	holder := requestctx.From(ctx)
	if holder == nil || holder.Snapshot == nil {
		return nil
	}
	return authorize.NextChange(ctx, holder.Snapshot, attrs.User, func(ctx context.Context) bool {
		then := a.answer(ctx, attrs, want)
		return then.Allowed == now.Allowed && refused(then) == refused(*now)
	})
}
