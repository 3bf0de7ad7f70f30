package ruleset

import (
	"hash/maphash"
	"math/bits"

	rbacv1 "k8s.io/api/rbac/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/internal/engine/ruleset/persist"
)

// Input is everything that an index is built from. The index keeps the objects; they must not be changed afterwards,
// just like objects of an informer.
type Input struct {
	// MasterNamespace is the namespace whose Policy bindings hold everywhere.
	MasterNamespace string
	// Kinds says which resources are served; it can be changed later with SetKinds.
	Kinds *matching.Kinds
	// CompileRule compiles the conditions of rules. Without it every conditional rule is quarantined.
	CompileRule CompileRule
	// Limits quarantine roles and conditions that are too large; the zero value limits nothing.
	Limits Limits

	Policies            []*policyv1alpha1.Policy
	PolicyBindings      []*policyv1alpha1.PolicyBinding
	Roles               []*rbacv1.Role
	ClusterRoles        []*rbacv1.ClusterRole
	RoleBindings        []*rbacv1.RoleBinding
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding

	// Future makes names also match resources that may have such a kind one day, and Skip omits rules of Policy. They
	// are for code that reasons about rules, not for decisions.
	Future bool
	Skip   func(role RoleRef, rule int) bool
	// Part says which rules of Policy the index holds; by default, those that decide.
	Part Part
}

// Index is one immutable state of Policy and RBAC. All methods are safe for concurrent use.
type Index struct {
	seed    maphash.Seed
	master  string
	kinds   *matching.Kinds
	compile CompileRule
	limits  Limits
	future  bool // see compiler
	skip    func(RoleRef, int) bool
	part    Part

	slots    persist.Slots[*RoleRef, role]     // role number → compiled role
	ids      persist.Map[RoleRef, uint32]      // role → number
	bindings persist.Set[BindingRef, *binding] // everything that is bound
	subjects persist.Set[Subject, *subject]    // subject → scope → roles

	scopes persist.Map[scope, []uint32]                      // scope → roles that are bound in it, ordered
	bound  persist.Map[scopedRole, persist.Roster[*binding]] // scope and role → bindings
	keys   persist.Map[ruleKey, persist.Roster[keyEntry]]    // resource → roles

	timed persist.Map[BindingRef, *timed] // time-limited bindings, whether they count now or not
	// moment is the time for which the index holds the bindings, and holds is the span in which they are the same.
	moment moment
	holds  Span
	asking int // roles with conditions that may look at request.time

	policies   persist.Map[string, *policyv1alpha1.Policy]        // by namespace
	containers persist.Map[nsName, *policyv1alpha1.PolicyBinding] // by namespace and name

	missing  int                            // roles that are bound but do not exist
	troubled persist.Map[RoleRef, struct{}] // roles that have problems
	strays   persist.Map[nsName, Problem]   // containers with the wrong name
}

// nsName is a namespaced name.
type nsName struct{ ns, name string }

// scopedRole is a role in a scope.
type scopedRole struct {
	scope scope
	id    uint32
}

// Build compiles the input into an index.
func Build(in Input) *Index {
	empty := &Index{seed: maphash.MakeSeed(), master: in.MasterNamespace, kinds: in.Kinds, compile: in.CompileRule, limits: in.Limits, future: in.Future, skip: in.Skip, part: in.Part}
	changes := make([]Change, 0, len(in.Policies)+len(in.PolicyBindings)+len(in.Roles)+len(in.ClusterRoles)+
		len(in.RoleBindings)+len(in.ClusterRoleBindings))
	for _, o := range in.Policies {
		changes = append(changes, Put(o))
	}
	for _, o := range in.PolicyBindings {
		changes = append(changes, Put(o))
	}
	for _, o := range in.Roles {
		changes = append(changes, Put(o))
	}
	for _, o := range in.ClusterRoles {
		changes = append(changes, Put(o))
	}
	for _, o := range in.RoleBindings {
		changes = append(changes, Put(o))
	}
	for _, o := range in.ClusterRoleBindings {
		changes = append(changes, Put(o))
	}
	return empty.Apply(changes...)
}

// With returns the index with another compiler of conditions, which later changes use.
func (ix *Index) With(compile CompileRule) *Index {
	next := *ix
	next.compile = compile
	return &next
}

// MasterNamespace is the namespace whose Policy bindings hold everywhere.
func (ix *Index) MasterNamespace() string { return ix.master }

// Kinds returns the mapping that the index was compiled with.
func (ix *Index) Kinds() *matching.Kinds { return ix.kinds }

// Bindings returns the number of bindings in the index.
func (ix *Index) Bindings() int { return ix.bindings.Len() }

// role returns the compiled role, or nil if it does not exist.
func (ix *Index) role(ref RoleRef) *role {
	if id, ok := ix.ids.Get(ix.hashRole(ref), ref); ok {
		return ix.slots.Get(id)
	}
	return nil
}

// hash is seeded per index, since an attacker can choose names.
func (ix *Index) hash(s string) uint64 { return maphash.String(ix.seed, s) }

func (ix *Index) hashSubject(s Subject) uint64 {
	h := ix.hash(s.Name)
	if s.Group {
		h = ^h
	}
	return h
}

func (ix *Index) hashRole(r RoleRef) uint64 {
	return mix(mix(ix.hash(r.Namespace), ix.hash(r.Name)), uint64(r.Kind))
}

func (ix *Index) hashBinding(b BindingRef) uint64 {
	return mix(mix(ix.hash(b.Namespace), ix.hash(b.Name)), mix(ix.hash(b.Container), uint64(b.Kind)))
}

func (ix *Index) hashScope(s scope) uint64 { return mix(ix.hash(s.ns), uint64(s.kind)) }

func (ix *Index) hashScoped(s scopedRole) uint64 { return mix(ix.hashScope(s.scope), uint64(s.id)) }

func (ix *Index) hashName(n nsName) uint64 { return mix(ix.hash(n.ns), ix.hash(n.name)) }

// mix combines two hashes of which at least one is seeded.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xd1b54a32d192ed03)
	return hi ^ lo ^ bits.RotateLeft64(a, 23)
}
