package policytools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/auditlog"
	"proviso.dev/proviso/internal/analysis/suggest"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/state/snapshot"
)

// SuggestOptions are the flags of `proviso suggest`.
type SuggestOptions struct {
	origin
	Replay          string
	Live            time.Duration
	For             []string
	As              string
	MaxNames        int
	Fields          bool
	Diff            bool
	MasterNamespace string
	// objects reads what a server has, for a where; nil if no server is asked.
	objects reader

	genericiooptions.IOStreams
}

// NewSuggestCommand returns `proviso suggest`.
func NewSuggestCommand(streams genericiooptions.IOStreams) *cobra.Command {
	return newSuggestCommand(streams, nil)
}

func newSuggestCommand(streams genericiooptions.IOStreams, objects reader) *cobra.Command {
	o := &SuggestOptions{IOStreams: streams, MasterNamespace: "master", As: "rbac", MaxNames: 20, Fields: true, objects: objects}
	cmd := &cobra.Command{
		Use:   "suggest (--replay FILE | --live TIME) [--from DIR]",
		Short: "Suggest the least rights that explain what somebody was seen doing",
		Long: `Suggest the least rights that explain what somebody did, from an audit log: verbs, resources, namespaces and names, under the conditions under which
they are held today. What is printed can be applied.

Two things are proven before it is printed, by the engine of the server: every recorded request that the policy of --from or --kubeconfig allows is allowed with
the suggestion instead of the bindings that name the subject, and the suggestion grants nothing that the subject does not hold.
Rights that everybody has (system:authenticated) stay as they are, and so do bindings to roles that deny something.

Requests that were refused are not looked at. A log of level Metadata is enough. With level RequestResponse it is told which fields updates and patches changed:
where these are few, and a permission for them exists, the right to write them (granular:…) is suggested instead of the right to write the object.
With --kubeconfig or --live, objects of the server are read where so many were touched that their names are not listed: if a label or field
that all of them share sets them apart, it becomes a where. Conditions can be said in Policy only, so that they become roles of Policy in any case.

Exit code 0 with a suggestion, 1 if nothing that was seen is held, 3 if the question could not be answered.`,
		Example: `  # For every user and service account of the log
  proviso suggest --replay audit.log --from policies/

  # For one service account, as roles of Policy
  proviso suggest --replay audit.log.gz --from dump.yaml --for serviceaccount:ci/robot --as policy

  # By the policy that a server has now
  proviso suggest --replay audit.log --kubeconfig admin.kubeconfig --for dora

  # By what a server is asked in the next ten minutes
  proviso suggest --live 10m --for serviceaccount:ci/robot

  # What would be taken away?
  proviso suggest --replay audit.log --from policies/ --for dora --diff | grep '^#'

  # What would applying it add to what there is?
  proviso suggest --replay audit.log --from policies/ --for dora > least.yaml
  proviso plan --from policies/ -f least.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Validate(); err != nil {
				return err
			}
			return o.RunSuggest(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.DurationVar(&o.Live, "live", 0, "How long to look at the requests of a server, such as 10m, instead of a log.")
	fs.StringVar(&o.Replay, "replay", "", "The audit log, or what a sink was sent: JSON lines, also compressed with gzip; - is standard input.")
	fs.StringSliceVar(&o.From, "from", nil, "Files and directories that hold the policy that there is. Without it a server is asked.")
	o.addKubeconfig(fs)
	fs.StringSliceVar(&o.For, "for", nil, "Whom: a user, group:NAME or serviceaccount:NAMESPACE/NAME. Left out, every user of the log.")
	fs.StringVar(&o.As, "as", o.As, "What to write: rbac or policy.")
	fs.IntVar(&o.MaxNames, "max-names", o.MaxNames, "How many names of objects a rule lists; with more of them it is about all names, if that is held.")
	fs.BoolVar(&o.Diff, "diff", false, "Say in comments which rights are taken away.")
	fs.BoolVar(&o.Fields, "fields", o.Fields, "Suggest permissions for single fields, which need the feature FieldPermissions.")
	fs.StringVar(&o.MasterNamespace, "policy-master-namespace", o.MasterNamespace, "The namespace whose policy holds everywhere.")
	return cmd
}

// Validate checks the flags.
func (o *SuggestOptions) Validate() error {
	switch {
	case o.Live < 0:
		return fmt.Errorf("--live %s: want a time, such as 10m", o.Live)
	case o.Replay == "" && o.Live == 0:
		return errors.New("--replay: name the file with the recorded requests, or --live how long to look at a server")
	case o.Replay != "" && o.Live > 0:
		return errors.New("--replay and --live: the requests come from one of them")
	case o.Live > 0 && !o.live():
		return errors.New("--live and --from: the server whose requests are looked at has the policy")
	case o.As != "rbac" && o.As != "policy":
		return fmt.Errorf("--as %s: want rbac or policy", o.As)
	case o.MaxNames < 1:
		return fmt.Errorf("--max-names %d: want at least 1", o.MaxNames)
	}
	for _, s := range o.For {
		if _, err := parseSubject(s); err != nil {
			return err
		}
	}
	return o.validate()
}

// doing is what one subject was seen doing.
type doing struct {
	who      *user.DefaultInfo
	uses     map[suggest.Use]int
	requests int
	changes
}

func (d *doing) add(who *user.DefaultInfo, u suggest.Use) {
	if d.who == nil {
		d.who = &user.DefaultInfo{Name: who.Name, UID: who.UID, Groups: slices.Clone(who.Groups), Extra: who.Extra}
	}
	for _, g := range who.Groups {
		if !slices.Contains(d.who.Groups, g) {
			d.who.Groups = append(d.who.Groups, g)
		}
	}
	d.uses[u]++
}

// RunSuggest reads, proves and prints.
func (o *SuggestOptions) RunSuggest(ctx context.Context) error {
	documents, err := o.origin.read(ctx)
	if err != nil {
		return err
	}
	host, err := offline.New(offline.Config{Texts: manifests.Texts(documents), MasterNamespace: o.MasterNamespace})
	if err != nil {
		return err
	}
	seen, tally, err := o.read(ctx, host)
	if err != nil {
		return err
	}
	for _, p := range tally.Problems {
		fmt.Fprintf(o.ErrOut, "%s: %s\n", o.Replay, p)
	}
	subjects := slices.SortedFunc(maps.Keys(seen), ruleset.Subject.Compare)
	for _, text := range o.For {
		if s, err := parseSubject(text); err != nil || seen[s] == nil {
			return errors.Join(err, fmt.Errorf("--for %s: no request of theirs succeeded in %s; without --for there is a suggestion for each user that was seen", text, o.Replay))
		}
	}
	if len(subjects) == 0 {
		return fmt.Errorf("--replay %s: there is no request that succeeded", o.Replay)
	}
	in, err := o.input(ctx, host)
	if err != nil {
		return err
	}
	if o.objects == nil && o.live() {
		if o.objects, err = o.reader(); err != nil {
			return err
		}
	}
	nothing := true
	for _, s := range subjects {
		empty, err := o.one(ctx, in, s, seen[s])
		if err != nil {
			return fmt.Errorf("%s: %w", offline.SubjectOf(s), err)
		}
		nothing = nothing && empty
	}
	if nothing {
		return exit(codeNo)
	}
	return nil
}

// one makes the suggestion for one subject.
func (o *SuggestOptions) one(ctx context.Context, in suggest.Input, s ruleset.Subject, d *doing) (empty bool, err error) {
	in.Subject, in.Who, in.Name = s, d.who, "suggested-"+slug(offline.SubjectOf(s))
	in.Uses = slices.SortedFunc(maps.Keys(d.uses), suggest.Use.Compare)
	if s.Group {
		in.Who = &user.DefaultInfo{Groups: []string{s.Name, user.AllAuthenticated}}
	}
	in.Checked, in.Touched = d.checked, d.objects()
	if o.Fields {
		in.Writes = d.writes()
	}
	if in.Live, err = o.there(ctx, in); err != nil {
		return false, err
	}
	result, err := suggest.Make(in)
	if err != nil {
		return false, err
	}
	if len(result.Broken) > 0 {
		return false, fmt.Errorf("the suggestion would break %d kinds of requests, such as %s: this is a mistake of the program", len(result.Broken), result.Broken[0])
	}
	if !o.Diff {
		result.Lost = nil
	}
	return len(result.Parts) == 0, printSuggestion(o.Out, in, result, d)
}

// input is what all suggestions have in common.
func (o *SuggestOptions) input(ctx context.Context, host *offline.Host) (in suggest.Input, err error) {
	u, err := offline.NewUniverse(host)
	if err != nil {
		return in, err
	}
	in = suggest.Input{Index: host.Snapshot().Rules, Policy: o.As == "policy", MaxNames: o.MaxNames, Resources: u.Resources,
		Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}, Namespaces: u.Namespaces,
		Exclusive: exclusives(host), Holds: holding(ctx, host)}
	for _, kind := range snapshot.Kinds() {
		objects, err := host.Files().Objects(kind)
		if err != nil {
			return in, err
		}
		in.Policies = append(in.Policies, snapshot.Of[*policyv1alpha1.Policy](objects)...)
		in.PolicyBindings = append(in.PolicyBindings, snapshot.Of[*policyv1alpha1.PolicyBinding](objects)...)
		in.RoleBindings = append(in.RoleBindings, snapshot.Of[*rbacv1.RoleBinding](objects)...)
		in.ClusterRoleBindings = append(in.ClusterRoleBindings, snapshot.Of[*rbacv1.ClusterRoleBinding](objects)...)
	}
	return in, nil
}

// read collects what everybody did.
func (o *SuggestOptions) read(ctx context.Context, host *offline.Host) (map[ruleset.Subject]*doing, auditlog.Tally, error) {
	log := o.In
	if o.Live > 0 {
		config, err := o.config.ToRESTConfig()
		if err != nil {
			return nil, auditlog.Tally{}, err
		}
		stream, err := liveLog(ctx, config, o.Live)
		if err != nil {
			return nil, auditlog.Tally{}, err
		}
		defer func() { _ = stream.Close() }()
		fmt.Fprintf(o.ErrOut, "Looking at what %s is asked for %s.\n", config.Host, o.Live)
		log, o.Replay = stream, "what was seen"
	} else if o.Replay != "-" {
		file, err := os.Open(o.Replay)
		if err != nil {
			return nil, auditlog.Tally{}, err
		}
		defer func() { _ = file.Close() }()
		log = file
	}
	var wanted []ruleset.Subject
	for _, text := range o.For {
		s, err := parseSubject(text)
		if err != nil {
			return nil, auditlog.Tally{}, err
		}
		wanted = append(wanted, s)
	}
	seen, states := map[ruleset.Subject]*doing{}, newBodies(host)
	tally, err := auditlog.Read(ctx, log, auditlog.Config{Workers: 1, Each: func(_ int, r *auditlog.Request) {
		if !succeeded(r) {
			return
		}
		what := states.change(r)
		note := func(who *user.DefaultInfo, what *change, uses ...suggest.Use) {
			subjects := []ruleset.Subject{{Name: who.Name}}
			for _, g := range who.Groups {
				subjects = append(subjects, ruleset.Subject{Group: true, Name: g})
			}
			for i, s := range subjects {
				if len(wanted) > 0 && !slices.Contains(wanted, s) || len(wanted) == 0 && i > 0 {
					continue
				}
				if seen[s] == nil {
					seen[s] = &doing{uses: map[suggest.Use]int{}, changes: newChanges()}
				}
				seen[s].requests++
				for _, u := range uses {
					seen[s].add(who, u)
					seen[s].take(u, what)
				}
			}
		}
		u := suggest.Use{Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name}
		if !r.IsResource() {
			u = suggest.Use{Verb: r.Verb, Path: r.Path()}
		}
		note(r.User, what, u)
		if r.By != nil {
			note(r.By, nil, impersonations(r.User)...)
		}
	}})
	return seen, tally, err
}

// succeeded tells the requests that nobody refused.
func succeeded(r *auditlog.Request) bool {
	return r.Decision != "forbid" && r.Code != 401 && r.Code != 403 && (r.Decision == "allow" || r.Code != 0)
}

// impersonations are what acting as somebody needs. Groups that the server adds by itself need no right.
func impersonations(who *user.DefaultInfo) (uses []suggest.Use) {
	if account, ok := strings.CutPrefix(who.Name, "system:serviceaccount:"); ok {
		namespace, name, _ := strings.Cut(account, ":")
		uses = append(uses, suggest.Use{Verb: "impersonate", Resource: "serviceaccounts", Namespace: namespace, Name: name})
	} else if who.Name != "" {
		uses = append(uses, suggest.Use{Verb: "impersonate", Resource: "users", Name: who.Name})
	}
	for _, g := range who.Groups {
		if g != user.AllAuthenticated && g != user.AllUnauthenticated && !strings.HasPrefix(g, "system:serviceaccounts") {
			uses = append(uses, suggest.Use{Verb: "impersonate", Resource: "groups", Name: g})
		}
	}
	return uses
}

// slug is a name for objects, another one for every subject: sa.NAMESPACE.NAME, group.NAME or the user. A text that
// cannot be a name is followed by what tells it from others.
func slug(s offline.Subject) string {
	text := s.User
	switch {
	case s.Group != "":
		text = "group." + s.Group
	case s.ServiceAccount != "":
		text = "sa." + strings.Replace(s.ServiceAccount, "/", ".", 1)
	}
	out := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, text)
	out = strings.Trim(out[:min(len(out), 200)], "-.")
	if out != text || strings.Contains(out, "..") || s.User != "" && (strings.HasPrefix(out, "sa.") || strings.HasPrefix(out, "group.")) {
		sum := sha256.Sum256([]byte(s.String()))
		return strings.TrimLeft(strings.ReplaceAll(out, "..", "-")+"-"+hex.EncodeToString(sum[:4]), "-.")
	}
	return out
}
