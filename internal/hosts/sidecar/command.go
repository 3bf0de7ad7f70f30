package sidecar

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/state/timekeeper"
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

func newInitCommand(streams genericiooptions.IOStreams) *cobra.Command {
	s := &settings{Server: "https://127.0.0.1:6443", Listen: "127.0.0.1:6453", Namespace: "proviso-system", MasterNamespace: "master", AuditLevel: "Metadata", MaxStaleness: metav1.Duration{Duration: 2 * time.Minute},
		MaxClockSkew: metav1.Duration{Duration: timekeeper.DefaultSkew}}
	out, pkiDir := "", "/etc/kubernetes/pki"
	exempt := []string{"group:system:nodes", "user:system:kube-controller-manager", "user:system:kube-scheduler"}
	cmd := &cobra.Command{
		Use:   "init --out DIR",
		Short: "Write everything that the stock API server needs",
		Long: `Writes certificates, the configuration files and flags of the API server, what to apply in the cluster, and units to run the
sidecar with. Run it again to renew certificates or to change settings: files are replaced by rename.`,
		Example: `  # For a cluster that kubeadm made:
  proviso sidecar init --out /etc/proviso-sidecar

  # With the etcd of the cluster, for several control-plane machines:
  proviso sidecar init --out /etc/proviso-sidecar --etcd-servers https://127.0.0.1:2379 \
    --etcd-cafile /etc/kubernetes/pki/etcd/ca.crt --etcd-certfile /etc/kubernetes/pki/apiserver-etcd-client.crt \
    --etcd-keyfile /etc/kubernetes/pki/apiserver-etcd-client.key`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if out == "" {
				return errors.New("--out: name the directory to write")
			}
			for _, e := range exempt {
				kind, name, _ := strings.Cut(e, ":")
				switch {
				case name == "" || kind != "user" && kind != "group":
					return fmt.Errorf("--exempt=%s: want user:NAME or group:NAME", e)
				case kind == "user":
					s.ExemptUsers = append(s.ExemptUsers, name)
				default:
					s.ExemptGroups = append(s.ExemptGroups, name)
				}
			}
			if err := initialize(out, pkiDir, s); err != nil {
				return err
			}
			_, err := fmt.Fprintf(streams.Out, `Wrote %[1]s. Next:
  1. Run the sidecar:        proviso sidecar --dir %[1]s
  2. Restart kube-apiserver with the flags in %[1]s/kube-apiserver.flags, and without those in %[1]s/kube-apiserver.remove.
  3. As a cluster admin:     kubectl apply -f %[1]s/cluster.yaml
  4. See that all is well:   proviso sidecar check --dir %[1]s
`, filepath.Clean(out))
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "", "Directory to write.")
	f.StringVar(&pkiDir, "pki-dir", pkiDir, "Directory with the cluster's ca.crt, ca.key and front-proxy-ca.crt, as kubeadm lays it out.")
	f.StringVar(&s.Server, "server", s.Server, "The API server of this machine.")
	f.StringVar(&s.Listen, "listen", s.Listen, "Loopback address and port of the sidecar.")
	f.StringVar(&s.Namespace, "namespace", s.Namespace, "Namespace of the sidecar's Service and of what its canary pretends to write.")
	f.StringVar(&s.MasterNamespace, "policy-master-namespace", s.MasterNamespace, "Namespace whose policy applies to all namespaces and to cluster-scoped requests.")
	f.StringSliceVar(&exempt, "exempt", exempt, "Users and groups that bypass the webhooks, so the cluster can start without the sidecar: user:NAME or group:NAME. Policy does not hold for them.")
	f.StringSliceVar(&s.ConditionsFor, "conditions-for", nil, "Resources, as RESOURCE or RESOURCE.GROUP, for which conditional permissions are honoured. Default: all.")
	f.StringVar(&s.Service, "service", byName, "How API servers find the sidecar: externalname, on their own machine, or clusterip, by --advertise-address, for API servers with --enable-aggregator-routing or an egress selector for the cluster.")
	f.StringVar(&s.Advertise, "advertise-address", "", "Address of this machine at which API servers find the sidecar, with --service=clusterip. It listens there, too.")
	f.DurationVar(&s.MaxStaleness.Duration, "policy-max-staleness", s.MaxStaleness.Duration,
		"How long the sidecar may go on deciding when it hears nothing more from its etcd or from the API server. Then it refuses everybody whom it is asked about. At least 30s; 0 for any time.")
	f.DurationVar(&s.MaxClockSkew.Duration, "max-clock-skew", s.MaxClockSkew.Duration,
		"How far the clocks of two sidecars may be apart, from 100ms to 30s. While they are further apart, and while the clock of a machine is more than 30s behind an instant that was seen before, role bindings that begin or end allow nothing there, and deny.")
	f.StringSliceVar(&s.Etcd.Servers, "etcd-servers", nil, "Store policy in this etcd. Default: an embedded one below --out.")
	f.StringVar(&s.Etcd.Prefix, "etcd-prefix", "", "Prefix of everything stored there. Default: /proviso.")
	f.StringVar(&s.Etcd.CAFile, "etcd-cafile", "", "Authority of the etcd.")
	f.StringVar(&s.Etcd.CertFile, "etcd-certfile", "", "Client certificate for the etcd.")
	f.StringVar(&s.Etcd.KeyFile, "etcd-keyfile", "", "Its key.")
	f.StringVar(&s.Audit, "audit", auditByLog, "Where audit sinks get their events from: log, the API server's log file, of which nothing is lost, or webhook, which loses what the API server holds when it dies.")
	f.StringVar(&s.AuditLevel, "audit-level", s.AuditLevel, "How much of each request the audit log holds; audit sinks get at most that.")
	f.BoolVar(&s.ReadObjects, "read-objects", false, "Let the sidecar read every object of the cluster, secrets included, so that denies of deletes hold for what a delete deletes further, and evictions, Bindings and connections are decided by their pod.")
	f.BoolVar(&s.AllowInsecureSinks, "audit-dynamic-allow-insecure-sinks", false, "Let audit sinks use http and be on this machine. For tests.")
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
