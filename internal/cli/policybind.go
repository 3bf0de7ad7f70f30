package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/platform/terminal"
)

// attempts is how often a change is tried that another change has overtaken.
const attempts = 5

func newRevokeCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := newPolicyOptions(streams)
	cmd := &cobra.Command{
		Use:   "revoke ROLE (--user NAME | --group NAME | --serviceaccount NAMESPACE:NAME)...",
		Short: "Revoke a role from users and groups in a namespace; undoes grant and deny",
		Example: `  # Edgar no longer edits in namespace hammer
  proviso policy revoke edit --user edgar -n hammer

  # Lift the deny on deleting config maps
  proviso policy revoke deny-delete-configmaps --user edgar -n hammer`,
		Args: oneRole("revoke"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.subjects(); err != nil {
				return err
			}
			namespace, err := o.namespace()
			if err != nil {
				return err
			}
			return o.unbind(cmd.Context(), namespace, args[0])
		},
	}
	o.addPolicyFlags(cmd)
	o.addSubjectFlags(cmd)
	cmd.ValidArgsFunction = o.completeRoles
	return cmd
}

// bind makes sure that the subjects are in a role binding.
func (o *PolicyOptions) bind(ctx context.Context, wanted *authz.RoleBinding) error {
	namespace, name, ref := wanted.Namespace, wanted.Name, wanted.RoleRef
	path := rolesPath(namespace, "rolebindings")
	for range attempts {
		binding := &authz.RoleBinding{}
		err := o.get(ctx, path+"/"+name, nil, binding)
		switch {
		case apierrors.IsNotFound(err) || o.DryRun && err != nil:
			binding = &authz.RoleBinding{TypeMeta: typeMeta(authz.SchemeGroupVersion.String(), "RoleBinding"),
				ObjectMeta: wanted.ObjectMeta, RoleRef: ref, UserNames: o.Users, GroupNames: o.Groups, NotBefore: wanted.NotBefore, NotAfter: wanted.NotAfter}
			return o.create(ctx, "rolebindings", binding, binding.ObjectMeta)
		case err != nil:
			return err
		case binding.RoleRef != ref:
			return fmt.Errorf("role binding %s/%s gives another role, %s; choose another name with --binding", namespace, name, spellRole(binding.RoleRef))
		case !binding.NotBefore.Equal(wanted.NotBefore) || !binding.NotAfter.Equal(wanted.NotAfter):
			return fmt.Errorf("role binding %s/%s counts for another time; choose another name with --binding", namespace, name)
		}
		users, groups := union(binding.UserNames, o.Users), union(binding.GroupNames, o.Groups)
		if len(users) == len(binding.UserNames) && len(groups) == len(binding.GroupNames) {
			o.say("rolebinding."+authz.GroupName, name, "unchanged")
			return nil
		}
		binding.UserNames, binding.GroupNames = users, groups
		if err = o.update(ctx, path+"/"+name, "rolebinding."+authz.GroupName, binding, binding.ObjectMeta); !apierrors.IsConflict(err) {
			return err
		}
	}
	return fmt.Errorf("role binding %s/%s keeps being changed by others; try again", namespace, name)
}

func spellRole(ref authz.RoleRef) string {
	if ref.ClusterRole() {
		return "ClusterRole " + ref.Name
	}
	return ref.Namespace + "/" + ref.Name
}

// unbind removes the subjects from every role binding of a role in the namespace. A binding without subjects is
// deleted.
func (o *PolicyOptions) unbind(ctx context.Context, namespace, role string) error {
	path := rolesPath(namespace, "rolebindings")
	var bindings authz.RoleBindingList
	if err := o.get(ctx, path, nil, &bindings); err != nil {
		return err
	}
	found := false
	for _, binding := range bindings.Items {
		if binding.RoleRef.Name != role {
			continue
		}
		users := keep(binding.UserNames, func(u string) bool { return !slices.Contains(o.Users, u) })
		groups := keep(binding.GroupNames, func(g string) bool { return !slices.Contains(o.Groups, g) })
		if len(users) == len(binding.UserNames) && len(groups) == len(binding.GroupNames) {
			continue
		}
		found = true
		binding.TypeMeta = typeMeta(authz.SchemeGroupVersion.String(), "RoleBinding")
		binding.UserNames, binding.GroupNames = users, groups
		var err error
		if len(users)+len(groups) == 0 {
			err = o.remove(ctx, path+"/"+binding.Name, "rolebinding."+authz.GroupName, binding.ObjectMeta)
		} else {
			err = o.update(ctx, path+"/"+binding.Name, "rolebinding."+authz.GroupName, &binding, binding.ObjectMeta)
		}
		if err != nil {
			return err
		}
	}
	if !found {
		terminal.Fprintf(o.ErrOut, "Nothing to revoke: no role binding of namespace %[3]s binds role %[2]q to %[1]s.\n", strings.Join(slices.Concat(o.Users, o.Groups), ", "), role, namespace)
	}
	return nil
}

func union(have, add []string) []string {
	all := slices.Clone(have)
	for _, a := range add {
		if !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}

// create writes an object that may be there already.
func (o *PolicyOptions) create(ctx context.Context, resource string, object any, meta metav1.ObjectMeta) error {
	version, kind := authz.SchemeGroupVersion, map[string]string{"rolebindings": "rolebinding", "roles": "role", "policies": "policy", "policybindings": "policybinding",
		"protectedattributes": "protectedattribute", "clusterprotectedattributes": "clusterprotectedattribute"}[resource]
	if resource != "roles" && resource != "rolebindings" {
		version = policyv1alpha1.SchemeGroupVersion
	}
	if o.DryRun {
		return o.show(object)
	}
	rc, err := o.connect()
	if err != nil {
		return err
	}
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	path := "/apis/" + version.String() + "/namespaces/" + meta.Namespace + "/" + resource
	if meta.Namespace == "" {
		path = "/apis/" + version.String() + "/" + resource
	}
	answer, err := rc.Post().AbsPath(path).
		SetHeader("Content-Type", "application/json").Body(body).DoRaw(ctx)
	switch err = decodeStatus(answer, err); {
	case apierrors.IsAlreadyExists(err):
		o.say(kind+"."+version.Group, meta.Name, "unchanged")
		return nil
	case err != nil:
		return notProviso(err, "PolicyAuthorization")
	}
	o.say(kind+"."+version.Group, meta.Name, "created")
	return nil
}

func (o *PolicyOptions) update(ctx context.Context, path, kind string, object any, meta metav1.ObjectMeta) error {
	if o.DryRun {
		return o.show(object)
	}
	rc, err := o.connect()
	if err != nil {
		return err
	}
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	answer, err := rc.Put().AbsPath(path).SetHeader("Content-Type", "application/json").Body(body).DoRaw(ctx)
	if err = decodeStatus(answer, err); err != nil {
		return err
	}
	o.say(kind, meta.Name, "configured")
	return nil
}

func (o *PolicyOptions) remove(ctx context.Context, path, kind string, meta metav1.ObjectMeta) error {
	if o.DryRun {
		terminal.Fprintf(o.ErrOut, "%s/%s would be deleted because it has no subjects left\n", kind, meta.Name)
		return nil
	}
	rc, err := o.connect()
	if err != nil {
		return err
	}
	// Only if it was not changed in the meantime.
	body, err := json.Marshal(metav1.DeleteOptions{TypeMeta: typeMeta("v1", "DeleteOptions"), Preconditions: &metav1.Preconditions{ResourceVersion: &meta.ResourceVersion}})
	if err != nil {
		return err
	}
	answer, err := rc.Delete().AbsPath(path).SetHeader("Content-Type", "application/json").Body(body).DoRaw(ctx)
	if err = decodeStatus(answer, err); err != nil {
		return err
	}
	o.say(kind, meta.Name, "deleted")
	return nil
}

// show prints an object as YAML, for `kubectl apply -f -`.
func (o *PolicyOptions) show(object any) error {
	terminal.Fprintln(o.Out, "---")
	return (&output{format: "yaml"}).print(o.Out, object)
}

func (o *PolicyOptions) say(kind, name, what string) {
	terminal.Fprintf(o.Out, "%s/%s %s\n", kind, name, what)
}
