package access

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/user"

	access "proviso.dev/proviso/api/access/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// Input is everything that an index is built from. The index keeps the objects; they must not be changed afterwards.
type Input struct {
	// MasterNamespace is the namespace whose requests are for the whole cluster.
	MasterNamespace string
	Kinds           *matching.Kinds
	CompileRule     ruleset.CompileRule
	Limits          ruleset.Limits

	Rules    []*access.AccessRule
	Requests []*access.AccessRequest
	// ClusterRoles are the existing RBAC cluster roles that rules name, and Policy is the policy of the master
	// namespace; nil if there is none.
	ClusterRoles []*rbacv1.ClusterRole
	Policy       *policy.Policy
	// Namespaces knows the namespaces.
	Namespaces Namespaces
	// Sinks are the active audit sinks by name, with when each of them ends; zero if it does not.
	Sinks map[string]time.Time
}

// Namespaces knows the namespaces.
type Namespaces interface {
	// Namespace finds a namespace that is not being deleted; false if there is none.
	Namespace(name string) (metav1.Object, bool)
}

// Grant is an access request that was approved and has not ended.
type Grant struct {
	Namespace, Name string
	Request         *access.AccessRequest
	// From and Until are when it counts.
	From, Until time.Time

	rule     *access.AccessRule
	special  bool
	narrowed bool
}

// Key returns the name of the grant for people.
func (g *Grant) Key() string { return g.Namespace + "/" + g.Name }

// Index knows what users can ask for and what is granted. It is immutable. The nil index grants nothing.
type Index struct {
	master     string
	namespaces Namespaces
	rules      []*access.AccessRule // by name
	grants     map[string][]*Grant  // by user
	keys       map[string]*Grant    // by namespace and name
	broken     bool                 // some grant is by break-glass
	// roles binds roles to subjects that stand for a grant, for the narrowing of a grant, for a rule, and for
	// requesters.
	roles *ruleset.Index
	edges []int64 // when grants begin and end, in order
	// holds is the span between two edges for which the index is valid.
	holds ruleset.Span
}

// The subjects in the index of roles.
const (
	ofGrant     = "grant:"
	ofNarrowing = "narrowing:"
	ofRule      = "rule:"
	ofRequester = "requester"
)

// Build builds the index.
func Build(in Input) *Index {
	ix := &Index{master: in.MasterNamespace, namespaces: in.Namespaces, rules: slices.Clone(in.Rules), grants: map[string][]*Grant{}, keys: map[string]*Grant{}}
	slices.SortFunc(ix.rules, func(a, b *access.AccessRule) int { return strings.Compare(a.Name, b.Name) })
	bound := bindings{}
	for _, rule := range ix.rules {
		bound.bind(ofRule+rule.Name, rule.Spec.RoleRef)
	}
	requests := slices.Clone(in.Requests)
	slices.SortFunc(requests, func(a, b *access.AccessRequest) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	for _, r := range requests {
		if g := ix.grant(r, in.Sinks); g != nil {
			ix.grants[r.Spec.Requester.Username] = append(ix.grants[r.Spec.Requester.Username], g)
			ix.keys[g.Key()] = g
			ix.broken = ix.broken || g.ByBreakGlass()
			ix.edges = append(ix.edges, g.From.Unix(), g.Until.Unix())
			bound.bind(ofGrant+g.Key(), g.rule.Spec.RoleRef)
		}
	}
	slices.Sort(ix.edges)
	ix.edges = slices.Compact(ix.edges)
	ix.roles = ix.compile(in, bound)
	return ix
}

// rule finds a rule by its name.
func (ix *Index) rule(name string) *access.AccessRule {
	if i, ok := slices.BinarySearchFunc(ix.rules, name, func(r *access.AccessRule, n string) int { return strings.Compare(r.Name, n) }); ok {
		return ix.rules[i]
	}
	return nil
}

// grant returns what a request grants; nil if nothing. If its rule has become narrower, it grants less; if the rule was
// replaced by another one, or grants another role, the grant ends. It also ends with the first of the audit sinks that
// its requests are reported to.
func (ix *Index) grant(r *access.AccessRequest, sinks map[string]time.Time) *Grant {
	s, granted := &r.Status, r.Status.Granted
	rule := ix.rule(r.Spec.RuleRef.Name)
	switch {
	case met(r, access.ConditionApproved) == nil || met(r, access.ConditionEnded) != nil || met(r, access.ConditionDenied) != nil:
		return nil
	case s.From == nil || s.Until == nil || granted == nil || rule == nil || rule.UID != r.Spec.RuleRef.UID || rule.Spec.RoleRef != granted.RoleRef:
		return nil
	case !ix.covers(rule, r.Namespace, r):
		return nil
	}
	until := s.Until.Time
	if most := s.From.Add(time.Duration(rule.Spec.MaxDurationSeconds) * time.Second); most.Before(until) {
		until = most
	}
	for _, name := range rule.Spec.AuditSinks {
		end, active := sinks[name]
		switch {
		case !rule.Spec.BreakGlass:
		case !active:
			return nil
		case !end.IsZero() && end.Before(until):
			until = end
		}
	}
	if !s.From.Time.Before(until) {
		return nil
	}
	return &Grant{Namespace: r.Namespace, Name: r.Name, Request: r, From: s.From.Time, Until: until, rule: rule,
		special: granted.SpecialVerbs && rule.Spec.SpecialVerbs, narrowed: len(r.Spec.Verbs)+len(r.Spec.ResourceKinds)+len(r.Spec.ResourceNames) > 0}
}

// covers reports whether a rule covers a namespace. A namespace that does not exist, or was recreated since the
// request, is not covered.
func (ix *Index) covers(rule *access.AccessRule, namespace string, asked metav1.Object) bool {
	if namespace == ix.master {
		return slices.Contains(rule.Spec.Namespaces, ix.master)
	}
	ns, ok := ix.namespaces.Namespace(namespace)
	if !ok || asked != nil && asked.GetAnnotations()[policy.AnnotationNamespaceUID] != string(ns.GetUID()) {
		return false
	}
	return Covers(rule, ns, ix.master)
}

// Covers reports whether a rule covers an existing namespace. "*" is every namespace except the master namespace, which
// stands for the whole cluster and has to be named.
func Covers(rule *access.AccessRule, ns metav1.Object, master string) bool {
	if ns.GetName() == master {
		return slices.Contains(rule.Spec.Namespaces, master)
	}
	if s := rule.Spec.NamespaceSelector; s != nil {
		selector, err := metav1.LabelSelectorAsSelector(s)
		return err == nil && selector.Matches(labels.Set(ns.GetLabels()))
	}
	return slices.Contains(rule.Spec.Namespaces, ns.GetName()) || slices.Contains(rule.Spec.Namespaces, "*")
}

// bindings are roles by subject.
type bindings map[string]policy.PolicyRoleBinding

func (b bindings) bind(who string, role access.AccessRoleRef) {
	entry := policy.PolicyRoleBinding{RoleName: role.Name, UserNames: []string{who}}
	if role.ClusterRole() {
		entry.RoleRef = &policy.PolicyRoleReference{APIGroup: role.APIGroup, Kind: role.Kind, Name: role.Name}
	}
	b[who] = entry
}

// compile builds the index of roles: the roles that rules name, the narrowing of single grants, and what requesters may
// do with their own requests.
func (ix *Index) compile(in Input, bound bindings) *ruleset.Index {
	roles := &policy.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: ix.master, Name: policy.PolicyName}}
	if in.Policy != nil {
		roles.ObjectMeta = in.Policy.ObjectMeta
		roles.Roles = maps.Clone(in.Policy.Roles)
	}
	if roles.Roles == nil {
		roles.Roles = map[string]policy.PolicyRole{}
	}
	// No name in the API contains a zero byte.
	own := func(who string, rules ...policy.PolicyRule) {
		name := "\x00" + who
		roles.Roles[name] = policy.PolicyRole{Rules: rules}
		bound[who] = policy.PolicyRoleBinding{RoleName: name, UserNames: []string{who}}
	}
	own(ofRequester, requesterRules()...)
	for _, grants := range ix.grants {
		for _, g := range grants {
			if rule, some := narrowing(&g.Request.Spec, in.Kinds); g.narrowed && some {
				own(ofNarrowing+g.Key(), rule)
			}
		}
	}
	return ruleset.Build(ruleset.Input{
		MasterNamespace: ix.master, Kinds: in.Kinds, CompileRule: in.CompileRule, Limits: in.Limits, ClusterRoles: in.ClusterRoles, Policies: []*policy.Policy{roles},
		PolicyBindings: []*policy.PolicyBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: ix.master, Name: ix.master},
			PolicyRef: policy.PolicyReference{Namespace: ix.master}, RoleBindings: bound}},
	})
}

// requesterRules allow what users may do with their own requests, without any other right (TM-9). The storage checks
// that the requests are their own.
func requesterRules() []policy.PolicyRule {
	resource := "accessrequests." + access.GroupName
	return []policy.PolicyRule{
		{Verbs: []string{"create"}, ResourceKinds: []string{resource, resource + "/revocation"}},
		{Verbs: []string{"get", "list", "watch", "delete", "-deletecollection"}, ResourceKinds: []string{resource}},
	}
}

// narrowing returns the rule that a narrowed grant must also meet; false if nothing can. A name without a group counts
// only if it means built-in resources: a custom resource that is served later must not get into a grant that was
// approved for another one.
func narrowing(s *access.AccessRequestSpec, served *matching.Kinds) (rule policy.PolicyRule, some bool) {
	orAll := func(list []string) []string {
		if len(list) == 0 {
			return []string{"*"}
		}
		return list
	}
	kinds := slices.DeleteFunc(slices.Clone(s.ResourceKinds), func(name string) bool { return !Fixed(served, name) })
	return policy.PolicyRule{Verbs: orAll(s.Verbs), ResourceKinds: orAll(kinds), ResourceNames: s.ResourceNames}, len(kinds) > 0 || len(s.ResourceKinds) == 0
}

// Fixed reports whether an entry of resourceKinds of a request cannot mean more one day than it does now.
func Fixed(served *matching.Kinds, entry string) bool {
	return strings.HasPrefix(entry, "-") || served.Fixed(entry)
}

// At returns the index for an instant. For instants between other edges it is a different index.
func (ix *Index) At(t time.Time) *Index {
	if ix.HoldsAt(t) {
		return ix
	}
	next := *ix
	next.holds = ix.around(t.Unix())
	return &next
}

// Unknown returns the index for a time that is not known.
func (ix *Index) Unknown() *Index {
	if !ix.IsTimed() || ix.holds == (ruleset.Span{}) {
		return ix
	}
	next := *ix
	next.holds = ruleset.Span{}
	return &next
}

func (ix *Index) around(at int64) ruleset.Span {
	span := ruleset.Span{From: math.MinInt64, Until: math.MaxInt64}
	for _, edge := range ix.edges {
		if edge > at {
			span.Until = edge
			break
		}
		span.From = edge
	}
	return span
}

// IsTimed reports whether some grant begins or ends; all of them do.
func (ix *Index) IsTimed() bool { return ix != nil && len(ix.edges) > 0 }

// HoldsAt reports whether no grant begins or ends between the instant that the index is for and another one.
func (ix *Index) HoldsAt(t time.Time) bool {
	return !ix.IsTimed() || ix.holds.From <= t.Unix() && t.Unix() < ix.holds.Until
}

// Until returns when the index is no longer valid; not found if it always is.
func (ix *Index) Until() (edge time.Time, found bool) {
	if !ix.IsTimed() || ix.holds == (ruleset.Span{}) || ix.holds.Until == math.MaxInt64 {
		return time.Time{}, false
	}
	return time.Unix(ix.holds.Until, 0), true
}

// Edges returns when grants of a user begin or end, in order; of all users if the user is nil.
func (ix *Index) Edges(u user.Info) (edges []time.Time) {
	if !ix.IsTimed() {
		return nil
	}
	for name, grants := range ix.grants {
		for _, g := range grants {
			if u == nil || u.GetName() == name {
				edges = append(edges, g.From.UTC(), g.Until.UTC())
			}
		}
	}
	slices.SortFunc(edges, time.Time.Compare)
	return slices.CompactFunc(edges, time.Time.Equal)
}

// SameFor reports whether a user certainly has the same grants in both.
func (ix *Index) SameFor(u user.Info, other *Index) bool {
	if ix == other || u == nil {
		return ix == other
	}
	return ix.of(u) == nil && other.of(u) == nil && ix.asks(u) == other.asks(u)
}

func (ix *Index) of(u user.Info) []*Grant {
	if ix == nil {
		return nil
	}
	return ix.grants[u.GetName()]
}

// asks reports whether a user may ask for anything.
func (ix *Index) asks(u user.Info) bool {
	return ix != nil && slices.ContainsFunc(ix.rules, func(r *access.AccessRule) bool { return Includes(r.Spec.Subjects, u) })
}

// GroupsOf returns the groups through which a user holds grants, as of when the user asked.
func (ix *Index) GroupsOf(userName string) (groups []string) {
	if ix == nil {
		return nil
	}
	for _, g := range ix.grants[userName] {
		for _, name := range g.rule.Spec.Subjects.GroupNames {
			if slices.Contains(g.Request.Spec.Requester.Groups, name) && !slices.Contains(groups, name) {
				groups = append(groups, name)
			}
		}
	}
	return groups
}

// Subjects returns all subjects that may ask for access or hold a grant.
func (ix *Index) Subjects() (all []ruleset.Subject) {
	if ix == nil {
		return nil
	}
	for name := range ix.grants {
		all = append(all, ruleset.Subject{Name: name})
	}
	for _, r := range ix.rules {
		for _, name := range r.Spec.Subjects.UserNames {
			all = append(all, ruleset.Subject{Name: name})
		}
		for _, name := range r.Spec.Subjects.GroupNames {
			all = append(all, ruleset.Subject{Group: true, Name: name})
		}
	}
	return all
}
