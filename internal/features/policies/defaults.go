package policies

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/state/selfclient"
)

// annotationDefault holds the hash of the rules that the server wrote last. A role whose rules have another hash was
// edited by an admin and is not changed.
const annotationDefault = "policy.proviso.dev/default-rules"

// ensureDefaults makes sure that the master namespace and its default roles exist. It retries until it succeeds: right
// after the start the server may not serve everything yet. A server whose replicas have agreed on another master
// namespace writes nothing.
func ensureDefaults(ctx context.Context, clients *selfclient.Clients, master string, replicas authorize.Agreement) {
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if replicas.Agreed() != nil {
			return false, nil //nolint:nilerr // it is tried again
		}
		if err := writeDefaults(ctx, clients, master); err != nil {
			klog.V(2).InfoS("Default roles are not written yet", "err", err)
			return false, nil
		}
		return true, nil
	})
	if err != nil && ctx.Err() == nil {
		klog.ErrorS(err, "Writing the default roles")
	}
}

func writeDefaults(ctx context.Context, clients *selfclient.Clients, master string) error {
	client, err := clients.Kubernetes()
	if err != nil {
		return err
	}
	policies, err := clients.Group(policyv1alpha1.SchemeGroupVersion)
	if err != nil {
		return err
	}
	roles, err := clients.Group(authz.SchemeGroupVersion)
	if err != nil {
		return err
	}
	// Beside a stock server it is made at installation, and this host may not make namespaces.
	if _, err = client.CoreV1().Namespaces().Get(ctx, master, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: master}}, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	policy := &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: master}}
	if err := created(policies.Post().Namespace(master).Resource("policies").Body(policy).Do(ctx)); err != nil {
		return err
	}
	binding := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: master, Namespace: master}}
	if err := created(policies.Post().Namespace(master).Resource("policybindings").Body(binding).Do(ctx)); err != nil {
		return err
	}
	for name, rules := range DefaultRoles() {
		if err := writeDefaultRole(ctx, roles, master, name, rules); err != nil {
			return fmt.Errorf("role %s: %w", name, err)
		}
	}
	for _, binding := range DefaultRoleBindings(master) {
		if err := created(roles.Post().Namespace(master).Resource("rolebindings").Body(binding).Do(ctx)); err != nil {
			return fmt.Errorf("role binding %s: %w", binding.Name, err)
		}
	}
	return nil
}

// DefaultRoleBindings are the role bindings of the master namespace.
func DefaultRoleBindings(master string) (bindings []*authz.RoleBinding) {
	for _, b := range []struct{ name, role, group string }{
		{"cluster-admins", "cluster-admin", user.SystemPrivilegedGroup},
		{"basic-users", "basic-user", user.AllAuthenticated},
	} {
		bindings = append(bindings, &authz.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: b.name, Namespace: master},
			RoleRef:    authz.RoleRef{Namespace: master, Name: b.role},
			GroupNames: []string{b.group},
		})
	}
	return bindings
}

// created accepts that something exists already.
func created(result rest.Result) error {
	if err := result.Error(); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// writeDefaultRole creates a role, or updates one that no admin has edited.
func writeDefaultRole(ctx context.Context, client *rest.RESTClient, master, name string, rules []policyv1alpha1.PolicyRule) error {
	hash := rulesHash(rules)
	role := &authz.Role{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: master, Annotations: map[string]string{annotationDefault: hash}},
		Rules:      rules,
	}
	err := client.Post().Namespace(master).Resource("roles").Body(role).Do(ctx).Error()
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	current := &authz.Role{}
	if err := client.Get().Namespace(master).Resource("roles").Name(name).Do(ctx).Into(current); err != nil {
		return err
	}
	written := current.Annotations[annotationDefault]
	if written == hash || written == "" || rulesHash(current.Rules) != written {
		return nil
	}
	current.Rules = rules
	current.Annotations[annotationDefault] = hash
	return client.Put().Namespace(master).Resource("roles").Name(name).Body(current).Do(ctx).Error()
}

func rulesHash(rules []policyv1alpha1.PolicyRule) string {
	data, err := json.Marshal(rules)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}
