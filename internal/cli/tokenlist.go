package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/features/tokens"
	"proviso.dev/proviso/internal/platform/terminal"
)

// TokenListOptions are the flags of `proviso token list`.
type TokenListOptions struct {
	*tokenClient
	output
	User string
	All  bool

	genericiooptions.IOStreams
}

func newTokenListCommand(streams genericiooptions.IOStreams) *cobra.Command {
	o := &TokenListOptions{tokenClient: newTokenClient(streams.ErrOut), output: output{format: "wide", formats: []string{"wide", "json", "yaml"}}, IOStreams: streams}
	cmd := &cobra.Command{
		Use:   "list [--user-name NAME | --all]",
		Short: "List narrowed tokens that the server has issued and that have not ended",
		Long: `List your tokens: their ids, when they end, whether they are revoked, and what their links are called. A token itself is never shown.
To see the tokens of others, you need the verb list on narrowedtokens.access.proviso.dev.

The list is kept in etcd, the same for all replicas: the newest 50 tokens of each user, and 4 MiB in all. If tokens
were dropped before they ended, the command says so; the audit log has every token that was issued. No server knows links that a holder
has added offline. Revocations of the listed tokens follow; "proviso history" says who made them.`,
		Example: `  # Your own
  proviso token list

  # Those of a user
  proviso token list --user-name edgar`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.Run(cmd.Context()) },
	}
	o.tokenClient.addFlags(cmd)
	o.output.addFlag(cmd)
	cmd.Flags().StringVar(&o.User, "user-name", "", "The user whose tokens are listed. Default: you.")
	cmd.Flags().BoolVar(&o.All, "all", false, "List the tokens of all users.")
	return cmd
}

// Run lists.
func (o *TokenListOptions) Run(ctx context.Context) error {
	if err := o.validate(); err != nil {
		return err
	}
	if o.All && o.User != "" {
		return errors.New("--all and --user-name are mutually exclusive")
	}
	list, err := o.ask(ctx)
	if err != nil {
		return err
	}
	if o.format != "wide" {
		return o.print(o.Out, list)
	}
	if len(list.Items) == 0 {
		if _, err := terminal.Fprintf(o.Out, "There are no tokens that have not ended.\n"); err != nil {
			return err
		}
	} else if err := o.printTokens(list.Items); err != nil {
		return err
	}
	if len(list.Revocations) > 0 {
		if err := o.printRevocations(list.Revocations); err != nil {
			return err
		}
	}
	if list.Dropped {
		terminal.Fprintf(o.ErrOut, "Older tokens that have not ended are not listed: there are too many. The audit log has them, and revoking by user ends them, too.\n")
	}
	if list.Unreadable > 0 {
		terminal.Fprintf(o.ErrOut, "%d tokens are not listed: this server cannot read their entries.\n", list.Unreadable)
	}
	return nil
}

func (o *TokenListOptions) printTokens(items []tokens.Issued) error {
	return table(o.Out, cutLines("yaml"), nil, func(w io.Writer) {
		_, _ = terminal.Fprintf(w, "ID\tUSER\tISSUED\tENDS\tSTATE\tLINKS\n")
		for _, t := range items {
			state := "Active"
			if t.Revoked {
				state = "Revoked"
			}
			_, _ = terminal.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", t.ID, t.User, spellTime(t.Issued.Time), spellTime(t.Expires.Time), state, linkNames(t.Links))
		}
	})
}

func (o *TokenListOptions) printRevocations(all []tokens.Revocation) error {
	terminal.Fprintf(o.Out, "\n")
	return table(o.Out, cutLines("yaml"), nil, func(w io.Writer) {
		_, _ = terminal.Fprintf(w, "REVOCATION\tCREATED\tISSUED BEFORE\tUSERS\tTOKENS\n")
		for _, r := range all {
			before := "any time"
			if r.IssuedBefore != nil {
				before = spellTime(r.IssuedBefore.Time)
			}
			_, _ = terminal.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Name, spellTime(r.Created.Time), before, strings.Join(r.UserNames, ", "), strings.Join(r.TokenIDs, ", "))
		}
	})
}

// linkNames are the links of a token in a cell.
func linkNames(links []string) string {
	named := slices.Clone(links)
	for i, d := range named {
		if d == "" {
			named[i] = fmt.Sprintf("(link %d)", i+1)
		}
	}
	return strings.Join(named, ", ")
}

func (o *TokenListOptions) ask(ctx context.Context) (*tokens.List, error) {
	config, err := o.config.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	rc, err := connectTo(config)
	if err != nil {
		return nil, err
	}
	question := rc.Get().AbsPath(tokens.ListPath).SetHeader("Accept", "application/json")
	if o.User != "" {
		question.Param("user", o.User)
	}
	if o.All {
		question.Param("all", "true")
	}
	answer, err := question.DoRaw(ctx)
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), tokens.ListPath):
		return nil, fmt.Errorf("you may not list tokens; ask for a cluster role that allows get on the path %s, as %s does: %w", tokens.ListPath, tokens.Requester, err)
	case err != nil:
		return nil, noTokens(decodeStatus(answer, err))
	}
	list := &tokens.List{}
	if err := json.Unmarshal(answer, list); err != nil {
		return nil, fmt.Errorf("the list of tokens has not come to its end: %w", err)
	}
	return list, nil
}
