package sidecar

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"proviso.dev/proviso/internal/platform/terminal"
	"proviso.dev/proviso/internal/state/timekeeper"
)

func newInitCommand(streams genericiooptions.IOStreams) *cobra.Command {
	out := ""
	asked := newInitFlags(defaults())
	cmd := &cobra.Command{
		Use:   "init --out DIR",
		Short: "Write everything that the stock API server needs",
		Long: `Writes certificates, the configuration files and flags of the API server, what to apply in the cluster, and units to run the
sidecar with. Run it again to renew certificates or to change settings: a setting that no flag names stays as it is, and
files are replaced by rename.`,
		Example: `  # For a cluster that kubeadm made:
  proviso sidecar init --out /etc/proviso-sidecar

  # With the etcd of the cluster, for several control-plane machines:
  proviso sidecar init --out /etc/proviso-sidecar --etcd-servers https://127.0.0.1:2379 \
    --etcd-cafile /etc/kubernetes/pki/etcd/ca.crt --etcd-certfile /etc/kubernetes/pki/apiserver-etcd-client.crt \
    --etcd-keyfile /etc/kubernetes/pki/apiserver-etcd-client.key

  # Later, to change one of them:
  proviso sidecar init --out /etc/proviso-sidecar --read-objects`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return errors.New("--out: name the directory to write")
			}
			flags, err := asked.over(out)
			if err != nil {
				return err
			}
			s, err := flags.settings()
			if err != nil {
				return err
			}
			if err := initialize(out, s.PKIDir, s); err != nil {
				return err
			}
			if kept := flags.kept(asked); len(kept) > 0 {
				terminal.Fprintf(streams.Out, "Kept from the last time: %s\n", strings.Join(kept, " "))
			}
			_, err = fmt.Fprintf(streams.Out, `Wrote %[1]s. Next:
  1. Run the sidecar:        proviso sidecar --dir %[1]s
  2. Restart kube-apiserver with the flags in %[1]s/kube-apiserver.flags, and without those in %[1]s/kube-apiserver.remove.
  3. As a cluster admin:     kubectl apply -f %[1]s/cluster.yaml
  4. See that all is well:   proviso sidecar check --dir %[1]s
`, filepath.Clean(out))
			return err
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "Directory to write.")
	cmd.Flags().AddFlagSet(asked.set)
	return cmd
}

// defaults are the settings if no flag names others.
func defaults() *settings {
	return &settings{Server: "https://127.0.0.1:6443", Listen: "127.0.0.1:6453", Namespace: "proviso-system", MasterNamespace: "master", AuditLevel: "Metadata",
		Service: byName, Audit: auditByLog, MaxStaleness: metav1.Duration{Duration: 2 * time.Minute}, MaxClockSkew: metav1.Duration{Duration: timekeeper.DefaultSkew}, PKIDir: "/etc/kubernetes/pki",
		ExemptGroups: []string{"system:nodes"}, ExemptUsers: []string{"system:kube-controller-manager", "system:kube-scheduler"}}
}

// initFlags are the flags of init, which write into settings.
type initFlags struct {
	set    *pflag.FlagSet
	into   *settings
	exempt []string
}

// newInitFlags are flags whose defaults are the given settings.
func newInitFlags(s *settings) *initFlags {
	flags := &initFlags{set: pflag.NewFlagSet("init", pflag.ContinueOnError), into: s}
	var exempt []string
	for _, name := range s.ExemptGroups {
		exempt = append(exempt, exemptGroup+":"+name)
	}
	for _, name := range s.ExemptUsers {
		exempt = append(exempt, exemptUser+":"+name)
	}
	f := flags.set
	f.StringVar(&s.PKIDir, "pki-dir", s.PKIDir, "Directory with the cluster's ca.crt, ca.key and front-proxy-ca.crt, as kubeadm lays it out.")
	f.StringVar(&s.Server, "server", s.Server, "The API server of this machine.")
	f.StringVar(&s.Listen, "listen", s.Listen, "Loopback address and port of the sidecar.")
	f.StringVar(&s.Namespace, "namespace", s.Namespace, "Namespace of the sidecar's Service and of what its canary pretends to write.")
	f.StringVar(&s.MasterNamespace, "policy-master-namespace", s.MasterNamespace, "Namespace whose policy applies to all namespaces and to cluster-scoped requests.")
	f.StringSliceVar(&flags.exempt, "exempt", exempt, "Users and groups that bypass the webhooks, so the cluster can start without the sidecar: user:NAME or group:NAME. Policy does not hold for them.")
	f.StringSliceVar(&s.ConditionsFor, "conditions-for", s.ConditionsFor, "Resources, as RESOURCE or RESOURCE.GROUP, for which conditional permissions are honoured. Default: all.")
	f.StringVar(&s.Service, "service", s.Service, "How API servers find the sidecar: externalname, on their own machine, or clusterip, by --advertise-address, for API servers with --enable-aggregator-routing or an egress selector for the cluster.")
	f.StringVar(&s.Advertise, "advertise-address", s.Advertise, "Address of this machine at which API servers find the sidecar, with --service=clusterip. It listens there, too.")
	f.DurationVar(&s.MaxStaleness.Duration, "policy-max-staleness", s.MaxStaleness.Duration,
		"How long the sidecar may go on deciding when it hears nothing more from its etcd or from the API server. Then it refuses everybody whom it is asked about. At least 30s; 0 for any time.")
	f.DurationVar(&s.MaxClockSkew.Duration, "max-clock-skew", s.MaxClockSkew.Duration,
		"How far the clocks of two sidecars may be apart, from 100ms to 30s. While they are further apart, and while the clock of a machine is more than 30s behind an instant that was seen before, role bindings that begin or end allow nothing there, and deny.")
	f.StringSliceVar(&s.Etcd.Servers, "etcd-servers", s.Etcd.Servers, "Store policy in this etcd. Default: an embedded one below --out.")
	f.StringVar(&s.Etcd.Prefix, "etcd-prefix", s.Etcd.Prefix, "Prefix of everything stored there. Default: /proviso.")
	f.StringVar(&s.Etcd.CAFile, "etcd-cafile", s.Etcd.CAFile, "Authority of the etcd.")
	f.StringVar(&s.Etcd.CertFile, "etcd-certfile", s.Etcd.CertFile, "Client certificate for the etcd.")
	f.StringVar(&s.Etcd.KeyFile, "etcd-keyfile", s.Etcd.KeyFile, "Its key.")
	f.StringVar(&s.Audit, "audit", s.Audit, "Where audit sinks get their events from: log, the API server's log file, of which nothing is lost, or webhook, which loses what the API server holds when it dies.")
	f.StringVar(&s.AuditLevel, "audit-level", s.AuditLevel, "How much of each request the audit log holds; audit sinks get at most that.")
	f.BoolVar(&s.ReadObjects, "read-objects", s.ReadObjects, "Let the sidecar read every object of the cluster, secrets included, so that denies of deletes hold for what a delete deletes further, and evictions, Bindings and connections are decided by their pod.")
	f.BoolVar(&s.AllowInsecureSinks, "audit-dynamic-allow-insecure-sinks", s.AllowInsecureSinks, "Let audit sinks use http and be on this machine. For tests.")
	return flags
}

// over are the flags that were given, over the settings of an earlier init in the directory. Settings that cannot be
// read are not replaced by defaults: a sidecar with another etcd has another policy.
func (f *initFlags) over(dir string) (*initFlags, error) {
	earlier, err := readSettings(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the settings of the last time cannot be kept: %w; mend that file, or remove it and name all settings", err)
	}
	if earlier.PKIDir == "" {
		earlier.PKIDir = f.into.PKIDir
	}
	all := newInitFlags(earlier)
	f.set.VisitAll(func(given *pflag.Flag) {
		flag := all.set.Lookup(given.Name)
		list, several := given.Value.(pflag.SliceValue)
		switch {
		case !given.Changed:
		case several:
			err = errors.Join(err, flag.Value.(pflag.SliceValue).Replace(list.GetSlice()))
		default:
			err = errors.Join(err, flag.Value.Set(given.Value.String()))
		}
	})
	return all, err
}

// kept are the settings that no flag has named and that are not the defaults.
func (f *initFlags) kept(asked *initFlags) (all []string) {
	f.set.VisitAll(func(flag *pflag.Flag) {
		if given := asked.set.Lookup(flag.Name); !given.Changed && given.Value.String() != flag.Value.String() {
			all = append(all, "--"+flag.Name+"="+strings.Trim(flag.Value.String(), "[]"))
		}
	})
	return all
}

const exemptUser, exemptGroup = "user", "group"

// settings are what the flags say.
func (f *initFlags) settings() (*settings, error) {
	s := f.into
	var err error
	if s.PKIDir, err = filepath.Abs(s.PKIDir); err != nil {
		return nil, err
	}
	s.ExemptUsers, s.ExemptGroups = nil, nil
	for _, e := range f.exempt {
		kind, name, _ := strings.Cut(e, ":")
		switch {
		case name == "" || kind != exemptUser && kind != exemptGroup:
			return nil, fmt.Errorf("--exempt=%s: want user:NAME or group:NAME", e)
		case kind == exemptUser:
			s.ExemptUsers = append(s.ExemptUsers, name)
		default:
			s.ExemptGroups = append(s.ExemptGroups, name)
		}
	}
	return s, nil
}
