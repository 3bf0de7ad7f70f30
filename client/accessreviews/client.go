// Package accessreviews is the client for access reviews that ask for conditions. The types are those of
// api/authorizationreview, which add to Kubernetes' own; a server that does not know them answers as it always has.
package accessreviews

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	reviewv1alpha1 "proviso.dev/proviso/api/authorizationreview/v1alpha1"
)

// Client creates reviews.
type Client struct{ v1, v1alpha1 rest.Interface }

// New returns a client for the server of a configuration. It speaks JSON: Protobuf has no conditions.
func New(config *rest.Config) (*Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(reviewv1.AddToScheme(scheme), reviewv1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	codecs := serializer.NewCodecFactory(scheme).WithoutConversion()
	v1, err := forVersion(config, reviewv1.SchemeGroupVersion, codecs)
	if err != nil {
		return nil, err
	}
	v1alpha1, err := forVersion(config, reviewv1alpha1.SchemeGroupVersion, codecs)
	if err != nil {
		return nil, err
	}
	return &Client{v1: v1, v1alpha1: v1alpha1}, nil
}

func forVersion(config *rest.Config, version schema.GroupVersion, codecs runtime.NegotiatedSerializer) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion, config.NegotiatedSerializer = "/apis", &version, codecs
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	return rest.RESTClientFor(config)
}

// Subject asks what a user may do.
func (c *Client) Subject(ctx context.Context, review *reviewv1.SubjectAccessReview) (*reviewv1.SubjectAccessReview, error) {
	answer := &reviewv1.SubjectAccessReview{}
	return answer, c.v1.Post().Resource("subjectaccessreviews").Body(review).Do(ctx).Into(answer)
}

// Self asks what the caller may do.
func (c *Client) Self(ctx context.Context, review *reviewv1.SelfSubjectAccessReview) (*reviewv1.SelfSubjectAccessReview, error) {
	answer := &reviewv1.SelfSubjectAccessReview{}
	return answer, c.v1.Post().Resource("selfsubjectaccessreviews").Body(review).Do(ctx).Into(answer)
}

// Local asks what a user may do in the namespace of the review.
func (c *Client) Local(ctx context.Context, review *reviewv1.LocalSubjectAccessReview) (*reviewv1.LocalSubjectAccessReview, error) {
	answer := &reviewv1.LocalSubjectAccessReview{}
	return answer, c.v1.Post().Namespace(review.Namespace).Resource("localsubjectaccessreviews").Body(review).Do(ctx).Into(answer)
}

// Conditions asks what a set of conditions comes to for an object.
func (c *Client) Conditions(ctx context.Context, review *reviewv1alpha1.AuthorizationConditionsReview) (*reviewv1alpha1.AuthorizationConditionsReview, error) {
	answer := &reviewv1alpha1.AuthorizationConditionsReview{}
	return answer, c.v1alpha1.Post().Resource("authorizationconditionsreviews").Body(review).Do(ctx).Into(answer)
}
