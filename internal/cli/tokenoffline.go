package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/engine/narrowedtoken"
	"proviso.dev/proviso/internal/platform/terminal"
)

// TokenAttenuateOptions are the flags of `proviso token attenuate`.
type TokenAttenuateOptions struct {
	tokenRules
	TokenFile string
	For       time.Duration
	Out       string

	genericiooptions.IOStreams
}

func newTokenAttenuateCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &TokenAttenuateOptions{IOStreams: streams}
	cmd := &cobra.Command{
		Use:   "attenuate --allow 'VERBS KINDS [-n NAMESPACES]'",
		Short: "Narrow a token further, without a server",
		Long: `Append a link to a narrowed token, and print the new one. It can do what both the old token and the link
allow. No server is asked, and the old token remains valid. The token comes from --token-file, $PROVISO_TOKEN or standard input.`,
		Example: `  # For a sub-agent that only looks at pods, for five minutes
  proviso token attenuate --token-file token --allow 'get,list pods' --for 5m --description 'sub-agent' > narrower`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return o.Run() },
	}
	o.addFlags(cmd)
	cmd.Flags().StringVar(&o.TokenFile, "token-file", "", "File with the token; - is standard input. Default: $"+envToken+", or standard input.")
	cmd.Flags().DurationVar(&o.For, "for", 0, "End the token after this time, if it does not end before.")
	cmd.Flags().StringVar(&o.Out, "out", "", "File to write the token to (mode 0600) instead of standard output.")
	return cmd
}

// Run narrows and prints.
func (o *TokenAttenuateOptions) Run() error {
	if o.file == "-" && (o.TokenFile == "" || o.TokenFile == "-") {
		return errors.New("--rules - reads standard input: give the token by --token-file")
	}
	token, err := readToken(o.TokenFile, o.In)
	if err != nil {
		return err
	}
	rules, err := o.build(o.In, o.ErrOut)
	if err != nil {
		return err
	}
	link := narrowedtoken.Link{Rules: rules, Description: o.description}
	switch {
	case o.For < 0:
		return fmt.Errorf("--for %s: want a time such as 5m", o.For)
	case o.For > 0:
		link.Expires = time.Now().Add(o.For).Unix()
	}
	narrower, err := narrowedtoken.Attenuate(token, link)
	if err != nil {
		return err
	}
	return writeToken(o.Out, o.IOStreams.Out, narrower)
}

// TokenInspectOptions are the flags of `proviso token inspect`.
type TokenInspectOptions struct {
	TokenFile string

	genericiooptions.IOStreams
}

func newTokenInspectCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &TokenInspectOptions{IOStreams: streams}
	cmd := &cobra.Command{
		Use:   "inspect",
		Short: "Show what a token says, without a server",
		Long: `Print whose token it is, when it expires, and what each link allows. Nothing is verified: only the server has the key, and knows whether
the token is revoked. The token comes from --token-file, $PROVISO_TOKEN or standard input, and is not printed.`,
		Example: `  proviso token inspect --token-file token`,
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return o.Run() },
	}
	cmd.Flags().StringVar(&o.TokenFile, "token-file", "", "File with the token; - is standard input. Default: $"+envToken+", or standard input.")
	return cmd
}

// Run prints.
func (o *TokenInspectOptions) Run() error {
	text, err := readToken(o.TokenFile, o.In)
	if err != nil {
		return err
	}
	token, err := narrowedtoken.Inspect(text)
	if err != nil {
		return err
	}
	p := token.Payload
	terminal.Fprintf(o.Out, "ID:       %s\nUser:     %s\nGroups:   %s\nIssued:   %s\nExpires:  %s\n", p.ID, p.User.Name, strings.Join(p.User.Groups, ", "), inTime(p.Issued), inTime(token.Expires().Unix()))
	if p.Audience != "" {
		terminal.Fprintf(o.Out, "Audience: %s\n", p.Audience)
	}
	if b := p.Bound; b != nil {
		terminal.Fprintf(o.Out, "Bound to: service account %s/%s\n", b.Namespace, b.ServiceAccount.Name)
	}
	for i := range token.Links {
		rules, err := yaml.Marshal(token.Links[i].Rules)
		if err != nil {
			return err
		}
		terminal.Fprintf(o.Out, "Link %d:   %s\n  %s\n", i+1, token.Links[i].Description, terminal.Lines(strings.ReplaceAll(strings.TrimSpace(string(rules)), "\n", "\n  ")))
	}
	terminal.Fprintf(o.ErrOut, "The signature was not verified.\n")
	return nil
}

func inTime(seconds int64) string { return time.Unix(seconds, 0).UTC().Format(time.RFC3339) }
