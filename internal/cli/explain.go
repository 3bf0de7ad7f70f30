package cli

import (
	"context"
	"encoding/json"
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
	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
)

// ExplainOptions are the flags of `proviso explain`.
type ExplainOptions struct {
	CanIOptions
	File string
}

// NewExplainCommand returns `proviso explain`.
func NewExplainCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &ExplainOptions{CanIOptions: CanIOptions{client: newClient(), IOStreams: streams}}
	cmd := &cobra.Command{
		Use:   "explain VERB RESOURCE [NAME]",
		Short: "Explain a decision: which authorizer, rule, binding and condition, and what would change it",
		Long: `Explain why you can or cannot use a verb on a resource: what each authorizer of the chain answers, by which rule, through
which binding, to which subject and under which conditions. With -f the conditions are evaluated against an object, and the
answer is final. If the answer is no, the smallest role and binding that would allow it are printed.

Exit codes are those of can-i.`,
		Example: `  # Why can Edgar not create this claim?
  proviso explain create persistentvolumeclaims -n hammer --as edgar -f claim.yaml`,
		Args: cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error { return o.Run(cmd.Context(), args) },
	}
	o.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&o.File, "filename", "f", "", "Object to evaluate the conditions against; - for standard input.")
	return cmd
}

// explanation is the output for scripts.
type explanation struct {
	Review *reviewv1.SelfSubjectAccessReview `json:"review"`
	// Decision is the answer for the given object.
	Decision *authz.SubjectAccessReview `json:"decision,omitempty"`
	// Grant is the smallest role and binding that would allow it.
	Grant string `json:"grant,omitempty"`
}

// Run asks and prints.
func (o *ExplainOptions) Run(ctx context.Context, args []string) error {
	review, err := o.ask(ctx, args)
	if err != nil {
		return err
	}
	e := explanation{Review: review}
	outcome := verdict(review.Status)
	if o.File != "" {
		if e.Decision, err = o.decide(ctx, args); err != nil {
			return err
		}
		outcome = nil
		if !e.Decision.Status.Allowed {
			outcome = exitError{code: 1}
		}
	}
	if outcome != nil {
		e.Grant = smallestGrant(review)
	}
	if o.output != "table" {
		err = o.print(o.Out, e)
	} else {
		err = explainTable(o.Out, e)
	}
	if err != nil {
		return err
	}
	return outcome
}

// decide asks for the final answer about an object.
func (o *ExplainOptions) decide(ctx context.Context, args []string) (*authz.SubjectAccessReview, error) {
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
	if !json.Valid(raw) || !strings.HasPrefix(strings.TrimSpace(string(raw)), "{") {
		return nil, fmt.Errorf("%s: not one object", o.File)
	}
	t, err := o.parseTarget(args[1:])
	if err != nil {
		return nil, err
	}
	namespace, err := o.namespace()
	if err != nil {
		return nil, err
	}
	path := "/apis/" + authz.SchemeGroupVersion.String()
	if t.namespaced {
		path += "/namespaces/" + namespace
	}
	review := &authz.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authz.SchemeGroupVersion.String(), Kind: "SubjectAccessReview"},
		Spec:     authz.SubjectAccessReviewSpec{Verb: args[0], ResourceKind: t.qualified(), ResourceName: t.name, Content: &runtime.RawExtension{Raw: raw}},
	}
	if t.namespaced {
		review.Namespace = namespace
	}
	return review, o.post(ctx, path+"/subjectaccessreviews", review)
}

// smallestGrant is a role with exactly the verb and resource that was asked for.
func smallestGrant(review *reviewv1.SelfSubjectAccessReview) string {
	a := review.Spec.ResourceAttributes
	kind := a.Resource
	if a.Group != "" {
		kind += "." + a.Group
	}
	if a.Subresource != "" {
		kind += "/" + a.Subresource
	}
	namespace := a.Namespace
	if namespace == "" {
		namespace = "master"
	}
	names := ""
	if a.Name != "" {
		names = fmt.Sprintf("\n  resourceNames: [%s]", a.Name)
	}
	name := strings.ToLower(fmt.Sprintf("%s-%s", a.Verb, a.Resource))
	return fmt.Sprintf(`apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: %[1]s, namespace: %[2]s}
rules:
- verbs: [%[3]s]
  apiGroups: [%[4]q]
  resourceKinds: [%[5]s]%[6]s
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: %[1]s, namespace: %[2]s}
roleRef: {namespace: %[2]s, name: %[1]s}
userNames: [WHO]
`, name, namespace, a.Verb, a.Group, kind, names)
}

func explainTable(out io.Writer, e explanation) error {
	var b strings.Builder
	s := e.Review.Status
	switch {
	case e.Decision != nil && e.Decision.Status.Allowed:
		fmt.Fprintf(&b, "yes, with this object - %s\n", e.Decision.Status.AllowReason)
	case e.Decision != nil:
		fmt.Fprintf(&b, "no, not with this object - %s\n", e.Decision.Status.DenyReason)
		if r := e.Decision.Status.AllowReason; r != "" {
			fmt.Fprintf(&b, "  although %s\n", r)
		}
	case s.Allowed:
		fmt.Fprintf(&b, "yes - %s\n", s.Reason)
	case canBecomeAllowed(s):
		b.WriteString("it depends on the object\n")
	default:
		fmt.Fprintf(&b, "no - %s\n", orElse(s.Reason, "no authorizer has a rule that allows it"))
	}
	for _, element := range s.ConditionsChain {
		writeElement(&b, element)
	}
	if e.Decision != nil && e.Decision.Status.EvaluationError != "" {
		fmt.Fprintf(&b, "\nerror: %s\n", e.Decision.Status.EvaluationError)
	}
	if e.Grant != "" {
		fmt.Fprintf(&b, "\nThe smallest grant that would allow it, whatever the object:\n\n%s", indent(e.Grant))
		if s.Denied || strings.Contains(s.Reason, "denied by") {
			b.WriteString("\nA deny rule stands in the way; no grant of the same tier overrides it.\n")
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ") + "\n"
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
