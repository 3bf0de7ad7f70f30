package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/cli/atflag"
	"proviso.dev/proviso/internal/cli/subject"
	"proviso.dev/proviso/internal/cli/verbflag"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/platform/terminal"
)

// ExplainOptions are the flags of `proviso explain`.
type ExplainOptions struct {
	*client
	ClusterWide bool
	Subresource string
	// Subject is who is asked about, if it is not the caller.
	who subject.Flags
	// File is the object, Old the stored one; Stored reads the stored one from the server.
	File, Old string
	Stored    bool
	// At is the instant that is asked about; empty is now.
	At atflag.Flag

	genericiooptions.IOStreams
}

// NewExplainCommand returns `proviso explain`.
func NewExplainCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &ExplainOptions{client: newClient(streams.ErrOut), IOStreams: streams}
	o.config.AuthInfoName = nil // --user is whom the question is about
	cmd := &cobra.Command{
		Use:   "explain VERB [TYPE | TYPE/NAME | /PATH]",
		Short: "Explain a decision: which authorizer, rule, binding and condition, and what would change it",
		Long: `Explain why you can or cannot use a verb on a resource: the answer of each authorizer in the chain, the rule and the binding behind
it, the name or group that is bound, the conditions, and which authorizers are not asked because an earlier one has decided.

With an object, the conditions are evaluated and the answer is final:

  create          -f is the object to create
  delete          -f or --stored is the object to delete
  update, patch   -f is the new object, --old or --stored is the current one. If only one is given, it is used for both.

--stored reads the object from the server with your own rights, even with --as. You need the right to get it.

If the answer is no, the command shows what would change it: the smallest change of the object that would be allowed, the deny
rules to remove, and the smallest grant that is missing (one verb on one resource, bound to one subject in one namespace).

` + exitCodes,
		Example: `  # Why can I not delete this deployment, as it is stored?
  proviso explain delete deployments.apps/web -n hammer --stored

  # Why can Edgar, who is in team-a, not create this claim? (needs the right to impersonate)
  proviso explain create persistentvolumeclaims -n hammer --as edgar --as-group team-a -f claim.yaml

  # Could I change the stored object into this one?
  proviso explain update configmaps/ledger -n hammer --stored -f ledger.yaml

  # Why can a group not? (needs no right to impersonate; the answer ignores other groups of its members)
  proviso explain delete pods -n hammer --group contractors

  # Apply the missing grant
  proviso explain get secrets -n hammer --as edgar -o json | jq -r .status.trace.remedy.grant | kubectl apply -f -`,
		Args: func(_ *cobra.Command, args []string) error { return checkQuestion("explain", args) },
		RunE: func(cmd *cobra.Command, args []string) error { return o.Run(cmd.Context(), args) },
	}
	o.addFlags(cmd)
	fs := cmd.Flags()
	fs.BoolVarP(&o.ClusterWide, "all-namespaces", "A", false, "Ask for every namespace at once.")
	fs.StringVar(&o.Subresource, "subresource", "", "Subresource, such as log, exec, status or scale.")
	o.who.Add(fs, "Ask about this subject instead of yourself.")
	o.who.AddFormer(fs, "subject")
	fs.StringVarP(&o.File, "filename", "f", "", "Object to evaluate the conditions against; - for standard input.")
	fs.StringVar(&o.Old, "old", "", "File with the stored object of an update.")
	fs.BoolVar(&o.Stored, "stored", false, "Read the stored object from the server.")
	o.At.Add(fs)
	cmd.ValidArgsFunction = o.completeQuestion
	return cmd
}

// Run asks and prints.
func (o *ExplainOptions) Run(ctx context.Context, args []string) error {
	if err := o.validate(); err != nil {
		return err
	}
	verb := args[0]
	t, err := o.parseTarget(args[1:], o.Subresource)
	if err != nil {
		return err
	}
	verbflag.Warn(o.errOut, verb)
	content, old, err := o.objects(ctx, verb, t)
	if err != nil {
		return err
	}
	review, err := o.ask(ctx, verb, t, content, old)
	if err != nil {
		return err
	}
	code := codeNo
	switch review.Status.Trace.Decision {
	case authz.AnswerAllow:
		code = 0
	case authz.AnswerConditional:
		code = codeDepends
	}
	single := review.Status.Trace.Decision == authz.AnswerNoOpinion && o.singleFields(ctx, verb, t)
	if single {
		code = codeDepends
	}
	switch o.format {
	case "table":
		text := explainText(review)
		if single {
			text += fmt.Sprintf(singleFieldsText, t.resource.GroupResource())
		}
		_, err = io.WriteString(o.Out, text)
	case "name":
		_, err = terminal.Fprintln(o.Out, answerNames[code])
	default:
		err = o.print(o.Out, review)
	}
	if err != nil {
		return err
	}
	return answered(code)
}

// singleFields reports whether a user may change single fields, if no authorizer has an opinion on the write. No
// object is sent: granular is not a verb of requests with an object.
func (o *ExplainOptions) singleFields(ctx context.Context, verb string, t target) bool {
	if !o.writesFields(verb, t) {
		return false
	}
	review, err := o.ask(ctx, fieldperm.Verb, t, nil, nil)
	if err != nil {
		return false
	}
	decision := review.Status.Trace.Decision
	return decision == authz.AnswerAllow || decision == authz.AnswerConditional
}

// ask sends the question as the caller, or as the user of --as.
func (o *ExplainOptions) ask(ctx context.Context, verb string, t target, content, old *runtime.RawExtension) (*authz.SubjectAccessReview, error) {
	review := &authz.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authz.SchemeGroupVersion.String(), Kind: "SubjectAccessReview"},
		Spec:     authz.SubjectAccessReviewSpec{Verb: verb, ResourceKind: t.qualified(), ResourceName: t.name, Content: content, OldContent: old, Trace: true},
	}
	var err error
	if review.Spec.UserName, review.Spec.GroupName, err = o.about(); err != nil {
		return nil, err
	}
	if review.Spec.Time, err = o.At.Asked(); err != nil {
		return nil, err
	}
	path := "/apis/" + authz.SchemeGroupVersion.String()
	if t.namespaced && !o.ClusterWide {
		if review.Namespace, err = o.namespace(); err != nil {
			return nil, err
		}
		path += "/namespaces/" + review.Namespace
	}
	if err := o.post(ctx, path+"/subjectaccessreviews", review); err != nil {
		return nil, notProviso(err, "PolicyAuthorization")
	}
	switch {
	case review.Status.Trace != nil:
		return review, nil
	case review.Status.EvaluationError != "":
		return nil, errors.New(review.Status.EvaluationError)
	}
	return nil, errors.New("the server gives no trace because it is older than this program; use the proviso command of its release")
}

// about is whom the question is about; nothing is the caller.
func (o *ExplainOptions) about() (userName, groupName string, err error) {
	all, err := o.who.All()
	switch {
	case err != nil || len(all) == 0:
		return "", "", err
	case len(all) > 1:
		return "", "", errors.New("name one subject: --user NAME, --group NAME or --serviceaccount NAMESPACE:NAME")
	case all[0].Group:
		return "", all[0].Name, nil
	}
	return all[0].Name, "", nil
}

// objects reads what the conditions are evaluated against: the object, and the stored one if it is another.
func (o *ExplainOptions) objects(ctx context.Context, verb string, t target) (content, old *runtime.RawExtension, err error) {
	if o.Stored && o.Old != "" {
		return nil, nil, errors.New("--stored and --old are mutually exclusive")
	}
	update := verbs.Updates(verb)
	switch {
	case (o.File != "" || o.Stored || o.Old != "") && (t.path != "" || t.resource.Resource == all):
		return nil, nil, errors.New("-f, --old and --stored cannot be used with a path or '*', which have no object")
	case o.Stored && verb == verbs.Create:
		return nil, nil, errors.New("--stored cannot be used with create; give the new object with -f")
	case o.Old != "" && !update:
		return nil, nil, fmt.Errorf("--old cannot be used with %s, which has one object; give it with -f", verb)
	case o.Stored && !update && o.File != "":
		return nil, nil, fmt.Errorf("--stored and -f are mutually exclusive for %s, which has one object", verb)
	case o.Stored && t.name == "":
		return nil, nil, errors.New("--stored requires the name of the object: write TYPE/NAME")
	}
	if o.File != "" {
		if content, err = o.read(o.File); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case o.Stored:
		old, err = o.stored(ctx, t)
	case o.Old != "":
		old, err = o.read(o.Old)
	}
	if err != nil {
		return nil, nil, err
	}
	if content == nil {
		content, old = old, nil
	}
	return content, old, nil
}

// stored reads the object from the server. The caller sees the answer, even with --as, so it is the caller's right that
// counts; without it, that of the user of --as is tried.
func (o *ExplainOptions) stored(ctx context.Context, t target) (*runtime.RawExtension, error) {
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	path := "/api/" + t.resource.Version
	if t.resource.Group != "" {
		path = "/apis/" + t.resource.Group + "/" + t.resource.Version
	}
	if t.namespaced {
		namespace, err := o.namespace()
		if err != nil {
			return nil, err
		}
		path += "/namespaces/" + namespace
	}
	path += "/" + t.resource.Resource + "/" + t.name
	self := rest.CopyConfig(config)
	self.Impersonate = rest.ImpersonationConfig{}
	object := map[string]any{}
	for _, as := range []*rest.Config{self, rest.CopyConfig(config)} {
		var rc *rest.RESTClient
		if rc, err = connectTo(as); err != nil {
			return nil, err
		}
		if err = getFrom(ctx, rc, path, nil, &object); !apierrors.IsForbidden(err) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("--stored: %w; give the object with -f instead", err)
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	return &runtime.RawExtension{Raw: raw}, nil
}

// read reads an object from a file.
func (o *ExplainOptions) read(file string) (*runtime.RawExtension, error) {
	var data []byte
	var err error
	if file == "-" {
		data, err = io.ReadAll(o.In)
	} else {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, err
	}
	raw, err := yaml.YAMLToJSON(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if !strings.HasPrefix(strings.TrimSpace(string(raw)), "{") {
		return nil, fmt.Errorf("%s: want one object, as `kubectl get -o yaml` prints it", file)
	}
	return &runtime.RawExtension{Raw: raw}, nil
}
