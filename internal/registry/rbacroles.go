package registry

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/informers"
)

// RBACRoles answers from informers which RBAC roles exist.
type RBACRoles struct {
	Informers informers.SharedInformerFactory
}

// RoleExists looks for a Role, or for a ClusterRole.
func (r RBACRoles) RoleExists(_ context.Context, kind, namespace, name string) (bool, error) {
	var err error
	if kind == "ClusterRole" {
		_, err = r.Informers.Rbac().V1().ClusterRoles().Lister().Get(name)
	} else {
		_, err = r.Informers.Rbac().V1().Roles().Lister().Roles(namespace).Get(name)
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}
