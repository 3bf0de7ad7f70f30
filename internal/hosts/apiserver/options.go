package apiserver

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/audit"
	genericapiserver "k8s.io/apiserver/pkg/server"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/featuregate"
	kubeoptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"

	"proviso.dev/proviso/internal/features"
	"proviso.dev/proviso/internal/features/conditionalreads"
	"proviso.dev/proviso/internal/features/conditions"
	"proviso.dev/proviso/internal/features/dynamicaudit/sink"
	"proviso.dev/proviso/internal/features/tokens"
	"proviso.dev/proviso/internal/hosts/apiserver/authzconfig"
	"proviso.dev/proviso/internal/hosts/apiserver/controllers"
	"proviso.dev/proviso/internal/hosts/apiserver/replicas"
	"proviso.dev/proviso/internal/request/streams"
	"proviso.dev/proviso/internal/state/journal"
	"proviso.dev/proviso/internal/state/source"
	"proviso.dev/proviso/internal/state/timekeeper"
)

// Options are the flags of `proviso serve`: all of kube-apiserver's and a few of our own.
type Options struct {
	Kube *kubeoptions.ServerRunOptions

	// DataDir holds everything the server generates.
	DataDir string
	// Controllers selects the in-process controllers, in kube-controller-manager's notation.
	Controllers []string
	// LogOutput is where the server's log goes: auto, stderr or file.
	LogOutput string
	// PolicyMasterNamespace is the namespace whose bindings apply everywhere.
	PolicyMasterNamespace string
	// Agree changes what the replicas on this etcd have agreed on to the settings of this one.
	Agree bool
	// ProtectedAttributesExemptUsers and ...Groups copy what was already admitted, beyond Kubernetes' own controllers.
	ProtectedAttributesExemptUsers, ProtectedAttributesExemptGroups []string

	// Recheck is which streams end when a change of policy takes the right to them, and RecheckWatches the older way to
	// say All.
	Recheck        string
	RecheckWatches bool

	// MaxStaleness is how old the policy may be before all users are refused; 0 means unlimited.
	MaxStaleness time.Duration

	// MaxClockSkew is how far the clocks of two replicas may be apart.
	MaxClockSkew time.Duration

	// ExpiredBindingsTTL is how long role bindings stay after their end; 0 keeps them.
	ExpiredBindingsTTL time.Duration

	// HistoryEntries is how many changes of policy the journal keeps.
	HistoryEntries int

	// AuditDynamic are the settings of dynamic audit.
	AuditDynamic AuditDynamicOptions

	// NarrowedTokenKeyFiles have the root keys of narrowed tokens, and NarrowedTokenMax is how long one lives at most.
	NarrowedTokenKeyFiles []string
	NarrowedTokenMax      time.Duration

	// standsIn is set when the program was called as kube-apiserver.
	standsIn bool
	// lineup is the list of systems, of which gates take some out.
	lineup features.Lineup
	// hands are those of the clock.
	hands timekeeper.Hands
	// on and off are gates that are so in this server, whatever the process says.
	on, off []featuregate.Feature
	// auditBackend and auditEvaluator take the place of the configured ones; tests look at events with them.
	auditBackend   audit.Backend
	auditEvaluator audit.PolicyRuleEvaluator
	// configured may change the configuration of the built-in resources before the others are copied from it.
	configured func(c *config, generic *genericapiserver.Config) error
	// changed reports whether the user gave a flag; a given flag is never overridden.
	changed func(name string) bool
}

// AuditDynamicOptions are the flags of dynamic audit.
type AuditDynamicOptions struct {
	MaxSinks           int
	SpoolDir           string
	SpoolBytes         int64
	SpoolFsync         bool
	AllowInsecureSinks bool
	// NamespaceSinks is how many sinks a namespace can have, and NamespaceSinksAllow where they may be.
	NamespaceSinks      int
	NamespaceSinksAllow []string
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{
		Kube:                  kubeoptions.NewServerRunOptions(),
		DataDir:               "proviso-data",
		LogOutput:             "auto",
		PolicyMasterNamespace: "master",
		Recheck:               string(streams.Conditional),
		MaxClockSkew:          timekeeper.DefaultSkew,
		hands:                 timekeeper.Machine(),
		HistoryEntries:        journal.DefaultEntries,
		AuditDynamic:          AuditDynamicOptions{MaxSinks: 32, NamespaceSinks: 2, SpoolBytes: 256 << 20},
		NarrowedTokenMax:      tokens.DefaultLongest,
		lineup:                features.All(),
		changed:               func(string) bool { return false },
	}
}

// Flags returns all flags by section, ours first.
func (o *Options) Flags() cliflag.NamedFlagSets {
	upstream := o.Kube.Flags()
	var all cliflag.NamedFlagSets
	ours := all.FlagSet("proviso")
	ours.StringVar(&o.DataDir, "data-dir", o.DataDir,
		"Directory for everything the server generates and stores: etcd data, certificates, admin.kubeconfig, logs. Created with mode 0700.")
	ours.StringSliceVar(&o.Controllers, "controllers", o.Controllers,
		"In-process controllers to run: '*' for all, 'name' to add, '-name' to leave out. Default: all with the embedded etcd, none with --etcd-servers. Known: "+strings.Join(controllers.Known(), ", ")+".")
	ours.StringVar(&o.LogOutput, "log-output", o.LogOutput,
		"Where the log goes: 'stderr', 'file' (log/proviso.log under the data directory), or 'auto': stderr with --etcd-servers, file otherwise.")
	ours.StringVar(&o.PolicyMasterNamespace, "policy-master-namespace", o.PolicyMasterNamespace,
		"Namespace whose policy applies to all namespaces and to cluster-scoped requests.")
	ours.IntVar(&o.HistoryEntries, "policy-history-entries", o.HistoryEntries,
		"How many changes of policy are kept for 'proviso history' and 'proviso rollback': who changed what, and what it was before. 0 keeps none.")
	ours.DurationVar(&o.MaxStaleness, "policy-max-staleness", 0,
		"Refuse everybody except system:masters while the policy has not heard from etcd for this long, at least 30s: rights may have been revoked meanwhile. 0 keeps deciding by what is known.")
	ours.DurationVar(&o.MaxClockSkew, "max-clock-skew", o.MaxClockSkew,
		"How far the clocks of two replicas may be apart, from 100ms to 30s. While they are further apart, and while the clock of a server is more than 30s behind an instant that was seen before, role bindings and grants that begin or end allow nothing on it, and deny.")
	ours.DurationVar(&o.ExpiredBindingsTTL, "expired-bindings-ttl", 0,
		"Delete role bindings of Policy this long after their end. The journal keeps what is deleted. 0 keeps them; they have no effect.")
	ours.BoolVar(&o.Agree, "agree", false,
		"Change what the replicas on this etcd have agreed on (master namespace, feature gates of Proviso, the time) to the settings of this one. The others are not ready until they are started with the same. Give it once, not in a unit file.")
	ours.StringSliceVar(&o.ProtectedAttributesExemptUsers, "protected-attributes-exempt-users", nil,
		"Users that copy what was already admitted, beyond the controllers of Kubernetes itself, and may therefore set protected attributes.")
	ours.StringSliceVar(&o.ProtectedAttributesExemptGroups, "protected-attributes-exempt-groups", nil,
		"Groups whose members copy what was already admitted and may therefore set protected attributes.")
	ours.StringVar(&o.Recheck, "authorization-recheck", o.Recheck,
		"Which open streams end when a change of policy takes the right to them: exec, attach, port-forward, logs, proxied requests, and watches, these with error 410. Conditional: those that were allowed under a condition. All: all of them. Off: only watches under a condition, which always end. A right that ends by time ends its streams in any case.")
	ours.BoolVar(&o.RecheckWatches, "authorization-recheck-watches", false,
		"Older way to say --authorization-recheck=All.")
	ours.IntVar(&o.AuditDynamic.MaxSinks, "audit-dynamic-max-sinks", o.AuditDynamic.MaxSinks,
		"How many audit sinks there can be.")
	ours.StringVar(&o.AuditDynamic.SpoolDir, "audit-dynamic-spool-dir", "",
		"Where events wait for their audit sinks. Default: audit under the data directory. A drop-in for kube-apiserver has no data directory and serves audit sinks only if this is given.")
	ours.Int64Var(&o.AuditDynamic.SpoolBytes, "audit-dynamic-spool-bytes", o.AuditDynamic.SpoolBytes,
		"How much may wait for each audit sink. Beyond it the oldest events are dropped, and counted.")
	ours.BoolVar(&o.AuditDynamic.SpoolFsync, "audit-dynamic-spool-fsync", false,
		"Wait for stable storage before a response ends, so not even a crash of the machine loses an event. This costs latency.")
	ours.BoolVar(&o.AuditDynamic.AllowInsecureSinks, "audit-dynamic-allow-insecure-sinks", false,
		"Let audit sinks use http and be at loopback and link-local addresses. For tests and sidecars.")
	ours.IntVar(&o.AuditDynamic.NamespaceSinks, "audit-namespace-sinks-max", o.AuditDynamic.NamespaceSinks,
		"How many audit sinks of its own (NamespaceAuditSink) each namespace can have. 0 allows none.")
	ours.StringSliceVar(&o.AuditDynamic.NamespaceSinksAllow, "audit-namespace-sinks-allow", nil,
		"Where audit sinks of namespaces may be, beside services of their namespace: host names, *.example.com for all below one, and CIDRs. By default nowhere else.")
	ours.StringSliceVar(&o.NarrowedTokenKeyFiles, "narrowed-token-key-file", nil,
		"File with a root key of narrowed tokens, 32 bytes in base64, the same on all replicas. Give several to rotate: the first one signs, all of them verify. A user who has the key can act as every user. Default: pki/narrowed-token.key under the data directory, made if it is missing. Needs the feature gate NarrowedTokens.")
	ours.DurationVar(&o.NarrowedTokenMax, "narrowed-token-max", o.NarrowedTokenMax,
		"How long a narrowed token lives at most. It never lives longer than the credential that asked for it.")
	for _, name := range upstream.Order {
		all.FlagSet(name).AddFlagSet(upstream.FlagSets[name])
	}
	return all
}

// Parsed remembers which flags the user gave. It is called after parsing.
func (o *Options) Parsed(fs *pflag.FlagSet) {
	o.changed = fs.Changed
}

// external reports whether the server runs on an external etcd, as kube-apiserver does.
func (o *Options) external() bool { return o.standsIn || o.changed("etcd-servers") }

// dropIn reports whether the server stands in for kube-apiserver: it then generates nothing and every default is
// upstream's, but for the authorizers (authzconfig.Plan.ModesAssumed).
func (o *Options) dropIn() bool { return o.external() && !o.changed("data-dir") }

// logToFile tells where the log goes.
func (o *Options) logToFile() bool {
	return o.LogOutput == "file" || (o.LogOutput == "auto" && !o.external())
}

// validateOwn checks our own flags; upstream checks its own later.
func (o *Options) validateOwn() error {
	var errs []error
	if o.DataDir == "" {
		errs = append(errs, fmt.Errorf("--data-dir must not be empty"))
	}
	if !slices.Contains([]string{"auto", "stderr", "file"}, o.LogOutput) {
		errs = append(errs, fmt.Errorf("--log-output=%q: want auto, stderr or file", o.LogOutput))
	}
	if o.MaxStaleness != 0 && o.MaxStaleness < source.MinStaleness {
		errs = append(errs, fmt.Errorf("--policy-max-staleness=%s: want at least %s, or 0 for no limit", o.MaxStaleness, source.MinStaleness))
	}
	if o.MaxClockSkew < timekeeper.MinSkew || o.MaxClockSkew > timekeeper.Behind {
		errs = append(errs, fmt.Errorf("--max-clock-skew=%s: want %s to %s", o.MaxClockSkew, timekeeper.MinSkew, timekeeper.Behind))
	}
	if o.ExpiredBindingsTTL < 0 {
		errs = append(errs, fmt.Errorf("--expired-bindings-ttl=%s: must not be negative; 0 keeps bindings", o.ExpiredBindingsTTL))
	}
	if o.HistoryEntries < 0 {
		errs = append(errs, fmt.Errorf("--policy-history-entries=%d: must not be negative; 0 keeps no history", o.HistoryEntries))
	}
	if o.AuditDynamic.MaxSinks < 0 {
		errs = append(errs, fmt.Errorf("--audit-dynamic-max-sinks=%d: must not be negative", o.AuditDynamic.MaxSinks))
	}
	if o.AuditDynamic.NamespaceSinks < 0 {
		errs = append(errs, fmt.Errorf("--audit-namespace-sinks-max=%d: must not be negative", o.AuditDynamic.NamespaceSinks))
	}
	if _, err := sink.ParseAllow(o.AuditDynamic.NamespaceSinksAllow); err != nil {
		errs = append(errs, fmt.Errorf("--audit-namespace-sinks-allow: %w", err))
	}
	if o.AuditDynamic.SpoolBytes < 1<<20 {
		errs = append(errs, fmt.Errorf("--audit-dynamic-spool-bytes=%d: want at least 1 MiB", o.AuditDynamic.SpoolBytes))
	}
	if port := o.Kube.SecureServing.BindPort; port < 1 || port > 65535 {
		errs = append(errs, fmt.Errorf("--secure-port=%d: want a port between 1 and 65535", port))
	}
	if o.NarrowedTokenMax < time.Minute {
		errs = append(errs, fmt.Errorf("--narrowed-token-max=%s: want at least 1m", o.NarrowedTokenMax))
	}
	if len(o.NarrowedTokenKeyFiles) > 0 && !o.switches().systems.Has(tokens.Gate) {
		errs = append(errs, fmt.Errorf("--narrowed-token-key-file: needs the feature gate %s", tokens.Gate))
	}
	if o.Kube.PeerCAFile != "" && o.switches().systems.Has(tokens.Gate) {
		// Upstream proxies what only a peer serves before a link of a token is looked at, and without the links.
		errs = append(errs, fmt.Errorf("--peer-ca-file: cannot be used with the feature gate %s, because peers would serve what a narrowed token does not allow: leave out one of the two", tokens.Gate))
	}
	switch streams.Recheck(o.Recheck) {
	case streams.Off, streams.Conditional, streams.All:
	default:
		errs = append(errs, fmt.Errorf("--authorization-recheck=%s: want %s, %s or %s", o.Recheck, streams.Off, streams.Conditional, streams.All))
	}
	if o.recheck() == streams.All && !o.switches().systems.Has(conditionalreads.Gate) {
		errs = append(errs, fmt.Errorf("--authorization-recheck=All: needs the feature gates %s and %s", conditions.Gate, conditionalreads.Gate))
	}
	return utilerrors.NewAggregate(errs)
}

// recheck combines the two flags.
func (o *Options) recheck() streams.Recheck {
	if o.RecheckWatches {
		return streams.All
	}
	return streams.Recheck(o.Recheck)
}

// completed is what the rest of the server works with.
type completed struct {
	kubeoptions.CompletedOptions
	own *Options
	// authz is the authorizer chain; nil when the server is stock and upstream builds its own.
	authz *authzconfig.Plan
	// switches are the systems that are on.
	switches
	// public is true if callers may shard lists and watches.
	public bool
	// member is this server among the replicas on its etcd, and clock is its clock among theirs.
	member *replicas.Member
	clock  *timekeeper.Keeper
}

// planAuthorization takes the authorizer chain out of the options.
func (o *Options) planAuthorization(on switches) (*authzconfig.Plan, error) {
	return authzconfig.Read(authzconfig.Flags{
		BuiltInAuthorizationOptions: o.Kube.Authorization, ModesGiven: o.changed("authorization-mode"), DropIn: o.dropIn(), Systems: on.systems,
	})
}

// complete fills in what the user left open and lets upstream complete and validate its part.
func (o *Options) complete(ctx context.Context) (*completed, error) {
	if err := o.liftEnforcer(); err != nil {
		return nil, err
	}
	on := o.switches()
	plan, err := o.planAuthorization(on)
	if err != nil {
		return nil, err
	}
	if m := o.Kube.Metrics; m != nil && m.ShowHiddenMetricsForVersion == "" && len(m.DisabledMetrics) == 0 && m.AllowListMapping == nil && m.AllowListMappingManifest == "" {
		o.Kube.Metrics = nil // with nothing to apply, upstream logs an error about a file that was not configured
	}
	opts, err := o.Kube.Complete(ctx)
	if err != nil {
		return nil, err
	}
	if errs := opts.Validate(); len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	c := &completed{CompletedOptions: opts, own: o, authz: plan, switches: on}
	if c.public, err = on.shards(); err != nil {
		return nil, err
	}
	c.clock = timekeeper.New(o.hands, o.MaxClockSkew)
	c.member, err = newMember(c)
	return c, err
}

// defaultNetwork makes the server reachable from this machine only, unless the user says otherwise.
func (o *Options) defaultNetwork() {
	if !o.changed("bind-address") {
		o.Kube.SecureServing.BindAddress = net.IPv4(127, 0, 0, 1)
	}
	if !o.changed("service-cluster-ip-range") {
		o.Kube.ServiceClusterIPRanges = "10.0.0.0/24"
	}
	// Upstream advertises the address of a network interface, which a machine without a default route does not have.
	// Then nothing is advertised: the kubernetes service has no endpoints, and nobody could reach them anyway.
	if !o.changed("advertise-address") && o.Kube.SecureServing.BindAddress.IsLoopback() &&
		o.Kube.GenericServerRunOptions.DefaultAdvertiseAddress(o.Kube.SecureServing.SecureServingOptions) != nil {
		o.Kube.GenericServerRunOptions.AdvertiseAddress = o.Kube.SecureServing.BindAddress
		if !o.changed("endpoint-reconciler-type") {
			o.Kube.EndpointReconcilerType = string(reconcilers.NoneEndpointReconcilerType)
		}
	}
}

// spoolDir is where audit events wait for their sinks. A drop-in has no directory of its own unless it is told one.
func (o *Options) spoolDir() string {
	if o.AuditDynamic.SpoolDir != "" || o.dropIn() {
		return o.AuditDynamic.SpoolDir
	}
	return o.path("audit")
}

func splitList(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' })
}

func (o *Options) path(elements ...string) string {
	return filepath.Join(append([]string{o.DataDir}, elements...)...)
}
