package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/engine/auditrule"
	"proviso.dev/proviso/internal/platform/terminal"
)

// AuditEffectiveOptions are the flags of `proviso audit effective`.
type AuditEffectiveOptions struct {
	config *genericclioptions.ConfigFlags
	Sink   string

	genericiooptions.IOStreams
}

func newAuditEffectiveCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &AuditEffectiveOptions{config: genericclioptions.NewConfigFlags(true), IOStreams: streams}
	cmd := &cobra.Command{
		Use:   "effective [--sink NAME]",
		Short: "Show the compiled audit policies of a running server",
		Long: `Show what the audit sinks of a running server record: the policy of each sink as an audit.k8s.io/v1 Policy, with a comment at
each rule that names the audit class it comes from. A policy that asks how a request was decided has no equivalent; it is named.
The static policy of the server (--audit-policy-file) is not shown.

You need the right to list auditsinks and auditclasses of auditregistration.k8s.io, and to get the URL /proviso/audit/effective.

Exit code 0, or 3 if the question could not be answered.`,
		Example: `  # What all sinks record
  proviso audit effective

  # One of them
  proviso audit effective --sink security`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.Run(cmd.Context()) },
	}
	o.config.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.Sink, "sink", "", "Name of the audit sink. All of them by default.")
	return cmd
}

// Run asks and prints.
func (o *AuditEffectiveOptions) Run(ctx context.Context) error {
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return err
	}
	found, err := askEffective(ctx, config, o.Sink)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		terminal.Fprintln(o.ErrOut, "The server has no audit sinks.")
	}
	for i := range found {
		text, err := effectiveText(&found[i])
		if err != nil {
			return err
		}
		if i > 0 {
			terminal.Fprintln(o.Out, "---")
		}
		if _, err := io.WriteString(o.Out, text); err != nil {
			return err
		}
	}
	return nil
}

func askEffective(ctx context.Context, config *rest.Config, sink string) ([]auditrule.Effective, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	u := base.JoinPath(auditv1alpha1.EffectivePath)
	if sink != "" {
		u.RawQuery = url.Values{"sink": {sink}}.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, decodeStatus(body, notEffective(resp))
	}
	var found []auditrule.Effective
	if err := json.Unmarshal(body, &found); err != nil {
		return nil, fmt.Errorf("the answer of the server cannot be read: %w", err)
	}
	return found, nil
}

func notEffective(resp *http.Response) error {
	if resp.StatusCode == http.StatusNotFound {
		return errors.New("the server does not show compiled audit policies: it is not Proviso, or dynamic audit is off")
	}
	return fmt.Errorf("the server answered %s", resp.Status)
}

// effectiveText is a policy as YAML, with comments that say where each rule comes from.
func effectiveText(e *auditrule.Effective) (string, error) {
	var b strings.Builder
	terminal.Fprintf(&b, "# AuditSink %s, generation %d: %s\n", e.Sink, e.Generation, e.Reason)
	for _, line := range []string{e.Message, e.Problem} {
		if line != "" {
			terminal.Fprintf(&b, "# %s\n", line)
		}
	}
	if e.Policy == nil {
		return b.String(), nil
	}
	head := map[string]any{"apiVersion": auditv1.SchemeGroupVersion.String(), "kind": "Policy", "omitStages": e.Policy.OmitStages}
	if e.Policy.OmitManagedFields {
		head["omitManagedFields"] = true
	}
	text, err := yaml.Marshal(head)
	if err != nil {
		return "", err
	}
	b.Write(text)
	b.WriteString("rules:\n")
	for i := range e.Policy.Rules {
		if i < len(e.From) {
			terminal.Fprintf(&b, "# %s\n", strings.Join(e.From[i], "; "))
		}
		rule, err := yaml.Marshal(e.Policy.Rules[i : i+1])
		if err != nil {
			return "", err
		}
		b.Write(rule)
	}
	return b.String(), nil
}
