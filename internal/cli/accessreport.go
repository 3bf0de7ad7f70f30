package cli

import (
	"cmp"
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
	"proviso.dev/proviso/internal/analysis/auditlog"
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
they made that outlives it: tokens, certificates, roles and bindings, workloads, and secrets that were read.

The log has one event, or one list of events, in each line, and may be compressed with gzip. Lines that cannot be read are counted.
The command fails if the log has no request.`,
		Example: `  proviso access report prod-admin-x7k2p -n prod --replay /var/log/kubernetes/audit.log`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, err := o.namespace()
			if err != nil {
				return err
			}
			if len(files) == 0 {
				return errors.New("--replay: name a file with audit events; - is standard input")
			}
			return o.report(cmd.Context(), namespace+"/"+args[0], files)
		},
	}
	o.addFlags(cmd)
	cmd.Flags().StringArrayVar(&files, "replay", nil, "File with audit events, in JSON lines, plain or compressed with gzip; - is standard input. May be repeated.")
	return cmd
}

// grantReport is what a report says.
type grantReport struct {
	Request  string        `json:"request"`
	Done     []reportEntry `json:"done"`
	Outlives []reportEntry `json:"outlives"`
	// Unreadable are lines that could not be read, or are not audit events.
	Unreadable int64 `json:"unreadable,omitempty"`
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
	var total auditlog.Tally
	for _, name := range files {
		tally, err := report.read(ctx, name, o.streams.In)
		if err != nil {
			return fmt.Errorf("--replay %s: %w", name, err)
		}
		total.Add(tally)
	}
	if err := total.Answerable(files...); err != nil {
		return fmt.Errorf("--replay: %w", err)
	}
	report.Unreadable = total.Broken + total.Foreign
	if o.format == "json" || o.format == "yaml" {
		return o.print(o.streams.Out, report)
	}
	if err := o.printReport(report); err != nil || report.Unreadable == 0 {
		return err
	}
	_, err := terminal.Fprintf(o.streams.Out, "\n%s could not be read, so the report may be incomplete:\n", terminal.Count(int(report.Unreadable), "line", "lines"))
	for _, p := range total.Problems {
		_, err = terminal.Fprintf(o.streams.Out, "  %s\n", p)
	}
	return err
}

// read adds what the grant made possible by a log, in its order.
func (g *grantReport) read(ctx context.Context, name string, in io.Reader) (auditlog.Tally, error) {
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return auditlog.Tally{}, err
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	return auditlog.Read(ctx, in, auditlog.Config{Workers: 1, Each: func(_ int, r *auditlog.Request) {
		var annotations map[string]string
		if json.Unmarshal(r.Annotations, &annotations) == nil && slices.Contains(authorize.Numbered(annotations, access.AnnotationRequest), g.Request) {
			g.add(r)
		}
	}})
}

func (g *grantReport) add(r *auditlog.Request) {
	e := reportEntry{Time: r.Received, What: deed(r), Code: r.Code}
	g.Done = append(g.Done, e)
	if e.Why = outlives(r); e.Why != "" && e.Code < 300 {
		g.Outlives = append(g.Outlives, e)
	}
}

// deed is what a request did.
func deed(r *auditlog.Request) string {
	if !r.IsResource() {
		return r.Verb + " " + r.URI
	}
	target := r.Resource
	if r.Group != "" {
		target += "." + r.Group
	}
	if r.Subresource != "" {
		target += "/" + r.Subresource
	}
	if name := cmp.Or(r.Name, r.Created); name != "" {
		target += " " + name
	}
	if r.Namespace != "" {
		target += " -n " + r.Namespace
	}
	return r.Verb + " " + target
}

// runAsAccounts are what runs as a service account for as long as it is there.
var runAsAccounts = []string{"pods", "deployments", "daemonsets", "statefulsets", "replicasets", "replicationcontrollers", "jobs", "cronjobs"}

// outlives is why what was done has an effect after the grant; empty if it has none that lasts in itself.
func outlives(r *auditlog.Request) string {
	writes := verbs.IsWrite(r.Verb) && !verbs.Deletes(r.Verb)
	switch {
	case r.Resource == "serviceaccounts" && r.Subresource == "token":
		return "a token was issued, which lives until it expires"
	case r.Resource == "certificatesigningrequests" && writes:
		return "a certificate was asked for or approved, and cannot be revoked"
	case r.Group == "rbac.authorization.k8s.io" && writes, (r.Group == "authorization.proviso.dev" || r.Group == "policy.proviso.dev") && writes:
		return "a role or a binding was written"
	case slices.Contains(runAsAccounts, r.Resource) && r.Subresource == "" && writes:
		return "a workload runs as a service account"
	case r.Resource == "secrets" && verbs.IsRead(r.Verb):
		return "secrets were read"
	case r.Resource == "secrets" && writes:
		return "a secret was written"
	case strings.HasSuffix(r.Resource, "webhookconfigurations") && writes, r.Resource == "apiservices" && writes:
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
		_, err = terminal.Fprintf(out, "  %s: %s\n", e.What, e.Why)
	}
	return err
}
