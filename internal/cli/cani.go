package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	"proviso.dev/proviso/internal/cli/atflag"
	"proviso.dev/proviso/internal/cli/verbflag"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/questions"
	"proviso.dev/proviso/internal/platform/terminal"
)

// CanIOptions are the flags of `proviso can-i`.
type CanIOptions struct {
	*client
	ClusterWide bool
	Subresource string
	List        bool
	NoHeaders   bool
	Quiet       bool
	// At is the instant that is asked about; empty is now.
	At atflag.Flag

	genericiooptions.IOStreams
}

// NewCanICommand returns `proviso can-i`.
func NewCanICommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &CanIOptions{client: newClient(streams.ErrOut), IOStreams: streams}
	cmd := &cobra.Command{
		Use:   "can-i VERB [TYPE | TYPE/NAME | /PATH]",
		Short: "Report whether you can do something, and under which conditions",
		Long: `Report whether you can use a verb on a resource or a path. The arguments are those of 'kubectl auth can-i'. If the answer depends
on the object, the conditions are shown: what the object must be like, and which protected attributes, exclusive fields and deny
rules can still refuse it. You can also ask for verbs of field permissions, such as granular:labels.

With --list, show every rule that grants you something in the namespace, with its condition.

` + exitCodes,
		Example: `  # Can I create claims here, and of which kind?
  proviso can-i create persistentvolumeclaims -n hammer

  # Can I delete the config map ledger?
  proviso can-i delete configmaps/ledger -n hammer

  # Can another user exec into pods? (needs the right to impersonate)
  proviso can-i create pods --subresource exec -n hammer --as edgar

  # Can I read metrics? Can I do everything?
  proviso can-i get /metrics
  proviso can-i '*' '*'

  # Will I still be able to in two hours?
  proviso can-i delete pods -n hammer --at +2h

  # What can I do in namespace hammer, and under which conditions?
  proviso can-i --list -n hammer`,
		Args: func(_ *cobra.Command, args []string) error { return o.checkArgs(args) },
		RunE: func(cmd *cobra.Command, args []string) error { return o.Run(cmd.Context(), args) },
	}
	o.addFlags(cmd)
	fs := cmd.Flags()
	fs.BoolVarP(&o.ClusterWide, "all-namespaces", "A", false, "Ask for every namespace at once.")
	fs.StringVar(&o.Subresource, "subresource", "", "Subresource, such as log, exec, status or scale.")
	fs.BoolVar(&o.List, "list", false, "List everything you can do in the namespace, with conditions.")
	fs.BoolVar(&o.NoHeaders, "no-headers", false, "With --list: leave out the headings.")
	fs.BoolVarP(&o.Quiet, "quiet", "q", false, "Print nothing; the exit code is the answer.")
	o.At.Add(fs)
	cmd.ValidArgsFunction = o.completeQuestion
	return cmd
}

func (o *CanIOptions) checkArgs(args []string) error {
	switch {
	case o.List && len(args) > 0:
		return fmt.Errorf("--list takes no arguments: leave out %q", args)
	case o.List && (o.Quiet || o.ClusterWide || o.Subresource != "" || o.At != ""):
		return errors.New("--list lists one namespace, now, and cannot be combined with --quiet, --all-namespaces, --subresource or --at")
	case o.List:
		return nil
	case o.NoHeaders:
		return errors.New("--no-headers requires --list")
	}
	return checkQuestion("can-i", args)
}

// checkQuestion wants VERB TYPE [NAME].
func checkQuestion(command string, args []string) error {
	const usage = "want a verb and a resource: proviso %s VERB TYPE[/NAME]; for example: proviso %[1]s get pods"
	switch {
	case len(args) < 2:
		return fmt.Errorf(usage, command)
	case len(args) > 3:
		return fmt.Errorf("too many arguments: "+usage, command)
	}
	return nil
}

// Run asks and prints.
func (o *CanIOptions) Run(ctx context.Context, args []string) error {
	if err := o.validate(); err != nil {
		return err
	}
	if o.Quiet {
		o.Out = io.Discard
	}
	if o.List {
		return o.list(ctx)
	}
	t, err := o.parseTarget(args[1:], o.Subresource)
	if err != nil {
		return err
	}
	verbflag.Warn(o.errOut, args[0])
	review, err := o.ask(ctx, args[0], t)
	if err != nil {
		return err
	}
	code := exitCode(review.Status)
	single := code == codeNo && !review.Status.Denied && o.singleFields(ctx, args[0], t)
	if single {
		code = codeDepends
	}
	switch o.format {
	case "table":
		err = canITable(o.Out, review.Status)
		if single && err == nil {
			_, err = terminal.Fprintf(o.Out, singleFieldsText, t.resource.GroupResource())
		}
	case "name":
		_, err = terminal.Fprintln(o.Out, answerNames[code])
	default:
		err = o.print(o.Out, review)
	}
	if err != nil {
		return err
	}
	if e := review.Status.EvaluationError; e != "" {
		terminal.Fprintf(o.ErrOut, "Warning: %s\n", e)
	}
	return answered(code)
}

// answerNames are the answers of -o name.
var answerNames = map[int]string{0: "yes", codeNo: "no", codeDepends: "conditional"}

// singleFields reports whether a user without the verb of a write may still change single fields.
func (o *CanIOptions) singleFields(ctx context.Context, verb string, t target) bool {
	if !o.writesFields(verb, t) {
		return false
	}
	review, err := o.ask(ctx, fieldperm.Verb, t)
	return err == nil && (review.Status.Allowed || canBecomeAllowed(review.Status))
}

// ask sends the question as the caller, or as the user of --as.
func (o *CanIOptions) ask(ctx context.Context, verb string, t target) (*reviewv1.SelfSubjectAccessReview, error) {
	review := &reviewv1.SelfSubjectAccessReview{TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"}}
	if t.path != "" {
		review.Spec.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Verb: verb, Path: t.path}
	} else {
		attrs := &authorizationv1.ResourceAttributes{
			Verb: verb, Group: t.resource.Group, Version: t.resource.Version, Resource: t.resource.Resource, Subresource: t.subresource, Name: t.name,
		}
		if t.namespaced && !o.ClusterWide {
			var err error
			if attrs.Namespace, err = o.namespace(); err != nil {
				return nil, err
			}
		}
		attrs.Namespace = questions.Target{Verb: verb, Resource: attrs.Resource, Subresource: attrs.Subresource, Namespace: attrs.Namespace, Name: attrs.Name}.InNamespace()
		review.Spec.ResourceAttributes = attrs
		review.Spec.ConditionalAuthorization = &reviewv1.ConditionalAuthorization{Mode: "HumanReadable"}
	}
	var err error
	if review.Spec.Time, err = o.At.Asked(); err != nil {
		return nil, err
	}
	rc, err := o.connect()
	if err != nil {
		return nil, err
	}
	return review, askReview(ctx, rc, review)
}

// exitCode is the answer as an exit code.
func exitCode(s reviewv1.SubjectAccessReviewStatus) int {
	switch {
	case s.Allowed:
		return 0
	case canBecomeAllowed(s):
		return codeDepends
	}
	return codeNo
}

func canBecomeAllowed(s reviewv1.SubjectAccessReviewStatus) bool {
	for _, e := range s.ConditionsChain {
		if e.Allowed {
			return true
		}
		for _, c := range e.Conditions {
			if c.Effect == reviewv1.EffectAllow {
				return true
			}
		}
	}
	return false
}
