package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/cli/subject"
)

// PolicyOptions are the options common to the everyday commands.
type PolicyOptions struct {
	*client
	Master string
	DryRun bool
	// Users and Groups are the subjects of the change, from the flags.
	Users, Groups []string
	who           subject.Flags
	// Binding is the name of the role binding.
	Binding string
	// Open opens the namespace first.
	Open bool
	// Term is when a grant counts.
	Term Term

	genericiooptions.IOStreams
}

// NewPolicyCommand returns `proviso policy`.
func NewPolicyCommand(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Everyday tasks: open a namespace for policies, grant a role, deny something",
		Long: `Create the objects for common policy changes. You can do the same with kubectl: --dry-run prints the objects. Existing objects
are kept.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newOpenCommand(streams), newGrantCommand(streams), newRevokeCommand(streams), newDenyCommand(streams))
	return cmd
}

func newPolicyOptions(streams genericiooptions.IOStreams) *PolicyOptions {
	o := &PolicyOptions{client: newClient(streams.ErrOut), IOStreams: streams}
	o.config.AuthInfoName = nil // --user is whom the policy is about
	return o
}

func (o *PolicyOptions) addPolicyFlags(cmd *cobra.Command) {
	o.config.AddFlags(cmd.Flags())
	_ = cmd.RegisterFlagCompletionFunc("namespace", o.completeNamespaces)
	cmd.Flags().StringVar(&o.Master, "master-namespace", "master", "The master namespace of the server, whose roles can be granted everywhere.")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "Print the objects instead of writing them.")
}

func (o *PolicyOptions) addSubjectFlags(cmd *cobra.Command) {
	o.who.Add(cmd.Flags(), "Subject of the change.")
}

// subjects wants at least one subject. Service accounts are the users they are.
func (o *PolicyOptions) subjects() error {
	all, err := o.who.All()
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return errors.New("name a subject: --user NAME, --group NAME or --serviceaccount NAMESPACE:NAME")
	}
	o.Users, o.Groups = nil, nil
	for _, s := range all {
		if s.Group {
			o.Groups = append(o.Groups, s.Name)
		} else {
			o.Users = append(o.Users, s.Name)
		}
	}
	return nil
}

func newOpenCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := newPolicyOptions(streams)
	cmd := &cobra.Command{
		Use:   "open NAMESPACE [--user NAME] [--group NAME]",
		Short: "Open a namespace for policies, and give it admins",
		Long: `Create the Policy and the PolicyBinding of a namespace, so roles and role bindings can be written there. Only a cluster admin can do
this. The given users and groups become admins of the namespace: they are bound to the role admin of the master namespace.`,
		Example: `  # Hubert is admin of namespace hammer
  proviso policy open hammer --user hubert`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("want one namespace: proviso policy open NAMESPACE")
			}
			return nil
		},
		ValidArgsFunction: o.completeNamespaces,
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace := args[0]
			if err := o.open(cmd.Context(), namespace); err != nil {
				return err
			}
			if !o.who.Given() {
				return nil
			}
			if err := o.subjects(); err != nil {
				return err
			}
			return o.bind(cmd.Context(), &authz.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "admin"}, RoleRef: authz.RoleRef{Namespace: o.Master, Name: "admin"}})
		},
	}
	o.addPolicyFlags(cmd)
	o.addSubjectFlags(cmd)
	return cmd
}

// open makes the containers of a namespace that are not there.
func (o *PolicyOptions) open(ctx context.Context, namespace string) error {
	policy := &policyv1alpha1.Policy{TypeMeta: typeMeta(policyv1alpha1.SchemeGroupVersion.String(), "Policy"),
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
	bindings := &policyv1alpha1.PolicyBinding{TypeMeta: typeMeta(policyv1alpha1.SchemeGroupVersion.String(), "PolicyBinding"),
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: namespace}}
	if err := o.create(ctx, "policies", policy, policy.ObjectMeta); err != nil {
		return err
	}
	return o.create(ctx, "policybindings", bindings, bindings.ObjectMeta)
}

// openFirst opens the namespace if --open says so.
func (o *PolicyOptions) openFirst(ctx context.Context, namespace string) error {
	if !o.Open {
		return nil
	}
	return o.open(ctx, namespace)
}

func (o *PolicyOptions) addOpenFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.Open, "open", false, "Open the namespace for policies first, as 'proviso policy open' does.")
}

func newGrantCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := newPolicyOptions(streams)
	cmd := &cobra.Command{
		Use:   "grant ROLE (--user NAME | --group NAME | --serviceaccount NAMESPACE:NAME)...",
		Short: "Give a role to users and groups in a namespace",
		Long: `Add users and groups to the role binding of a role in the namespace; create the binding if it does not exist. ROLE is a role of the
namespace or, if it has no such role, of the master namespace, such as view, edit and admin. In the master namespace, the grant is
cluster-wide. If neither namespace has the role, ROLE is a ClusterRole of RBAC.

With --for, the grant gets a role binding of its own, which ends by itself.`,
		Example: `  # Edgar edits in namespace hammer, team-a looks
  proviso policy grant edit --user edgar -n hammer
  proviso policy grant view --group team-a -n hammer

  # Clark edits everywhere
  proviso policy grant edit --user clark -n master

  # Alice is on call: admin for one hour
  proviso policy grant admin --user alice -n prod --for 1h`,
		Args: oneRole("grant"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.subjects(); err != nil {
				return err
			}
			namespace, err := o.namespace()
			if err != nil {
				return err
			}
			notBefore, notAfter, err := o.Term.interval(time.Now())
			if err != nil {
				return err
			}
			if err := o.openFirst(cmd.Context(), namespace); err != nil {
				return err
			}
			ref, err := o.findRole(cmd.Context(), namespace, args[0])
			if err != nil {
				return err
			}
			name := o.Binding
			if name == "" {
				name = args[0]
				if notBefore != nil || notAfter != nil {
					name = bindingName(args[0], o.Users, o.Groups, notAfter)
				}
			}
			return o.bind(cmd.Context(), &authz.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, RoleRef: ref, NotBefore: notBefore, NotAfter: notAfter})
		},
	}
	o.addPolicyFlags(cmd)
	o.addSubjectFlags(cmd)
	o.addOpenFlag(cmd)
	o.Term.addFlags(cmd)
	cmd.Flags().StringVar(&o.Binding, "binding", "", "Name of the role binding. Default: the name of the role.")
	cmd.ValidArgsFunction = o.completeRoles
	return cmd
}

func oneRole(command string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("want one role: proviso policy %s ROLE --user NAME; for example: proviso policy %[1]s edit --user edgar -n hammer", command)
		}
		return nil
	}
}

// completeRoles completes the roles of the namespace and of the master namespace.
func (o *PolicyOptions) completeRoles(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	namespace, err := o.namespace()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return startingWith(append(o.list(rolesPath(namespace, "roles")), o.list(rolesPath(o.Master, "roles"))...), typed), cobra.ShellCompDirectiveNoFileComp
}

// findRole looks for a role in the namespace and then in the master namespace.
func (o *PolicyOptions) findRole(ctx context.Context, namespace, name string) (authz.RoleRef, error) {
	for _, in := range []string{namespace, o.Master} {
		err := o.get(ctx, rolesPath(in, "roles")+"/"+name, nil, &authz.Role{})
		switch {
		case err == nil:
			return authz.RoleRef{Namespace: in, Name: name}, nil
		case apierrors.IsForbidden(err) && in == o.Master:
			return authz.RoleRef{Namespace: in, Name: name}, nil // the server knows whether it is there
		case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
			return authz.RoleRef{}, err
		}
	}
	if err := o.get(ctx, "/apis/rbac.authorization.k8s.io/v1/clusterroles/"+name, nil, &rbacv1.ClusterRole{}); err == nil {
		return authz.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}, nil
	}
	return authz.RoleRef{}, fmt.Errorf("there is no role %q in namespace %s or %s, and no such ClusterRole; `kubectl get roles.%s -n %s` lists them", name, namespace, o.Master, authz.GroupName, namespace)
}

func rolesPath(namespace, resource string) string {
	return "/apis/" + authz.SchemeGroupVersion.String() + "/namespaces/" + namespace + "/" + resource
}

func typeMeta(apiVersion, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: apiVersion, Kind: kind}
}
