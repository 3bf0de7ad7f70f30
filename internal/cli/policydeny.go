package cli

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/verbs"
)

// denyOptions are the flags of `proviso policy deny`.
type denyOptions struct {
	*PolicyOptions
	Subresource, Where, Description, Role string
	Labels                                []string
	Protect                               bool
}

func newDenyCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &denyOptions{PolicyOptions: newPolicyOptions(streams)}
	cmd := &cobra.Command{
		Use:   "deny VERB[,VERB...] TYPE[/NAME] (--user NAME | --group NAME | --serviceaccount NAMESPACE:NAME)...",
		Short: "Forbid something to users and groups in a namespace",
		Long: `Create a role with one deny rule in the namespace, and a role binding of the same name for the users and groups. A deny wins over every
allow of the namespace; it is overridden by cluster-wide grants, unless it is in the master namespace. You need the verb deny on the role,
which admins of the namespace have. To undo it, use 'proviso policy revoke ROLE'. Get, list and watch show the same objects:
naming one of them denies all three.

A subject that may update the object can remove the label that a deny selects, and so evade the deny. With --protect, a
ProtectedAttribute is written, too. Then only admins of the namespace, by the role admin of the master namespace, can change the label
on these resources; in the master namespace, only cluster admins can, everywhere. You need the right to create protected attributes.`,
		Example: `  # Edgar never deletes config maps of namespace hammer
  proviso policy deny delete configmaps --user edgar -n hammer

  # Nobody of team-a changes the config map ledger
  proviso policy deny update,delete configmaps/ledger --group team-a -n hammer

  # Nobody deletes what is labelled protected, nor takes the label off
  proviso policy deny delete deployments.apps --with-label protected --protect --group system:authenticated -n hammer`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("want verbs and a resource: proviso policy deny VERB[,VERB] TYPE[/NAME] --user NAME; for example: proviso policy deny delete configmaps --user edgar -n hammer")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.Run(cmd.Context(), args) },
	}
	o.addPolicyFlags(cmd)
	o.addSubjectFlags(cmd)
	o.addOpenFlag(cmd)
	fs := cmd.Flags()
	fs.StringVar(&o.Subresource, "subresource", "", "Subresource, such as exec, status or scale.")
	fs.StringVar(&o.Where, "where", "", "Only for objects like this, in CEL: resource.spec.storageClassName == \"dev\".")
	fs.StringArrayVar(&o.Labels, "with-label", nil, "Only for objects with this label, as KEY or KEY=VALUE; may be repeated.")
	fs.BoolVar(&o.Protect, "protect", false, "Protect the labels and annotations that the rule looks at, so that only admins can change them.")
	fs.StringVar(&o.Description, "description", "", "Shown to callers who are refused.")
	fs.StringVar(&o.Role, "role", "", "Name of the role and of the role binding. Default: deny-VERB-RESOURCE.")
	cmd.ValidArgsFunction = o.completeQuestion
	return cmd
}

// Run writes the role and binds it.
func (o *denyOptions) Run(ctx context.Context, args []string) error {
	if err := o.subjects(); err != nil {
		return err
	}
	t, err := o.parseTarget(args[1:], o.Subresource)
	if err != nil {
		return err
	}
	if t.path != "" {
		return fmt.Errorf("%s: paths are not namespaced; write a role with nonResourceURLs in the master namespace", t.path)
	}
	namespace, err := o.namespace()
	if err != nil {
		return err
	}
	asked := strings.Split(args[0], ",")
	rule := policyv1alpha1.PolicyRule{Deny: true, Verbs: verbs.WithReads(asked), ResourceKinds: []string{t.qualified()}, Where: o.Where, Description: o.Description}
	if t.name != "" {
		rule.ResourceNames = []string{t.name}
	}
	if len(o.Labels) > 0 {
		rule.AttributeRestrictions = &policyv1alpha1.AttributeRestrictions{LabelsContain: o.Labels}
	}
	name := o.Role
	if name == "" {
		name = denyName(asked, rule)
	}
	role := &authz.Role{TypeMeta: typeMeta(authz.SchemeGroupVersion.String(), "Role"), ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Rules: []policyv1alpha1.PolicyRule{rule}}
	if err := o.openFirst(ctx, namespace); err != nil {
		return err
	}
	if !o.DryRun {
		var there authz.Role
		err := o.get(ctx, rolesPath(namespace, "roles")+"/"+name, nil, &there)
		switch {
		case err == nil && !reflect.DeepEqual(there.Rules, role.Rules):
			return fmt.Errorf("role %s/%s has other rules; choose another name with --role, or change it with kubectl", namespace, name)
		case err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
			return notProviso(err, "PolicyAuthorization")
		}
	}
	if o.Protect {
		if err := o.protect(ctx, namespace, name, rule); err != nil {
			return err
		}
	}
	if err := o.create(ctx, "roles", role, role.ObjectMeta); err != nil {
		return err
	}
	return o.bind(ctx, &authz.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, RoleRef: authz.RoleRef{Namespace: namespace, Name: name}})
}

var notInNames = regexp.MustCompile(`[^a-z0-9.]+`)

// denyName returns a name that describes what is denied.
func denyName(asked []string, rule policyv1alpha1.PolicyRule) string {
	parts := append(append([]string{"deny"}, asked...), strings.ReplaceAll(rule.ResourceKinds[0], "/", "-"))
	parts = append(parts, rule.ResourceNames...)
	return strings.Trim(notInNames.ReplaceAllString(strings.ToLower(strings.ReplaceAll(strings.Join(parts, "-"), "*", "all")), "-"), "-.")
}
