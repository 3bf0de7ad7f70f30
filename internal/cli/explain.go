package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/fieldperm"
)

// codeFailed is the exit code of a question that got no answer.
const codeFailed = 3

// ExplainOptions are the flags of `proviso explain`.
type ExplainOptions struct {
	*client
	ClusterWide bool
	File        string

	genericiooptions.IOStreams
}

// NewExplainCommand returns `proviso explain`.
func NewExplainCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &ExplainOptions{client: newClient(), IOStreams: streams}
	cmd := &cobra.Command{
		Use:   "explain VERB RESOURCE [NAME]",
		Short: "Explain a decision: which authorizer, rule, binding and condition, and what would change it",
		Long: `Explain why you can or cannot use a verb on a resource: what each authorizer of the chain answers, by which rule, through
which binding, to which of your names and groups, under which conditions, and who is not asked because somebody before has
decided.

With -f the conditions are evaluated against an object, and the answer is final: the object is what you would create, or what
is stored when you update or delete it. What is really stored is not looked at.

If the answer is no, it says what would change that: the deny rules that would have to go, and the smallest grant that is
missing, which is one rule with the one verb, resource and name, bound to the one subject in the one namespace.

Exit code 0 for yes, 1 for no, 2 if it depends on the object, 3 if the question could not be answered.`,
		Example: `  # Why can I not delete this deployment?
  proviso explain delete deployments.apps web -n hammer

  # Why can Edgar, who is in team-a, not create this claim? (needs the right to impersonate)
  proviso explain create persistentvolumeclaims -n hammer --as edgar --as-group team-a -f claim.yaml

  # Apply what is missing
  proviso explain get secrets -n hammer --as edgar -o json | jq -r .status.trace.remedy.grant | kubectl apply -f -`,
		Args: cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error { return o.Run(cmd.Context(), args) },
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().BoolVarP(&o.ClusterWide, "all-namespaces", "A", false, "Ask for every namespace at once.")
	cmd.Flags().StringVarP(&o.File, "filename", "f", "", "Object to evaluate the conditions against; - for standard input.")
	return cmd
}

// Run asks and prints.
func (o *ExplainOptions) Run(ctx context.Context, args []string) error {
	review, err := o.ask(ctx, args)
	if err != nil {
		return exitError{code: codeFailed, message: err.Error()}
	}
	if o.output != "table" {
		err = o.print(o.Out, review)
	} else {
		_, err = io.WriteString(o.Out, explainText(review))
	}
	if err != nil {
		return exitError{code: codeFailed, message: err.Error()}
	}
	switch review.Status.Trace.Decision {
	case authz.AnswerAllow:
		return nil
	case authz.AnswerConditional:
		return exitError{code: codeConditional}
	case authz.AnswerDeny:
		return exitError{code: 1}
	}
	if !o.singleFields(ctx, args) {
		return exitError{code: 1}
	}
	if o.output == "table" {
		if _, err := fmt.Fprintf(o.Out, singleFieldsText, args[1]); err != nil {
			return exitError{code: codeFailed, message: err.Error()}
		}
	}
	return exitError{code: codeConditional}
}

// singleFields tells whether somebody on whose write nobody has an opinion may change single fields all the same.
func (o *ExplainOptions) singleFields(ctx context.Context, args []string) bool {
	if !o.writesFields(args) {
		return false
	}
	plain := *o
	plain.File = "" // granular is no verb that an object could be had for
	review, err := plain.ask(ctx, append([]string{fieldperm.Verb}, args[1:]...))
	if err != nil {
		return false
	}
	decision := review.Status.Trace.Decision
	return decision == authz.AnswerAllow || decision == authz.AnswerConditional
}

// ask sends the question as the caller, which --as makes somebody else.
func (o *ExplainOptions) ask(ctx context.Context, args []string) (*authz.SubjectAccessReview, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	t, err := o.parseTarget(args[1:])
	if err != nil {
		return nil, err
	}
	review := &authz.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authz.SchemeGroupVersion.String(), Kind: "SubjectAccessReview"},
		Spec:     authz.SubjectAccessReviewSpec{Verb: args[0], ResourceKind: t.qualified(), ResourceName: t.name, Trace: true},
	}
	if o.File != "" {
		if review.Spec.Content, err = o.content(); err != nil {
			return nil, err
		}
	}
	path := "/apis/" + authz.SchemeGroupVersion.String()
	if t.namespaced && !o.ClusterWide {
		if review.Namespace, err = o.namespace(); err != nil {
			return nil, err
		}
		path += "/namespaces/" + review.Namespace
	}
	if err := o.post(ctx, path+"/subjectaccessreviews", review); err != nil {
		return nil, err
	}
	switch {
	case review.Status.Trace != nil:
		return review, nil
	case review.Status.EvaluationError != "":
		return nil, errors.New(review.Status.EvaluationError)
	}
	return nil, errors.New("the server gives no trace: it is older than this program")
}

// content reads the object.
func (o *ExplainOptions) content() (*runtime.RawExtension, error) {
	var data []byte
	var err error
	if o.File == "-" {
		data, err = io.ReadAll(o.In)
	} else {
		data, err = os.ReadFile(o.File)
	}
	if err != nil {
		return nil, err
	}
	raw, err := yaml.YAMLToJSON(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.File, err)
	}
	if !strings.HasPrefix(strings.TrimSpace(string(raw)), "{") {
		return nil, fmt.Errorf("%s: want one object", o.File)
	}
	return &runtime.RawExtension{Raw: raw}, nil
}
