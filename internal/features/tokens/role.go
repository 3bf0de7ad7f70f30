package tokens

import (
	"context"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	clientrbacv1 "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/features/feature"
)

// Requester is the role that lets its subjects ask for tokens of their own, and list them.
const Requester = "proviso:token-requester"

// requesterRules are what the role allows. They are written nowhere else.
func requesterRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{accessv1alpha1.GroupName}, Resources: []string{narrowedTokens}, Verbs: []string{"create"}},
		{NonResourceURLs: []string{ListPath}, Verbs: []string{"get"}},
	}
}

// role writes it, as upstream does its own: rules that are missing are added at each start, unless the annotation
// rbac.authorization.kubernetes.io/autoupdate of the role is false, and none is taken away. The binding is written
// once: an admin who unbinds it has the last word.
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
	return retry.RetryOnConflict(retry.DefaultRetry, func() error { return r.reconcile(ctx, client.RbacV1()) })
}

// reconcile creates the role, or adds what is missing in it.
func (r role) reconcile(ctx context.Context, client clientrbacv1.RbacV1Interface) error {
	there, err := client.ClusterRoles().Get(ctx, Requester, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return r.create(ctx, client)
	}
	if err != nil || there.Annotations[rbacv1.AutoUpdateAnnotationKey] == "false" {
		return err
	}
	missing := slices.DeleteFunc(requesterRules(), func(want rbacv1.PolicyRule) bool {
		return slices.ContainsFunc(there.Rules, func(has rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(has, want) })
	})
	if len(missing) == 0 {
		return nil
	}
	there.Rules = append(there.Rules, missing...)
	_, err = client.ClusterRoles().Update(ctx, there, metav1.UpdateOptions{})
	return err
}

// create writes the binding first: a server that dies in between tries again.
func (r role) create(ctx context.Context, client clientrbacv1.RbacV1Interface) error {
	if r.everybody {
		_, err := client.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: Requester},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: Requester},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: user.AllAuthenticated}},
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	_, err := client.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: Requester, Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"}},
		Rules:      requesterRules(),
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
