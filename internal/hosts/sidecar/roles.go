package sidecar

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/apis/policyreview"
)

// storedRoles reads roles of RBAC from the API server when a binding of them is written. The index has their rules, but
// neither the labels nor the selectors that aggregation goes by. Only bindings by callers whom a deny reaches need it.
type storedRoles struct{ client rbacclient.RbacV1Interface }

var _ policyreview.RBACRoles = storedRoles{}

// newStoredRoles has its own client, so a user who writes many bindings does not delay other requests.
func newStoredRoles(config *rest.Config) (storedRoles, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return storedRoles{}, err
	}
	return storedRoles{client.RbacV1()}, nil
}

// Role implements policyreview.RBACRoles.
func (s storedRoles) Role(ctx context.Context, namespace, name string) (*rbacv1.Role, error) {
	return s.client.Roles(namespace).Get(ctx, name, metav1.GetOptions{})
}

// ClusterRole implements policyreview.RBACRoles.
func (s storedRoles) ClusterRole(ctx context.Context, name string) (*rbacv1.ClusterRole, error) {
	return s.client.ClusterRoles().Get(ctx, name, metav1.GetOptions{})
}

// ClusterRoles implements policyreview.RBACRoles.
func (s storedRoles) ClusterRoles(ctx context.Context, by labels.Selector) ([]rbacv1.ClusterRole, error) {
	list, err := s.client.ClusterRoles().List(ctx, metav1.ListOptions{LabelSelector: by.String()})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}
