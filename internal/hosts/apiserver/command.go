package apiserver

import (
	"fmt"
	// Everything that kube-apiserver's main links for its side effects, which existing command lines and dashboards
	// rely on (SV-13).
	_ "time/tzdata" // time zones of cron jobs

	"github.com/spf13/cobra"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/flagz"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register"           // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo"  // metrics of clients
	_ "k8s.io/component-base/metrics/prometheus/version"   // kubernetes_build_info
	_ "k8s.io/component-base/metrics/prometheus/workqueue" // controllers report their queues
	"k8s.io/component-base/term"
	"k8s.io/component-base/version/verflag"
)

const serveLong = `Run a complete Kubernetes 1.37 API server.

Without flags it needs nothing: it brings its own etcd, makes its certificates, runs the controllers without which a
lone API server is broken, and writes an administrator's kubeconfig, all under the data directory. A second start uses
what the first one made.

All flags of kube-apiserver are accepted. With --etcd-servers it uses that etcd cluster and, unless --data-dir is given
too, behaves as a drop-in for kube-apiserver: nothing is generated, no controllers run, and every default is upstream's
but that of --authorization-mode: without it the chain is Policy, Node, RBAC, where kube-apiserver would allow everything.
Replicas with a data directory of their own must share one PKI: copy the first one's pki directory to the others. A replica
with another PKI does not start, one with other feature gates or another master namespace is not ready (see --agree).`

const serveExample = `  # Everything from nothing, on 127.0.0.1:6443
  proviso serve

  # Another place, another port
  proviso serve --data-dir /var/lib/proviso --secure-port 7443

  # On an external etcd cluster, with the controllers (leader-elected among the replicas)
  proviso serve --data-dir /var/lib/proviso --etcd-servers https://10.1.0.1:2379 \
    --etcd-cafile ca.crt --etcd-certfile client.crt --etcd-keyfile client.key --controllers '*'

  # Stock behaviour: all systems of Proviso off
  proviso serve --feature-gates ConditionalAuthorization=false,PolicyAuthorization=false,FieldPermissions=false,ProtectedAttributes=false,DynamicAudit=false`

// NewCommand returns `proviso serve`.
func NewCommand() (*cobra.Command, error) { return newCommand(NewOptions()) }

// NewKubeAPIServerCommand returns the command that this program is under the name kube-apiserver: a drop-in, whose etcd
// has to be named as there.
func NewKubeAPIServerCommand() (*cobra.Command, error) {
	o := NewOptions()
	o.standsIn = true
	cmd, err := newCommand(o)
	if err != nil {
		return nil, err
	}
	cmd.Use, cmd.Short, cmd.Example = "kube-apiserver", "kube-apiserver with the systems of Proviso", ""
	cmd.Long = "The Kubernetes API server, with the systems of Proviso in it. It takes the flags of kube-apiserver and, under 'proviso flags', a few more; `proviso serve` has no required flags."
	cmd.SilenceUsage = true
	return cmd, nil
}

func newCommand(o *Options) (*cobra.Command, error) {
	if err := RegisterFeatures(); err != nil {
		return nil, err
	}
	if err := logsapi.AddFeatureGates(utilfeature.DefaultMutableFeatureGate); err != nil {
		return nil, err
	}
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Run a complete Kubernetes API server",
		Long:    serveLong,
		Example: serveExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			verflag.PrintAndExitIfRequested()
			o.Parsed(cmd.Flags())
			if err := o.Kube.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
				return err
			}
			// The server's own clients need not hear the warnings meant for users.
			rest.SetDefaultWarningHandler(rest.NoWarnings{})
			if err := o.applyLogging(cmd); err != nil {
				return err
			}
			return Run(genericapiserver.SetupSignalContext(), o, cmd.ErrOrStderr())
		},
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w (see '%s --help')", err, cmd.CommandPath())
	})
	sections := o.Flags()
	o.Kube.Flagz = flagz.NamedFlagSetsReader{FlagSets: sections}
	verflag.AddFlags(sections.FlagSet("global"))
	globalflag.AddGlobalFlags(sections.FlagSet("global"), cmd.Name(), logs.SkipLoggingConfigurationFlags())
	for _, fs := range sections.FlagSets {
		cmd.Flags().AddFlagSet(fs)
	}
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout())
	setHelp(cmd, sections, columns)
	return cmd, nil
}

// setHelp prints the description and the examples before the flags by section.
func setHelp(cmd *cobra.Command, sections cliflag.NamedFlagSets, columns int) {
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		out := cmd.OutOrStdout()
		fmt.Fprintf(out, "%s\n\nExamples:\n%s\n\nUsage:\n  %s\n", cmd.Long, cmd.Example, cmd.UseLine())
		cliflag.PrintSections(out, sections, columns)
	})
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		fmt.Fprintf(cmd.OutOrStderr(), "Usage:\n  %s\n\nSee '%s --help'.\n", cmd.UseLine(), cmd.CommandPath())
		return nil
	})
}

// applyLogging sends the log to its place. Logging is process-wide and can be set once.
func (o *Options) applyLogging(cmd *cobra.Command) error {
	if !o.logToFile() {
		if err := logsapi.ValidateAndApply(o.Kube.Logs, utilfeature.DefaultFeatureGate); err != nil {
			return err
		}
		cliflag.PrintFlags(cmd.Flags())
		return nil
	}
	file := &logFile{Path: func() string { return o.path("log", "proviso.log") }}
	return logsapi.ValidateAndApplyWithOptions(o.Kube.Logs, &logsapi.LoggingOptions{ErrorStream: file, InfoStream: file}, utilfeature.DefaultFeatureGate)
}
