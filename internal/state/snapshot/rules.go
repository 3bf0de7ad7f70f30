package snapshot

import (
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/cache"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// RulesConfig configures the index of rules.
type RulesConfig struct {
	// Source has the policies, the objects of RBAC and, if that matters, the namespaces that policies belong to.
	Source          Source
	MasterNamespace string
	// CompileRule compiles the conditions of rules. It is called while a snapshot is built, for which others wait, so
	// it must be fast: see rulecondition.Compiler.
	CompileRule ruleset.CompileRule
	// Conditions are the compiled conditions, for the Warmer.
	Conditions Conditions
	// Warmer compiles conditions before requests need them; nil leaves it to the requests.
	Warmer *Warmer
	// Limits quarantine what is too large.
	Limits ruleset.Limits
}

// Conditions are the conditions of rules, as far as they were compiled.
type Conditions interface {
	// Broken reports whether the condition of a rule is already known not to compile.
	Broken(*policyv1alpha1.PolicyRule) bool
}

// Rules is the part with the index of Policy and RBAC. The first index is built when everything is known; from then on
// the cost of a change is proportional to its size.
type Rules struct {
	cfg     RulesConfig
	changed func()
	synced  []cache.InformerSynced
	// placed are the policies, which belong to a namespace.
	placed []Objects
	// base is the source from which this one was derived, if any, and from its index.
	base Source
	from *ruleset.Index

	mu      sync.Mutex
	pending []ruleset.Change
	places  *places

	index   *ruleset.Index
	shadows ruleset.Shadows
	shadow  *ruleset.Index
	served  *Served
}

// NewRules registers with the source. changed is called after every event.
func NewRules(cfg RulesConfig, changed func()) (*Rules, error) {
	namespaces, err := cfg.Source.Objects(Namespaces)
	if err != nil {
		return nil, err
	}
	r := &Rules{cfg: cfg, changed: changed, places: newPlaces(cfg.MasterNamespace, namespaces)}
	if based, ok := cfg.Source.(Based); ok {
		if base, index := based.Base(); index != nil && index.MasterNamespace() == cfg.MasterNamespace {
			r.base, r.from = base, index
		}
	}
	for _, of := range []struct {
		kind  Kind
		watch func(*Rules, Kind, Objects) error
	}{
		{Policies, watch[*policyv1alpha1.Policy]},
		{PolicyBindings, watch[*policyv1alpha1.PolicyBinding]},
		{Roles, watch[*rbacv1.Role]},
		{ClusterRoles, watch[*rbacv1.ClusterRole]},
		{RoleBindings, watch[*rbacv1.RoleBinding]},
		{ClusterRoleBindings, watch[*rbacv1.ClusterRoleBinding]},
	} {
		objects, err := cfg.Source.Objects(of.kind)
		if err != nil {
			return nil, err
		}
		if objects == nil && r.base == nil {
			continue
		}
		if objects != nil && (of.kind == Policies || of.kind == PolicyBindings) {
			r.placed = append(r.placed, objects)
		}
		if err := of.watch(r, of.kind, objects); err != nil {
			return nil, err
		}
	}
	if err := r.follow(namespaces); err != nil {
		return nil, err
	}
	if cfg.Warmer != nil {
		cfg.Warmer.OnBroken(func() { r.add(ruleset.Recheck(cfg.Conditions.Broken)) })
	}
	return r, nil
}

func watch[T ruleset.Object](r *Rules, kind Kind, objects Objects) error {
	known, err := since[T](r, kind, objects)
	if err != nil || objects == nil {
		return err
	}
	registration, err := objects.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if !known[obj] {
				put[T](r, obj)
			}
		},
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

// since deletes what only the base source had, and returns what both have. Which part of a policy counts can depend on
// more than the policy, so policies are put again.
func since[T ruleset.Object](r *Rules, kind Kind, objects Objects) (known map[any]bool, err error) {
	if r.base == nil {
		return nil, nil
	}
	had, err := r.base.Objects(kind)
	if err != nil || had == nil {
		return nil, err
	}
	known = map[any]bool{}
	for _, obj := range had.GetIndexer().List() {
		var now any
		if objects != nil {
			if now, _, err = objects.GetIndexer().Get(obj); err != nil {
				return nil, err
			}
		}
		o, ok := obj.(T)
		switch {
		case ok && now == nil:
			r.addNow(func() ruleset.Change { return ruleset.Delete(o) })
		case now == obj && kind != Policies && kind != PolicyBindings:
			known[obj] = true
		}
	}
	return known, nil
}

func put[T ruleset.Object](r *Rules, obj any) {
	if o, ok := obj.(T); ok {
		r.addNow(func() ruleset.Change { return placed(r.places, o) })
	}
}

// addNow adds a change that depends on the existing namespaces. It is built while no other is added, so the last change
// has seen the newest namespaces.
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
func (r *Rules) Name() string { return PoliciesAndRBAC }

// Needs implements Needing: rules name kinds.
func (r *Rules) Needs() []string { return []string{WhatIsServed} }

// HasSynced implements Part: the source has delivered what existed.
func (r *Rules) HasSynced() bool {
	for _, synced := range r.synced {
		if !synced() {
			return false
		}
	}
	return true
}

// Apply implements Part. Before everything is known nothing is compiled: half a policy is not a policy.
func (r *Rules) Apply(next *Snapshot) {
	if r.index == nil && !r.HasSynced() {
		return
	}
	r.mu.Lock()
	changes := r.pending
	r.pending = nil
	r.mu.Unlock()
	if r.index == nil && r.from != nil {
		r.index = r.from.With(r.cfg.CompileRule)
		changes = append(changes, ruleset.SetKinds(next.Served.Kinds()))
		r.served = next.Served
	}
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
		r.shadow = r.shadows.Apply(r.index, changes)
		if r.cfg.Warmer != nil {
			r.cfg.Warmer.Wake()
		}
	}
	if r.index.AsksTime() {
		r.index = r.index.Again() // time has passed
	}
	if now, known := next.time.Now(); !known {
		r.index, r.shadow = r.index.Unknown(), r.shadow.Unknown()
	} else {
		r.index, r.shadow = r.index.At(now), r.shadow.At(now)
	}
	next.Rules, next.Shadow.Rules = r.index, r.shadow
}
