package snapshot

import (
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/access"
	"proviso.dev/proviso/internal/engine/auditrule"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/state/policycodec"
)

// AccessesConfig configures the index of access requests.
type AccessesConfig struct {
	Source          Source
	MasterNamespace string
	CompileRule     ruleset.CompileRule
	Limits          ruleset.Limits
}

// Accesses is the part with the index of what users can ask for and what was granted. There are few rules and few
// active requests, so every change compiles all of them.
type Accesses struct {
	cfg    AccessesConfig
	synced []cache.InformerSynced
	dirty  atomic.Bool
	served *Served
	index  *access.Index

	rules, requests, namespaces Objects
	// sinks and classes are those of dynamic audit; nil if there is none.
	sinks, classes Objects
	// roles are the roles that rules name, as used to build the index.
	roles map[ruleset.RoleRef]*ruleset.Definition
}

// NewAccesses registers with the source. changed is called after every event that may matter.
func NewAccesses(cfg AccessesConfig, changed func()) (*Accesses, error) {
	a := &Accesses{cfg: cfg}
	a.dirty.Store(true)
	touch := func(any) {
		a.dirty.Store(true)
		changed()
	}
	ifAsked := func(any) { // most servers have no rules: then nothing depends on the roles
		if a.rules != nil && len(a.rules.GetIndexer().ListKeys()) > 0 {
			touch(nil)
		}
	}
	for _, of := range []struct {
		kind  Kind
		at    *Objects
		touch func(any)
	}{
		{AccessRules, &a.rules, touch}, {AccessRequests, &a.requests, touch},
		{Namespaces, &a.namespaces, ifAsked}, {AuditSinks, &a.sinks, ifAsked}, {AuditClasses, &a.classes, ifAsked},
	} {
		objects, err := cfg.Source.Objects(of.kind)
		if err != nil {
			return nil, err
		}
		if *of.at = objects; objects == nil {
			continue
		}
		registration, err := objects.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: of.touch, DeleteFunc: of.touch, UpdateFunc: func(old, obj any) {
				if of.at != &a.sinks || !sameGeneration(old, obj) { // the status of a sink changes all the time
					of.touch(obj)
				}
			},
		})
		if err != nil {
			return nil, err
		}
		a.synced = append(a.synced, registration.HasSynced)
	}
	return a, nil
}

func sameGeneration(a, b any) bool {
	one, err := meta.Accessor(a)
	other, failed := meta.Accessor(b)
	return err == nil && failed == nil && one.GetUID() == other.GetUID() && one.GetGeneration() == other.GetGeneration()
}

// Name implements Part.
func (a *Accesses) Name() string { return "access requests" }

// Needs implements Needing: rules name kinds, and roles.
func (a *Accesses) Needs() []string { return []string{WhatIsServed, PoliciesAndRBAC} }

// HasSynced implements Part.
func (a *Accesses) HasSynced() bool {
	for _, synced := range a.synced {
		if !synced() {
			return false
		}
	}
	return true
}

// Apply implements Part. What cannot be read grants nothing, and neither does anything before the roles are known.
func (a *Accesses) Apply(next *Snapshot) {
	if !a.HasSynced() || next.Rules == nil {
		return
	}
	if a.dirty.Swap(false) || next.Served != a.served || a.rolesDiffer(next.Rules) {
		a.served = next.Served
		a.index = a.build(next.Rules)
	}
	if now, known := next.time.Now(); !known {
		a.index = a.index.Unknown()
	} else if a.index != nil {
		a.index = a.index.At(now)
	}
	next.Access = a.index
}

// rolesDiffer reports whether a role that the index uses has changed.
func (a *Accesses) rolesDiffer(in *ruleset.Index) bool {
	for ref, was := range a.roles {
		if in.Definition(ref) != was {
			return true
		}
	}
	return false
}

// build returns nil if there is no rule: then nothing can be asked for, and nothing is granted.
func (a *Accesses) build(roles *ruleset.Index) *access.Index {
	a.roles = map[ruleset.RoleRef]*ruleset.Definition{}
	in := access.Input{MasterNamespace: a.cfg.MasterNamespace, Kinds: a.served.Kinds(), CompileRule: a.cfg.CompileRule, Limits: a.cfg.Limits, Namespaces: a}
	for _, r := range Of[*accessv1alpha1.AccessRule](a.rules) {
		if policycodec.Quarantined(r) == "" {
			in.Rules = append(in.Rules, r)
			a.roles[RoleOf(r.Spec.RoleRef)] = nil
		}
	}
	if len(in.Rules) == 0 || roles == nil {
		return nil
	}
	for _, r := range Of[*accessv1alpha1.AccessRequest](a.requests) {
		if policycodec.Quarantined(r) == "" {
			in.Requests = append(in.Requests, r)
		}
	}
	in.Sinks = a.activeSinks(in.Rules)
	in.Policy = &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: a.cfg.MasterNamespace, Name: policyv1alpha1.PolicyName}, Roles: map[string]policyv1alpha1.PolicyRole{}}
	for ref := range a.roles {
		role := roles.Definition(ref)
		a.roles[ref] = role
		switch {
		case role == nil:
		case ref.Kind == ruleset.ClusterRole:
			in.ClusterRoles = append(in.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: ref.Name}, Rules: role.RBAC})
		default:
			in.Policy.Roles[ref.Name] = policyv1alpha1.PolicyRole{Rules: role.Policy}
		}
	}
	return access.Build(in)
}

// activeSinks are the audit sinks that rules for break-glass name and that get events, with when they end. A sink that
// is not understood does not count: it is not known when it ends.
func (a *Accesses) activeSinks(rules []*accessv1alpha1.AccessRule) map[string]time.Time {
	wanted := map[string]bool{}
	for _, r := range rules {
		for _, name := range r.Spec.AuditSinks {
			wanted[name] = wanted[name] || r.Spec.BreakGlass
		}
	}
	var sources []auditrule.Source
	ends := map[string]time.Time{}
	for _, s := range Of[*auditv1alpha1.AuditSink](a.sinks) {
		if !wanted[s.Name] || policycodec.Quarantined(s) != "" {
			continue
		}
		sources = append(sources, auditrule.SourceOf(s))
		if ends[s.Name] = (time.Time{}); s.Spec.NotAfter != nil {
			ends[s.Name] = s.Spec.NotAfter.Time
		}
	}
	if len(sources) == 0 {
		return nil
	}
	for _, s := range auditrule.Compile(sources, Of[*auditv1alpha1.AuditClass](a.classes)).Sinks() {
		if !s.Active {
			delete(ends, s.Name)
		}
	}
	return ends
}

// RoleOf is the role that an AccessRule names.
func RoleOf(ref accessv1alpha1.AccessRoleRef) ruleset.RoleRef {
	if ref.ClusterRole() {
		return ruleset.RoleRef{Kind: ruleset.ClusterRole, Name: ref.Name}
	}
	return ruleset.RoleRef{Kind: ruleset.PolicyRole, Namespace: ref.Namespace, Name: ref.Name}
}

// Namespace implements access.Namespaces.
func (a *Accesses) Namespace(name string) (metav1.Object, bool) {
	if a.namespaces == nil {
		return nil, false
	}
	obj, found, err := a.namespaces.GetIndexer().GetByKey(name)
	ns, ok := obj.(*corev1.Namespace)
	if err != nil || !found || !ok || ns.DeletionTimestamp != nil {
		return nil, false
	}
	return ns, true
}
