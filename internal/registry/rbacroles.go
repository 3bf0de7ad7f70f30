package registry

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/informers"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
)

// RBACRoles answers from informers which RBAC roles exist.
type RBACRoles struct {
	roles        rbaclisters.RoleLister
	clusterRoles rbaclisters.ClusterRoleLister
}

// NewRBACRoles asks for the informers, which must not run yet.
func NewRBACRoles(informers informers.SharedInformerFactory) RBACRoles {
	rbac := informers.Rbac().V1()
	return RBACRoles{roles: rbac.Roles().Lister(), clusterRoles: rbac.ClusterRoles().Lister()}
}

// RoleExists looks for a Role, or for a ClusterRole.
func (r RBACRoles) RoleExists(_ context.Context, kind, namespace, name string) (bool, error) {
	var err error
	if kind == "ClusterRole" {
		_, err = r.clusterRoles.Get(name)
	} else {
		_, err = r.roles.Roles(namespace).Get(name)
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}
