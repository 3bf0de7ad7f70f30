package base

import (
	"context"
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/klog/v2"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/compare"
	"proviso.dev/proviso/internal/apis/policyreview"
	"proviso.dev/proviso/internal/apis/registry"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/internal/request/errorfilter"
	"proviso.dev/proviso/internal/request/freshness"
	"proviso.dev/proviso/internal/request/readfilter"
	"proviso.dev/proviso/internal/request/streams"
	"proviso.dev/proviso/internal/request/turns"
	"proviso.dev/proviso/internal/state/journal"
	"proviso.dev/proviso/internal/state/namespacegc"
	"proviso.dev/proviso/internal/state/policycodec"
	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/internal/state/source"
)

// Config is what a host knows. A host that serves nothing leaves it empty.
type Config struct {
	// Health knows the state of the sources.
	Health *source.Health
	// Namespaces and Roles tell the registry which namespaces and which RBAC roles exist.
	Namespaces namespacegc.Namespaces
	Roles      registry.Roles
	// Converter reads content as the server would read it in a request, and converts it.
	Converter policyreview.Converter
	// Journal records the writes to policy; nil records nothing.
	Journal *journal.Journal
	// Recheck is which streams end when the policy changes; empty in a host that serves none.
	Recheck streams.Recheck
	// Service is where another server finds our groups; nil in the server that serves them.
	Service *apiregistration.ServiceReference
}

// New returns it. It has no gate: it is enabled as soon as any system is.
func New(k *feature.Kernel, cfg Config) (feature.System, error) {
	held := errorfilter.New(errorfilter.Config{Gate: k.Gate, Codecs: k.Codecs, Namespaces: k.Namespaces})
	s := feature.System{
		Name:      "ground",
		Resources: []string{"shadowrules"},
		Parts:     func(from snapshot.Source) ([]snapshot.Part, error) { return parts(k, from) },
		Registry:  func(c *registry.Config) { fillRegistry(c, k, cfg, held) },
		Enforce: func(c *enforce.Config) {
			c.After = append(c.After, enforce.OurGroups{Groups: policycodec.Groups(), Serving: k.Served, Service: cfg.Service})
			if k.Needs != nil {
				c.After = append(c.After, enforce.Knowing{Replicas: k.Needs})
			}
		},
		Storage: func(inner generic.RESTOptionsGetter, convert readfilter.Converter) generic.RESTOptionsGetter {
			return freshness.Decorate(held.Decorate(inner, convert), cfg.Journal.Around(convert), freshness.Noted)
		},
		Background: func(from snapshot.Source) ([]feature.Runner, error) { return background(k, cfg, from) },
	}
	if cfg.Journal != nil {
		s.Paths = append(s.Paths, feature.Path{Path: HistoryPath, Handler: &history{kernel: k, journal: cfg.Journal, turns: turns.Queue{Slots: 2}}})
	}
	if cfg.Health != nil {
		s.Filters = append(s.Filters, feature.Filter{Name: "announce", Wrap: cfg.Health.Announce})
	}
	s.Filters = append(s.Filters,
		feature.Filter{Name: "receipt", Wrap: freshness.Receipt},
		feature.Filter{Name: "onlyKnown", Wrap: func(next http.Handler) http.Handler { return freshness.OnlyKnown(k.Served, k.Codecs, next) }},
		feature.Filter{Name: "withhold", Wrap: held.Wrap})
	if cfg.Recheck != "" {
		lasting := streams.New(streams.Config{Gate: k.Gate, Store: k.Store, Local: k.Served, Recheck: cfg.Recheck})
		s.Filters = append(s.Filters, feature.Filter{Name: "streams", Wrap: lasting.Wrap})
		others := s.Background
		s.Background = func(from snapshot.Source) ([]feature.Runner, error) {
			runners, err := others(from)
			return append(runners, lasting), err
		}
	}
	return s, nil
}

// parts are what is served and the rule index. The index of bindings also knows the members of roles, so it is kept
// whichever system is enabled.
func parts(k *feature.Kernel, from snapshot.Source) ([]snapshot.Part, error) {
	if dated, ok := from.(freshness.Revisions); ok {
		k.Fresh.Follow(dated)
	}
	rules, err := snapshot.NewRules(snapshot.RulesConfig{
		Source: from, MasterNamespace: k.Master, CompileRule: k.Compiler.CompileRule, Conditions: k.Compiler, Warmer: k.Warmer, Limits: ruleset.DefaultLimits(),
	}, k.Store.Changed)
	return []snapshot.Part{k.Served, rules}, err
}

// background settles what belongs to a namespace.
func background(k *feature.Kernel, cfg Config, from snapshot.Source) ([]feature.Runner, error) {
	client, err := k.Clients.Group(policyv1alpha1.SchemeGroupVersion)
	if err != nil {
		return nil, err
	}
	settler, err := namespacegc.New(k.Master, cfg.Namespaces, from, client)
	if err != nil {
		return nil, err
	}
	fields, err := newFields(k, from)
	return []feature.Runner{settler, feature.RunnerFunc(func(ctx context.Context) { keepShadows(ctx, k) }), fields}, err
}

// keepShadows tells the recorder which rules are not enforced, so it drops the others, and tells the replicas whether
// there are any: a restored backup may have added some, and an older release can serve again once there are none.
func keepShadows(ctx context.Context, k *feature.Kernel) {
	again := time.NewTicker(time.Minute)
	defer again.Stop()
	told, some := false, false
	for ctx.Err() == nil {
		next := k.Store.Next()
		if snap := k.Store.Current(); snap.Synced {
			all := snap.Shadow.All()
			k.Shadow.Keep(all)
			if !told || some != (len(all) > 0) {
				told, some = true, len(all) > 0
				tellReplicas(ctx, k, some)
			}
		}
		select {
		case <-ctx.Done():
		case <-next:
		case <-again.C:
			told = false
		}
	}
}

func tellReplicas(ctx context.Context, k *feature.Kernel, some bool) {
	var err error
	switch {
	case k.Needs == nil:
	case some:
		err = k.Needs.Need(ctx, false)
	default:
		err = k.Needs.NoNeed(ctx)
	}
	if err != nil && ctx.Err() == nil {
		klog.V(2).InfoS("The replicas were not told of rules that are not enforced; the server tries again", "err", err)
	}
}

// fillRegistry sets how our own groups check writes.
func fillRegistry(c *registry.Config, k *feature.Kernel, cfg Config, held *errorfilter.Filter) {
	c.MasterNamespace = k.Master
	c.Fresh = k.Fresh
	c.Storage = func(inner generic.RESTOptionsGetter) generic.RESTOptionsGetter {
		stored := freshness.Decorate(held.Decorate(inner, policycodec.Scheme), cfg.Journal.Around(policycodec.Scheme), freshness.Noted)
		if k.Needs != nil {
			stored = policycodec.SupportedStorage(stored, k.Needs)
		}
		return stored
	}
	c.Authorizer = k.Gate.Chain
	c.Escalation, c.Turns = Escalation(k), &k.Turns
	c.Namespaces, c.Roles = cfg.Namespaces, cfg.Roles
	c.Reads = k.Gate.ConditionalReads()
	c.Reviewer = Reviewer(k, cfg.Converter)
	c.Permissions = &policyreview.Permissions{Store: k.Store}
	c.ShadowRules = k.Shadow
	c.Rules, c.FieldPermissions = rules{k}, rules{k}
}

// rules checks writes to our groups with the engine of the host.
type rules struct{ k *feature.Kernel }

// CheckRule implements registry.Rules.
func (r rules) CheckRule(rule policyv1alpha1.PolicyRule, path *field.Path) field.ErrorList {
	_, errs := r.k.Compiler.Rule(&rule, path, false)
	return errs
}

// Unserved implements registry.Rules.
func (r rules) Unserved(rule policyv1alpha1.PolicyRule) (unserved, guarded []string) {
	snap := r.k.Store.Current()
	if !snap.Synced || snap.Served == nil {
		return nil, nil
	}
	c := ruleset.Coverage(&rule, snap.Served.Kinds())
	return slices.DeleteFunc(c.Unserved, func(name string) bool { return slices.Contains(c.Guarded, name) }), c.Guarded
}

// CheckFieldPermission implements registry.FieldPermissions. Field permissions are served by their own system, which
// checks them.
func (rules) CheckFieldPermission(policyv1alpha1.FieldPermissionSpec, *field.Path) field.ErrorList {
	return nil
}

// WarnOfHidden implements registry.FieldPermissions.
func (rules) WarnOfHidden(context.Context, policyv1alpha1.FieldPermissionSpec) []string { return nil }

// Escalation is the escalation check, the same one for Policy and RBAC.
func Escalation(k *feature.Kernel) *policyreview.Escalation {
	return &policyreview.Escalation{Store: k.Store, Chain: k.Gate.Chain, MasterNamespace: k.Master, Turns: &k.Turns}
}

// Reviewer answers the reviews of authorization.proviso.dev as the host itself would decide.
func Reviewer(k *feature.Kernel, converter policyreview.Converter) *policyreview.Reviewer {
	r := &policyreview.Reviewer{
		Store: k.Store, Gate: k.Gate, Indexed: k.Indexed, Master: k.Master,
		Converter: converter, Namespaces: k.Namespaces, Guards: k, Fields: k,
		Evaluate: authorize.NewCELConditions(k.Compiler.CEL).Evaluate,
		Comparer: &compare.Comparer{Cache: expr.NewCache(k.Compiler.CEL)},
	}
	return r
}
