package tokens

import (
	"context"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/features/feature"
)

// Requester is the role that lets its subjects ask for tokens of their own, and list them.
const Requester = "proviso:token-requester"

// role writes it, once: an admin who changes or unbinds it has the last word.
type role struct {
	kernel    *feature.Kernel
	everybody bool
}

func (r role) ensure(ctx context.Context) {
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if r.kernel.Replicas.Agreed() != nil || r.kernel.Clients == nil {
			return r.kernel.Clients == nil, nil //nolint:nilerr // it is tried again
		}
		if err := r.write(ctx); err != nil {
			klog.V(2).InfoS("The role of those who ask for narrowed tokens is not written yet", "err", err)
			return false, nil
		}
		return true, nil
	})
	if err != nil && ctx.Err() == nil {
		klog.ErrorS(err, "Writing the role of those who ask for narrowed tokens")
	}
}

func (r role) write(ctx context.Context) error {
	client, err := r.kernel.Clients.Kubernetes()
	if err != nil {
		return err
	}
	_, err = client.RbacV1().ClusterRoles().Get(ctx, Requester, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	// The binding comes first: a server that dies in between tries again.
	if r.everybody {
		_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: Requester},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: Requester},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: user.AllAuthenticated}},
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	_, err = client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: Requester},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{accessv1alpha1.GroupName}, Resources: []string{narrowedTokens}, Verbs: []string{"create"}},
			{NonResourceURLs: []string{ListPath}, Verbs: []string{"get"}},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
