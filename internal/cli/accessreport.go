package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	access "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/platform/terminal"
	"proviso.dev/proviso/internal/request/authorize"
)

func newAccessReportCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o, files := newAccessOptions(streams), []string(nil)
	cmd := &cobra.Command{
		Use:   "report NAME --replay FILE",
		Short: "Show what was done by a request, and what of it outlives the grant",
		Long: `Show from an audit log, or from what an audit sink has kept, which requests a grant made possible, and what
they made that outlives it: tokens, certificates, roles and bindings, workloads, and secrets that were read.`,
		Example: `  proviso access report prod-admin-x7k2p -n prod --replay /var/log/kubernetes/audit.log`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, err := o.namespace()
			if err != nil {
				return err
			}
			if len(files) == 0 {
				return errors.New("--replay: name a file with audit events, one in each line; - is standard input")
			}
			return o.report(cmd.Context(), namespace+"/"+args[0], files)
		},
	}
	o.addFlags(cmd)
	cmd.Flags().StringArrayVar(&files, "replay", nil, "File with audit events, one in each line; - is standard input. May be repeated.")
	return cmd
}

// deed is what a report reads of an audit event.
type deed struct {
	Stage     string    `json:"stage"`
	Verb      string    `json:"verb"`
	URI       string    `json:"requestURI"`
	Time      time.Time `json:"requestReceivedTimestamp"`
	ObjectRef *struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Group       string `json:"apiGroup"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus *struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Annotations map[string]string `json:"annotations"`
}

// grantReport is what a report says.
type grantReport struct {
	Request  string        `json:"request"`
	Done     []reportEntry `json:"done"`
	Outlives []reportEntry `json:"outlives"`
	// Unreadable are lines that are not audit events.
	Unreadable int `json:"unreadable,omitempty"`
}

type reportEntry struct {
	Time time.Time `json:"time"`
	What string    `json:"what"`
	Code int       `json:"code"`
	// Why tells why it outlives the grant.
	Why string `json:"why,omitempty"`
}

func (o *accessOptions) report(ctx context.Context, request string, files []string) error {
	if err := o.validate(); err != nil {
		return err
	}
	report := grantReport{Request: request, Done: []reportEntry{}, Outlives: []reportEntry{}}
	for _, name := range files {
		in := io.NopCloser(o.streams.In)
		if name != "-" {
			file, err := os.Open(name)
			if err != nil {
				return err
			}
			in = file
		}
		err := report.read(ctx, in)
		if err = errors.Join(err, in.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if o.format == "json" || o.format == "yaml" {
		return o.print(o.streams.Out, report)
	}
	return o.printReport(report)
}

// maxEvent is how long a line may be.
const maxEvent = 16 << 20

func (g *grantReport) read(ctx context.Context, in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() && ctx.Err() == nil {
		if len(strings.TrimSpace(lines.Text())) == 0 {
			continue
		}
		var d deed
		if json.Unmarshal(lines.Bytes(), &d) != nil || d.Verb == "" {
			g.Unreadable++
			continue
		}
		if (d.Stage == "" || d.Stage == "ResponseComplete") && slices.Contains(authorize.Numbered(d.Annotations, access.AnnotationRequest), g.Request) {
			g.add(&d)
		}
	}
	return errors.Join(lines.Err(), ctx.Err())
}

func (g *grantReport) add(d *deed) {
	e := reportEntry{Time: d.Time, What: d.what()}
	if d.ResponseStatus != nil {
		e.Code = d.ResponseStatus.Code
	}
	g.Done = append(g.Done, e)
	if e.Why = d.outlives(); e.Why != "" && e.Code < 300 {
		g.Outlives = append(g.Outlives, e)
	}
}

func (d *deed) what() string {
	if d.ObjectRef == nil {
		return d.Verb + " " + d.URI
	}
	target := d.ObjectRef.Resource
	if d.ObjectRef.Group != "" {
		target += "." + d.ObjectRef.Group
	}
	if d.ObjectRef.Subresource != "" {
		target += "/" + d.ObjectRef.Subresource
	}
	if d.ObjectRef.Name != "" {
		target += " " + d.ObjectRef.Name
	}
	if d.ObjectRef.Namespace != "" {
		target += " -n " + d.ObjectRef.Namespace
	}
	return d.Verb + " " + target
}

// runAsAccounts are what runs as a service account for as long as it is there.
var runAsAccounts = []string{"pods", "deployments", "daemonsets", "statefulsets", "replicasets", "replicationcontrollers", "jobs", "cronjobs"}

// outlives is why what was done has an effect after the grant; empty if it has none that lasts in itself.
func (d *deed) outlives() string {
	ref := d.ObjectRef
	if ref == nil {
		return ""
	}
	writes := verbs.IsWrite(d.Verb) && !verbs.Deletes(d.Verb)
	switch {
	case ref.Resource == "serviceaccounts" && ref.Subresource == "token":
		return "a token was issued, which lives until it expires"
	case ref.Resource == "certificatesigningrequests" && writes:
		return "a certificate was asked for or approved, and cannot be revoked"
	case ref.Group == "rbac.authorization.k8s.io" && writes, (ref.Group == "authorization.proviso.dev" || ref.Group == "policy.proviso.dev") && writes:
		return "a role or a binding was written"
	case slices.Contains(runAsAccounts, ref.Resource) && ref.Subresource == "" && writes:
		return "a workload runs as a service account"
	case ref.Resource == "secrets" && verbs.IsRead(d.Verb):
		return "secrets were read"
	case ref.Resource == "secrets" && writes:
		return "a secret was written"
	case strings.HasSuffix(ref.Resource, "webhookconfigurations") && writes, ref.Resource == "apiservices" && writes:
		return "requests of others go elsewhere"
	}
	return ""
}

func (o *accessOptions) printReport(g grantReport) error {
	out := o.streams.Out
	if len(g.Done) == 0 {
		_, err := terminal.Fprintf(out, "Nothing in the log was made possible by %s.\n", g.Request)
		return err
	}
	_, _ = terminal.Fprintf(out, "%d requests were made possible by %s.\n\n", len(g.Done), g.Request)
	err := table(out, "", nil, func(w io.Writer) {
		_, _ = terminal.Fprintf(w, "TIME\tCODE\tWHAT\n")
		for _, e := range g.Done {
			_, _ = terminal.Fprintf(w, "%s\t%d\t%s\n", spellTime(e.Time), e.Code, e.What)
		}
	})
	if err != nil {
		return err
	}
	if len(g.Outlives) == 0 {
		_, err = terminal.Fprintln(out, "\nNothing of it outlives the grant by itself.")
		return err
	}
	_, _ = terminal.Fprintln(out, "\nWhat outlives the grant:")
	for _, e := range g.Outlives {
		_, _ = terminal.Fprintf(out, "  %s: %s\n", e.What, e.Why)
	}
	if g.Unreadable > 0 {
		_, err = terminal.Fprintf(out, "\n%d lines are not audit events.\n", g.Unreadable)
	}
	return err
}
