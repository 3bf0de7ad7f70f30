package sidecar

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/features/feature"
)

// NewCommand is `proviso sidecar`. Kinds is what the program knows of Kubernetes' own kinds.
func NewCommand(streams genericiooptions.IOStreams, kinds func() feature.Kinds) *cobra.Command {
	var dir string
	var agree bool
	cmd := &cobra.Command{
		Use:   "sidecar",
		Short: "Bring the five systems to a stock kube-apiserver, from beside it",
		Long: `Runs beside an unmodified kube-apiserver 1.37 on the same machine. The API server asks it in its authorization and admission
webhooks, and finds the API groups of Proviso there.

While the sidecar is down, only system:masters and the identities of 'init --exempt' are let in. Conditional permissions are
honoured only while it is proven that the API server calls the admission webhook.`,
		Example: `  # On the machine of the API server, once:
  proviso sidecar init --out /etc/proviso-sidecar --pki-dir /etc/kubernetes/pki

  # Run it:
  proviso sidecar --dir /etc/proviso-sidecar

  # Give the API server the flags in /etc/proviso-sidecar/kube-apiserver.flags, without those in kube-apiserver.remove, then:
  kubectl apply -f /etc/proviso-sidecar/cluster.yaml
  proviso sidecar check --dir /etc/proviso-sidecar`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return errors.New("--dir: name the directory that `proviso sidecar init` wrote")
			}
			absolute, err := filepath.Abs(dir)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return Run(ctx, absolute, agree, kinds(), func(line string) { fmt.Fprintln(streams.Out, line) })
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "Directory that `proviso sidecar init` wrote.")
	cmd.Flags().BoolVar(&agree, "agree", false, "Let the time of this machine be the one that counts, although a later one was seen before. Use it once, on one machine.")
	cmd.AddCommand(newInitCommand(streams), newCheckCommand(streams))
	return cmd
}

func newCheckCommand(streams genericiooptions.IOStreams) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "check --dir DIR",
		Short: "Diagnose a sidecar and its API server",
		Long:  "Prints one line for each problem. Exit code 0 only if conditional permissions are honoured; a line that begins with 'warning:' does not count.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return errors.New("--dir: name the directory that `proviso sidecar init` wrote")
			}
			ctx := cmd.Context()
			if ctx == nil {
				ctx = context.Background()
			}
			problems, warnings := check(ctx, dir)
			for _, p := range problems {
				fmt.Fprintln(streams.Out, p)
			}
			for _, w := range warnings {
				fmt.Fprintln(streams.Out, "warning: "+w)
			}
			if len(problems) > 0 {
				return found{}
			}
			_, err := fmt.Fprintln(streams.Out, "Conditions are honoured.\n"+withoutThem)
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "Directory that `proviso sidecar init` wrote.")
	return cmd
}

// withoutThem says what a Proviso server has and a stock one does not (TM-16, TK-10).
const withoutThem = "Beside a stock kube-apiserver there are no access requests and no narrowed tokens."

// found ends check with exit code 1, without a further word.
type found struct{}

func (found) Error() string { return "" }

// ExitCode is how scripts see it.
func (found) ExitCode() int { return 1 }
