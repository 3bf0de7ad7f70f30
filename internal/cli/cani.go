package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	"proviso.dev/proviso/internal/fieldperm"
)

// codeConditional is the exit code of an answer that depends on the object.
const codeConditional = 2

// CanIOptions are the flags of `proviso can-i` and `proviso explain`.
type CanIOptions struct {
	*client
	ClusterWide bool

	genericiooptions.IOStreams
}

// NewCanICommand returns `proviso can-i`.
func NewCanICommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &CanIOptions{client: newClient(), IOStreams: streams}
	cmd := &cobra.Command{
		Use:   "can-i VERB RESOURCE [NAME]",
		Short: "Say whether you can, and under which conditions",
		Long: `Say whether you can use a verb on a resource. Where that depends on the object, the conditions are shown: what the object
must be like, and which protected attributes, exclusive fields and deny rules it must not run into. Verbs of field permissions, such as
granular:labels, can be asked about like any other.

Exit code 0 for yes, 1 for no, 2 if it depends on the object.`,
		Example: `  # Can I create claims here, and of which kind?
  proviso can-i create persistentvolumeclaims -n hammer

  # Can somebody else? (needs the right to impersonate)
  proviso can-i delete deployments.apps web -n hammer --as edgar`,
		Args: cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error { return o.Run(cmd.Context(), args) },
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().BoolVarP(&o.ClusterWide, "all-namespaces", "A", false, "Ask for every namespace at once.")
	return cmd
}

// Run asks and prints.
func (o *CanIOptions) Run(ctx context.Context, args []string) error {
	review, err := o.ask(ctx, args)
	if err != nil {
		return err
	}
	if o.output != "table" {
		err = o.print(o.Out, review)
	} else {
		err = canITable(o.Out, review.Status)
	}
	if err != nil {
		return err
	}
	outcome := verdict(review.Status)
	if outcome == nil || canBecomeAllowed(review.Status) || review.Status.Denied || !o.singleFields(ctx, args) {
		return outcome
	}
	if o.output == "table" {
		if _, err := fmt.Fprintf(o.Out, singleFieldsText, args[1]); err != nil {
			return err
		}
	}
	return exitError{code: codeConditional}
}

// singleFields tells whether somebody who does not have the verb of a write may change single fields all the same.
func (o *CanIOptions) singleFields(ctx context.Context, args []string) bool {
	if !o.writesFields(args) {
		return false
	}
	review, err := o.ask(ctx, append([]string{fieldperm.Verb}, args[1:]...))
	return err == nil && (review.Status.Allowed || canBecomeAllowed(review.Status))
}

// ask sends the question as the caller, which --as makes somebody else.
func (o *CanIOptions) ask(ctx context.Context, args []string) (*reviewv1.SelfSubjectAccessReview, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	t, err := o.parseTarget(args[1:])
	if err != nil {
		return nil, err
	}
	attrs := &authorizationv1.ResourceAttributes{
		Verb: args[0], Group: t.resource.Group, Version: t.resource.Version, Resource: t.resource.Resource, Subresource: t.subresource, Name: t.name,
	}
	if t.namespaced && !o.ClusterWide {
		if attrs.Namespace, err = o.namespace(); err != nil {
			return nil, err
		}
	}
	review := &reviewv1.SelfSubjectAccessReview{TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"}}
	review.Spec.ResourceAttributes = attrs
	review.Spec.ConditionalAuthorization = &reviewv1.ConditionalAuthorization{Mode: "HumanReadable"}
	return review, o.post(ctx, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
}

// verdict is the answer as an exit code.
func verdict(s reviewv1.SubjectAccessReviewStatus) error {
	switch {
	case s.Allowed:
		return nil
	case canBecomeAllowed(s):
		return exitError{code: codeConditional}
	}
	return exitError{code: 1}
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

func canITable(out io.Writer, s reviewv1.SubjectAccessReviewStatus) error {
	var b strings.Builder
	switch {
	case s.Allowed:
		b.WriteString("yes\n")
	case !canBecomeAllowed(s):
		b.WriteString("no")
		if s.Reason != "" {
			fmt.Fprintf(&b, " - %s", s.Reason)
		}
		b.WriteString("\n")
	default:
		b.WriteString("it depends on the object\n")
		for _, e := range s.ConditionsChain {
			writeElement(&b, e)
		}
	}
	if s.EvaluationError != "" {
		fmt.Fprintf(&b, "error: %s\n", s.EvaluationError)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// always is the condition of an allow that only stands in a set because of the denies beside it.
const always = "true"

// writeElement shows one authorizer: its answer, or the conditions it depends on.
func writeElement(b *strings.Builder, e reviewv1.SubjectAccessReviewConditionSet) {
	fmt.Fprintf(b, "\n%s:\n", e.AuthorizerName)
	switch {
	case e.Allowed:
		fmt.Fprintf(b, "  yes - %s\n", e.Reason)
	case e.Denied:
		fmt.Fprintf(b, "  no - %s\n", e.Reason)
	}
	words := map[reviewv1.ConditionEffect]string{reviewv1.EffectAllow: "yes, if", reviewv1.EffectDeny: "no, if", reviewv1.EffectNoOpinion: "no opinion, if"}
	for _, c := range e.Conditions {
		if c.Effect == reviewv1.EffectAllow && c.Condition == always && len(e.Conditions) > 1 {
			fmt.Fprintf(b, "  yes, otherwise\n      %s\n", c.Description)
			continue
		}
		fmt.Fprintf(b, "  %s %s\n", words[c.Effect], oneLine(c.Condition))
		if c.Description != "" {
			fmt.Fprintf(b, "      %s (%s)\n", c.Description, c.ID)
		} else {
			fmt.Fprintf(b, "      (%s)\n", c.ID)
		}
	}
}
