package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/spf13/cobra"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/platform/terminal"
)

// AuditTailOptions are the flags of `proviso audit tail`.
type AuditTailOptions struct {
	config *genericclioptions.ConfigFlags
	Level  string
	Output string
	Class  []string
	// Selectors are alternatives each, and all that are given must match.
	Verb, User, Group, Resource, InNamespace []string
	// Leases shows also the renewals of leases, of which there are some every second.
	Leases bool

	genericiooptions.IOStreams
}

func newAuditTailCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &AuditTailOptions{config: genericclioptions.NewConfigFlags(true), Level: string(auditv1.LevelMetadata), Output: "line", IOStreams: streams}
	// Whose requests are shown is more to the point here than whose kubeconfig entry is used, and -n limits what is
	// shown.
	o.config.AuthInfoName, o.config.Namespace = nil, nil
	cmd := &cobra.Command{
		Use:   "tail [--class CLASS | selectors]",
		Short: "Show audit events while they happen",
		Long: `Show audit events of a server as they happen. Nothing is stored. Select events by audit class or by selectors. An event matches
a selector if it has one of its values. Users and groups count as one selector; all other selectors must match. Without classes
and selectors, every request is shown except those for leases, which servers and controllers renew every few seconds; --leases
shows them too.

You need the right to create auditsinks.auditregistration.k8s.io and to get the URL /proviso/audit/tail. Beside a stock server,
you need watch on auditsinks.auditregistration.k8s.io/tail instead of the URL, and events have at most the detail of the audit
policy of that server. By default, only cluster admins and members of system:masters have these rights. Lines are cut to the
width of a terminal; -o json shows everything.

Exit code 0 after Ctrl-C or when the server ends, 3 if the question could not be answered.`,
		Example: `  # Everything that changes a secret, with what was sent
  proviso audit tail --resource secrets --verb create,update,patch,delete --level Request

  # What Edgar does in namespace hammer
  proviso audit tail --user edgar -n hammer

  # What a sink with these classes would get, for a script
  proviso audit tail --class sensitive-things -o json | jq .requestURI`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return o.Run(ctx)
		},
	}
	fs := cmd.Flags()
	o.config.AddFlags(fs)
	fs.StringVar(&o.Level, "level", o.Level, "How much to record of each request: Metadata, Request or RequestResponse. Only -o json shows the difference.")
	fs.StringSliceVar(&o.Class, "class", nil, "Show requests of these audit classes. Mutually exclusive with selectors.")
	fs.StringSliceVar(&o.Verb, "verb", nil, "Verbs, such as create. For non-resource URLs, HTTP methods in lower case.")
	fs.StringSliceVar(&o.User, "user", nil, "Names of users.")
	fs.StringSliceVar(&o.Group, "group", nil, "Groups of users.")
	fs.StringSliceVar(&o.Group, "user-group", nil, "Groups of users.")
	_ = fs.MarkDeprecated("user-group", "use --group")
	fs.StringSliceVar(&o.Resource, "resource", nil, "Resources: secrets, deployments.apps, pods/exec; '*.*' for all and '*.*/*' for all subresources.")
	fs.StringSliceVarP(&o.InNamespace, "namespace", "n", nil, "Namespaces.")
	fs.BoolVar(&o.Leases, "leases", false, "Also show requests about leases if nothing is selected.")
	fs.StringVarP(&o.Output, "output", "o", o.Output, "Output: line, or json for one audit.k8s.io/v1 event per line.")
	return cmd
}

// Run asks for the stream and prints it until it ends.
func (o *AuditTailOptions) Run(ctx context.Context) error {
	if o.Output != "line" && o.Output != "json" {
		return fmt.Errorf("-o %s: want line or json", o.Output)
	}
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.Timeout = 0 // the stream has no end
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return err
	}
	resp, err := openTail(ctx, client, base, o.query())
	if err != nil {
		return unlessEnded(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return refusal(resp)
	}
	terminal.Fprintln(o.ErrOut, "Showing audit events as they happen. Ctrl-C ends it.")
	return unlessEnded(ctx, o.show(resp.Body))
}

// openTail asks a Proviso server, or the sidecar behind a stock one. If both refuse, it returns the refusal of the
// first, unless there is none.
func openTail(ctx context.Context, client *http.Client, base *url.URL, query url.Values) (*http.Response, error) {
	ask := func(path string) (*http.Response, error) {
		u := base.JoinPath(path)
		u.RawQuery = query.Encode()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		if err != nil {
			return nil, err
		}
		return client.Do(req)
	}
	first, err := ask(auditv1alpha1.TailPath)
	if err != nil || first.StatusCode != http.StatusNotFound && first.StatusCode != http.StatusForbidden {
		return first, err
	}
	second, err := ask(auditv1alpha1.TailBesidePath)
	if err != nil || second.StatusCode == http.StatusOK || first.StatusCode == http.StatusNotFound {
		_ = first.Body.Close()
		return second, err
	}
	_ = second.Body.Close()
	return first, nil
}

// noise reports whether a request is not interesting unless the user has asked for it explicitly.
func (o *AuditTailOptions) noise(e *auditv1.Event) bool {
	selected := len(o.Class)+len(o.Verb)+len(o.User)+len(o.Group)+len(o.Resource)+len(o.InNamespace) > 0
	return !selected && !o.Leases && e.ObjectRef != nil && e.ObjectRef.APIGroup == "coordination.k8s.io" && e.ObjectRef.Resource == "leases"
}

func (o *AuditTailOptions) query() url.Values {
	q := url.Values{"level": {o.Level}}
	for name, values := range map[string][]string{"class": o.Class, "verb": o.Verb, "user": o.User, "group": o.Group, "resource": o.Resource, "namespace": o.InNamespace} {
		if len(values) > 0 {
			q[name] = values
		}
	}
	return q
}

// unlessEnded takes the end that the user asked for as no error.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

func refusal(resp *http.Response) error {
	if resp.StatusCode == http.StatusNotFound {
		return errors.New("the server does not offer live audit events: it is not Proviso, or dynamic audit is off")
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	return decodeStatus(body, fmt.Errorf("the server answered %s", resp.Status))
}

// show prints the stream. What is not an event says how many are missing, and goes to standard error.
func (o *AuditTailOptions) show(stream io.Reader) error {
	in := bufio.NewReader(stream)
	colours, width := colourful(o.Out), terminal.Width(o.Out)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("broken event stream: %w", err)
		}
		var event struct {
			auditv1.Event `json:",inline"`
			Count         uint64 `json:"count"`
		}
		if broken := json.Unmarshal(line, &event); broken != nil {
			// A line that is whole and looks like an event is one that this version cannot read. It must not end the
			// others.
			if err != nil || line[0] != '{' {
				return fmt.Errorf("broken event stream: %w", broken)
			}
			terminal.Fprintf(o.ErrOut, "an event cannot be read: %v\n", broken)
			continue
		}
		switch {
		case event.Kind == "Dropped":
			terminal.Fprintf(o.ErrOut, "%d events are missing because this client was too slow; select fewer events\n", event.Count)
			continue
		case o.noise(&event.Event):
			continue
		case o.Output == "json":
			_, err = o.Out.Write(line)
		default:
			_, err = terminal.Fprintln(o.Out, eventLine(&event.Event, colours, width))
		}
		if err != nil {
			return err
		}
	}
}

// eventLine is an event as a person reads it: when, answer, who, what. It is cut to a width, unless that is 0.
func eventLine(e *auditv1.Event, colours bool, width int) terminal.Lines {
	const between = "  "
	var parts []string
	left := width
	add := func(code, text string) {
		text = terminal.Text(text)
		if width > 0 {
			if left < 2 {
				return
			}
			text = terminal.Cut(text, left)
			left -= utf8.RuneCountInString(text) + len(between)
		}
		if colours && code != "" {
			text = "\x1b[" + code + "m" + text + "\x1b[0m"
		}
		parts = append(parts, text)
	}
	answer, colour := "---", "2"
	if e.ResponseStatus != nil && e.ResponseStatus.Code > 0 {
		answer = fmt.Sprint(e.ResponseStatus.Code)
		switch {
		case e.ResponseStatus.Code >= 400:
			colour = "31"
		case e.ResponseStatus.Code >= 300:
			colour = "33"
		default:
			colour = "32"
		}
	}
	who := e.User.Username
	if e.ImpersonatedUser != nil {
		who += " as " + e.ImpersonatedUser.Username
	}
	add("2", e.StageTimestamp.Local().Format("15:04:05.000"))
	add(colour, answer)
	add("36", who)
	add("1", e.Verb)
	add("", e.RequestURI)
	if e.ObjectRef != nil && e.Verb == "create" && e.ObjectRef.Name != "" && e.ObjectRef.Subresource == "" {
		add("1", e.ObjectRef.Name) // the URL of a create does not say it
	}
	if e.Stage != auditv1.StageResponseComplete {
		add("2", string(e.Stage))
	}
	if e.ResponseStatus != nil && e.ResponseStatus.Code >= 400 && e.ResponseStatus.Message != "" {
		add("2", e.ResponseStatus.Message)
	}
	return terminal.Lines(strings.Join(parts, between))
}

// colourful reports whether the output is a terminal whose user has not asked for plain text.
func colourful(out io.Writer) bool {
	f, ok := terminal.Underlying(out).(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
