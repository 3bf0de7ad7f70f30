package server

import (
	"context"
	"errors"

	"k8s.io/apiserver/pkg/authentication/user"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
)

// reviewer answers the reviews of authorization.proviso.dev.
type reviewer struct{}

var errNotServed = errors.New("this review is not served yet")

func (reviewer) WhoCan(context.Context, string, authz.ResourceAccessReviewSpec) (authz.ResourceAccessReviewStatus, error) {
	return authz.ResourceAccessReviewStatus{}, errNotServed
}

func (reviewer) SubjectCan(context.Context, user.Info, string, authz.SubjectAccessReviewSpec) (authz.SubjectAccessReviewStatus, error) {
	return authz.SubjectAccessReviewStatus{}, errNotServed
}
