package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/cli/atflag"
	"proviso.dev/proviso/internal/cli/subject"
	"proviso.dev/proviso/internal/cli/verbflag"
	"proviso.dev/proviso/internal/platform/terminal"
)

// WhoCanOptions are the flags of `proviso who-can`.
type WhoCanOptions struct {
	*client
	ClusterWide bool
	Subresource string
	Blocked     bool
	HideSystem  bool
	System      bool
	Rules       bool
	Indirect    bool
	Filter      string
	Limit       int64
	Continue    string
	// At is the instant that is asked about; empty is now.
	At atflag.Flag
	// Managed is the cluster to answer for, if not that of the kubeconfig.
	Managed managedFlags

	genericiooptions.IOStreams
}

// NewWhoCanCommand returns `proviso who-can`.
func NewWhoCanCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &WhoCanOptions{client: newClient(streams.ErrOut), IOStreams: streams}
	o.formats = []string{"table", "wide", "name", "json", "yaml"}
	cmd := &cobra.Command{
		Use:   "who-can VERB [TYPE | TYPE/NAME | /PATH]",
		Short: "List who can use a verb on a resource: always, and under which conditions",
		Long: `List the users and groups that can use a verb on a resource, by Policy and RBAC together, with deny rules and conditions. The server
does not know which groups a user is in: users are assumed to be in the group system:authenticated only, and a group stands for a
member without further groups. Problems of other bindings are warnings on standard error.

-o name lists all subjects, including those under conditions; -o wide shows the rule and the binding.

With --indirect, also list the subjects that could gain the right in one more step, with the step and the right it requires: mount it in
a pod, run commands in one that has it, act as a user or a service account that can, bind or write a role, or change the rule that denies
it. No other steps are asked about, and no rights to single objects, such as update of one deployment, which may lead there, too.

Exit code 0 if a subject can, 1 if no subject can, 2 if subjects can under conditions only, 3 if the question could not be answered.`,
		Example: `  # Who can update the deployment web in namespace hammer?
  proviso who-can update deployments.apps/web -n hammer

  # Which people can exec into pods? (without service accounts and groups of the system)
  proviso who-can create pods --subresource exec -n hammer --hide-system

  # Who is refused by a deny rule only?
  proviso who-can delete configmaps -n hammer --blocked

  # Who can read the metrics of the server? Who can do everything?
  proviso who-can get /metrics
  proviso who-can '*' '*'

  # By which rules and bindings, and who could gain the right?
  proviso who-can get secrets -n hammer -o wide --indirect

  # Only names that contain "team-a", a hundred at a time
  proviso who-can get pods -n hammer --filter team-a --limit 100

  # In a managed cluster, for which policy is compiled: from a dump, or from the policy and the RBAC that is there besides
  proviso who-can create configmaps -n hammer --target vap -f dump/

  # Cluster-wide, for a script
  proviso who-can create namespaces -o json`,
		Args: func(_ *cobra.Command, args []string) error { return checkQuestion("who-can", args) },
		RunE: func(cmd *cobra.Command, args []string) error { return o.Run(cmd.Context(), args) },
	}
	o.addFlags(cmd)
	fs := cmd.Flags()
	fs.BoolVarP(&o.ClusterWide, "all-namespaces", "A", false, "Ask who can in every namespace at once.")
	fs.StringVar(&o.Subresource, "subresource", "", "Subresource, such as log, exec, status or scale.")
	fs.BoolVar(&o.Blocked, "blocked", false, "Also list subjects that a deny rule refuses.")
	fs.BoolVar(&o.HideSystem, "hide-system", false, "Leave out users and groups whose name begins with system:, including service accounts of kube-system and nodes.")
	fs.BoolVar(&o.System, "system", false, "Also list users and groups of the system, which a table only counts.")
	fs.BoolVar(&o.Rules, "rules", false, "Include the rules in -o json and -o yaml.")
	fs.BoolVar(&o.Indirect, "indirect", false, "Also list subjects that could gain the right in one more step, and how.")
	fs.StringVar(&o.Filter, "filter", "", "List only users and groups whose name contains this text; case does not matter.")
	fs.Int64Var(&o.Limit, "limit", 0, "List at most this many users and groups; standard error says how to continue. 0 lists all.")
	fs.StringVar(&o.Continue, "continue", "", "Continue after the previous answer.")
	o.At.Add(fs)
	o.Managed.add(fs)
	cmd.ValidArgsFunction = o.completeQuestion
	return cmd
}

// Run asks and prints.
func (o *WhoCanOptions) Run(ctx context.Context, args []string) error {
	if err := errors.Join(o.validate(), o.checkManaged()); err != nil {
		return err
	}
	if o.Managed.Target != "" {
		return o.runManaged(ctx, args)
	}
	t, err := o.parseTarget(args[1:], o.Subresource)
	if err != nil {
		return err
	}
	namespace, err := o.namespace()
	if err != nil {
		return err
	}
	verbflag.Warn(o.errOut, args[0])
	path := "/apis/" + authz.SchemeGroupVersion.String()
	review := &authz.ResourceAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authz.SchemeGroupVersion.String(), Kind: "ResourceAccessReview"},
		Spec: authz.ResourceAccessReviewSpec{Verb: args[0], ResourceKind: t.qualified(), ResourceName: t.name, IncludeBlocked: o.Blocked,
			IncludeRules: o.Rules || o.format == "wide", NameContains: o.Filter, Limit: o.Limit, Continue: o.Continue},
	}
	if review.Spec.Time, err = o.At.Asked(); err != nil {
		return err
	}
	if t.namespaced && !o.ClusterWide {
		path += "/namespaces/" + namespace
		review.Namespace = namespace
	}
	if err := o.post(ctx, path+"/resourceaccessreviews", review); err != nil {
		return notProviso(err, "PolicyAuthorization")
	}
	code := whoCanCode(review.Status) // what is hidden counts
	var detours []indirect
	hidden := 0 // of the detours
	if o.Indirect {
		behind := review
		if !review.Spec.IncludeRules { // the roles behind the answer are ways, and not part of what is printed
			behind = review.DeepCopy()
			behind.Spec.IncludeRules, behind.Status = true, authz.ResourceAccessReviewStatus{}
			if err := o.post(ctx, path+"/resourceaccessreviews", behind); err != nil {
				return err
			}
		}
		if detours, err = o.indirect(ctx, review.Namespace, t.qualified(), behind.Status); err != nil {
			return err
		}
	}
	if hides := o.hides(); hides != nil {
		all := len(detours)
		detours = keep(detours, func(one indirect) bool { return !hides(one.UserName + one.GroupName) })
		hidden = all - len(detours)
		if n := hide(&review.Status, hides); o.HideSystem {
			o.sayHidden(n) // it was asked for: in front of the answer
		} else {
			defer o.sayHidden(n)
		}
	}
	switch o.format {
	case "table", "wide":
		if err = whoCanTable(o.Out, review.Status, o.format == "wide"); err == nil && o.Indirect {
			err = indirectTable(o.Out, detours, hidden, o.format == "wide")
		}
	case "name":
		err = whoCanNames(o.Out, review.Status)
	default:
		err = o.print(o.Out, struct {
			*authz.ResourceAccessReview
			Indirect []indirect `json:"indirect,omitempty"`
		}{review, detours})
	}
	if err != nil {
		return err
	}
	if more := review.Status.Continue; more != "" {
		terminal.Fprintf(o.ErrOut, "There may be up to %d more; continue with --continue %s\n", review.Status.RemainingAtMost, more)
	}
	o.warn(review.Status)
	return answered(code)
}

// notProviso turns a path that is not there into what that means. If the server says itself what is not there, such as
// the namespace, that is it.
func notProviso(err error, gate string) error {
	var said serverError
	if apierrors.IsNotFound(err) && !errors.As(err, &said) {
		return fmt.Errorf("the server does not support this question: it is not Proviso, or its feature gate %s is off", gate)
	}
	return err
}

// whoCanCode is the answer as an exit code.
func whoCanCode(s authz.ResourceAccessReviewStatus) int {
	switch {
	case len(s.UserNames)+len(s.GroupNames) > 0:
		return 0
	case len(s.Conditional) > 0:
		return codeDepends
	}
	return codeNo
}

// warn prints to standard error what may be missing in the answer, so a script does not read it as part of the answer.
func (o *WhoCanOptions) warn(s authz.ResourceAccessReviewStatus) {
	if s.Incomplete {
		terminal.Fprintf(o.ErrOut, "Warning: the list may be incomplete: %s\n", s.IncompleteReason)
	}
	for problem := range strings.Lines(s.EvaluationError) {
		terminal.Fprintf(o.ErrOut, "Warning: %s\n", strings.TrimSpace(problem))
	}
}

// hides returns which subjects the answer leaves out; nil if none. A table only counts those of the system.
func (o *WhoCanOptions) hides() func(name string) bool {
	switch {
	case o.HideSystem:
		return subject.IsSystem
	case o.format == "table" && !o.System:
		return subject.Folds
	}
	return nil
}

// sayHidden says how many were left out.
func (o *WhoCanOptions) sayHidden(n int) {
	switch {
	case n == 0:
	case o.HideSystem:
		terminal.Fprintf(o.ErrOut, "Hidden: %s of the system.\n", terminal.Count(n, "user or group", "users and groups"))
	default:
		terminal.Fprintf(o.ErrOut, "And %s of the system; --system lists them.\n", terminal.Count(n, "user or group", "users and groups"))
	}
}

// hide takes out those whose name is of a kind, and says how many.
func hide(s *authz.ResourceAccessReviewStatus, hides func(name string) bool) (hidden int) {
	shown := func(name string) bool {
		if hides(name) {
			hidden++
			return false
		}
		return true
	}
	s.UserNames, s.GroupNames = keep(s.UserNames, shown), keep(s.GroupNames, shown)
	s.Conditional = keep(s.Conditional, func(c authz.ConditionalSubject) bool { return shown(c.UserName + c.GroupName) })
	s.Rules = keep(s.Rules, func(r authz.SubjectRules) bool {
		before := hidden
		kept := shown(r.UserName + r.GroupName)
		hidden = before // it is counted where it is listed
		return kept
	})
	s.BlockedBy = keep(s.BlockedBy, func(b authz.BlockedSubject) bool { return shown(b.UserName + b.GroupName) })
	return hidden
}

func keep[T any](all []T, wanted func(T) bool) []T {
	var kept []T
	for _, one := range all {
		if wanted(one) {
			kept = append(kept, one)
		}
	}
	return kept
}

func whoCanNames(out io.Writer, s authz.ResourceAccessReviewStatus) error {
	var names []string
	for _, u := range s.UserNames {
		names = append(names, "user/"+u)
	}
	for _, g := range s.GroupNames {
		names = append(names, "group/"+g)
	}
	for _, c := range s.Conditional {
		kind, name := subjectOf(c.UserName, c.GroupName)
		names = append(names, strings.ToLower(kind)+"/"+name)
	}
	for _, n := range names {
		if _, err := terminal.Fprintln(out, n); err != nil {
			return err
		}
	}
	return nil
}

// by is the rule and binding of a subject, in a column.
func by(s authz.ResourceAccessReviewStatus, userName, groupName string) string {
	for _, r := range s.Rules {
		if r.UserName != userName || r.GroupName != groupName {
			continue
		}
		var texts []string
		for _, rule := range r.Rules {
			if rule.Effect == authz.EffectAllow {
				texts = append(texts, fmt.Sprintf("rule %d of %s through %s", rule.RuleIndex, object(rule.Role), object(rule.Binding)))
			}
		}
		if more := len(texts) - 1 + int(r.MoreRules); more > 0 && len(texts) > 0 {
			return fmt.Sprintf("%s, and %d more", texts[0], more)
		}
		return strings.Join(texts, "")
	}
	return ""
}

func whoCanTable(out io.Writer, s authz.ResourceAccessReviewStatus, wide bool) error {
	hint := cutLines("wide")
	if wide {
		hint = ""
	}
	fit := terminal.Fit(out, hint, nil)
	w := tabwriter.NewWriter(fit, 0, 4, 3, ' ', 0)
	column := func(userName, groupName string) terminal.Lines {
		if !wide {
			return ""
		}
		return terminal.Lines("\t" + terminal.Text(by(s, userName, groupName)))
	}
	title := terminal.Lines("")
	if wide {
		title = "\tBY"
	}
	terminal.Fprintf(w, "SUBJECT\tNAME\tCAN\tCONDITION%s\n", title)
	for _, u := range s.UserNames {
		terminal.Fprintf(w, "User\t%s\talways\t%s\n", u, column(u, ""))
	}
	for _, g := range s.GroupNames {
		terminal.Fprintf(w, "Group\t%s\talways\t%s\n", g, column("", g))
	}
	for _, c := range s.Conditional {
		kind, name := subjectOf(c.UserName, c.GroupName)
		for _, condition := range c.Conditions {
			can := "if"
			switch {
			case condition.Effect == authz.EffectDeny:
				can = "unless"
			case condition.Condition == always && len(c.Conditions) > 1:
				continue // it is allowed unless what was said before
			}
			text, description := shortText(condition.Condition, condition.Description)
			if strings.HasPrefix(text, "the following") {
				text = oneLine(description) + " (-o yaml shows the condition)"
			}
			behind := terminal.Lines("")
			if kind != "" {
				behind = column(c.UserName, c.GroupName)
			}
			terminal.Fprintf(w, "%s\t%s\t%s\t%s%s\n", kind, name, can, text, behind)
			kind, name = "", ""
		}
		if c.NarrowedTo != "" {
			terminal.Fprintf(w, "%s\t%s\t%s\n", kind, name, terminal.Lines(narrowing("narrowed to\t", terminal.Text(c.NarrowedTo))))
		}
	}
	for _, b := range s.BlockedBy {
		kind, name := subjectOf(b.UserName, b.GroupName)
		terminal.Fprintf(w, "%s\t%s\tblocked\t%s, by %s\n", kind, name, b.Rule, b.Binding)
	}
	return errors.Join(w.Flush(), fit.Close())
}

func subjectOf(userName, groupName string) (kind, name string) {
	if groupName != "" {
		return "Group", groupName
	}
	return "User", userName
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
