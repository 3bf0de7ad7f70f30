package snapshot

import (
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/cache"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/ruleset"
)

// RulesConfig says where the rules come from. A nil informer means that there are no such objects.
type RulesConfig struct {
	MasterNamespace string
	// CompileRule compiles the conditions of rules. It is called while a snapshot is made, which others wait for, and must not
	// take long: see restrict.Compiler.
	CompileRule ruleset.CompileRule
	// Broken tells of which rules is known by now that their condition does not compile.
	Broken func(*policyv1alpha1.PolicyRule) bool
	// Warmer compiles conditions before requests need them; nil leaves it to the requests.
	Warmer *Warmer
	// Limits quarantine what is too large.
	Limits ruleset.Limits

	Policies, PolicyBindings                               cache.SharedIndexInformer
	Roles, ClusterRoles, RoleBindings, ClusterRoleBindings cache.SharedIndexInformer
	// Namespaces are those that policies belong to; nil if that is not looked at.
	Namespaces cache.SharedIndexInformer
}

// Rules is the part that keeps the index of Policy and RBAC. The first index is built at once when everything is known;
// from then on each change costs what it changes.
type Rules struct {
	cfg     RulesConfig
	changed func()
	synced  []cache.InformerSynced

	mu      sync.Mutex
	pending []ruleset.Change
	places  *places

	index  *ruleset.Index
	served *Served
}

// NewRules registers with the informers. changed is called after every event.
func NewRules(cfg RulesConfig, changed func()) (*Rules, error) {
	r := &Rules{cfg: cfg, changed: changed, places: newPlaces(cfg.MasterNamespace, cfg.Namespaces)}
	for _, register := range []func() error{
		func() error { return watch[*policyv1alpha1.Policy](r, cfg.Policies) },
		func() error { return watch[*policyv1alpha1.PolicyBinding](r, cfg.PolicyBindings) },
		func() error { return watch[*rbacv1.Role](r, cfg.Roles) },
		func() error { return watch[*rbacv1.ClusterRole](r, cfg.ClusterRoles) },
		func() error { return watch[*rbacv1.RoleBinding](r, cfg.RoleBindings) },
		func() error { return watch[*rbacv1.ClusterRoleBinding](r, cfg.ClusterRoleBindings) },
		func() error { return r.follow(cfg.Namespaces) },
	} {
		if err := register(); err != nil {
			return nil, err
		}
	}
	if cfg.Warmer != nil {
		cfg.Warmer.OnBroken(func() { r.add(ruleset.Recheck(cfg.Broken)) })
	}
	return r, nil
}

func watch[T ruleset.Object](r *Rules, informer cache.SharedIndexInformer) error {
	if informer == nil {
		return nil
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { put[T](r, obj) },
		UpdateFunc: func(_, obj any) { put[T](r, obj) },
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if o, ok := obj.(T); ok {
				r.addNow(func() ruleset.Change {
					r.places.forget(o)
					return ruleset.Delete(o)
				})
			}
		},
	})
	if err != nil {
		return err
	}
	r.synced = append(r.synced, registration.HasSynced)
	return nil
}

func put[T ruleset.Object](r *Rules, obj any) {
	if o, ok := obj.(T); ok {
		r.addNow(func() ruleset.Change { return placed(r.places, o) })
	}
}

// addNow adds a change that depends on which namespaces there are. It is made while no other is added, so that the last one has seen
// the newest.
func (r *Rules) addNow(change func() ruleset.Change) {
	r.mu.Lock()
	r.pending = append(r.pending, change())
	r.mu.Unlock()
	r.changed()
}

func (r *Rules) add(c ruleset.Change) {
	r.mu.Lock()
	r.pending = append(r.pending, c)
	r.mu.Unlock()
	r.changed()
}

// Name implements Part.
func (r *Rules) Name() string { return "policies and RBAC" }

// HasSynced implements Part: every informer has delivered what existed.
func (r *Rules) HasSynced() bool {
	for _, synced := range r.synced {
		if !synced() {
			return false
		}
	}
	return true
}

// Apply implements Part. Before everything is known nothing is compiled: half a policy is no policy.
func (r *Rules) Apply(next *Snapshot) {
	if r.index == nil && !r.HasSynced() {
		return
	}
	r.mu.Lock()
	changes := r.pending
	r.pending = nil
	r.mu.Unlock()
	if r.index == nil {
		r.index = ruleset.Build(ruleset.Input{
			MasterNamespace: r.cfg.MasterNamespace,
			CompileRule:     r.cfg.CompileRule,
			Kinds:           next.Served.Kinds(),
			Limits:          r.cfg.Limits,
		})
		r.served = next.Served
	}
	if next.Served != r.served {
		r.served = next.Served
		changes = append(changes, ruleset.SetKinds(next.Served.Kinds()))
	}
	if len(changes) > 0 {
		r.index = r.index.Apply(changes...)
		if r.cfg.Warmer != nil {
			r.cfg.Warmer.Wake()
		}
	}
	next.Rules = r.index
}
