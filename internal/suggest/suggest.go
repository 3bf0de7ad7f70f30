package suggest

import (
	"cmp"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/plan"
	"proviso.dev/proviso/internal/ruleset"
	"proviso.dev/proviso/internal/ruleset/escalation"
)

// Use is something that somebody did.
type Use struct {
	Verb, Group, Resource, Subresource, Namespace, Name, Path string
}

func (u Use) attributes(who user.Info) authorizer.AttributesRecord {
	if u.Path != "" {
		return authorizer.AttributesRecord{User: who, Verb: u.Verb, Path: u.Path}
	}
	return authorizer.AttributesRecord{User: who, Verb: u.Verb, APIGroup: u.Group, APIVersion: "v1", Resource: u.Resource, Subresource: u.Subresource, Namespace: u.Namespace, Name: u.Name, ResourceRequest: true}
}

// Compare orders uses.
func (u Use) Compare(o Use) int {
	return cmp.Or(cmp.Compare(u.Namespace, o.Namespace), cmp.Compare(u.Group, o.Group), cmp.Compare(u.Resource, o.Resource), cmp.Compare(u.Subresource, o.Subresource), cmp.Compare(u.Verb, o.Verb),
		cmp.Compare(u.Name, o.Name), cmp.Compare(u.Path, o.Path))
}

func (u Use) String() string {
	if u.Path != "" {
		return u.Verb + " " + u.Path
	}
	what := u.Resource
	if u.Group != "" {
		what += "." + u.Group
	}
	if u.Subresource != "" {
		what += "/" + u.Subresource
	}
	if u.Name != "" {
		what += " " + u.Name
	}
	if u.Namespace != "" {
		what += " in " + u.Namespace
	}
	return u.Verb + " " + what
}

// Input is what was seen, and what is held.
type Input struct {
	// Subject is whose rights are replaced, and Who is how the engine sees it: a user with all groups, or an unnamed
	// member of a group.
	Subject ruleset.Subject
	Who     user.Info
	Uses    []Use

	Index *ruleset.Index
	// What the index was built from, to take the subject out of its bindings.
	Policies            []*policyv1alpha1.Policy
	PolicyBindings      []*policyv1alpha1.PolicyBinding
	Roles               []*rbacv1.Role
	RoleBindings        []*rbacv1.RoleBinding
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding

	// Policy asks for roles of Policy in namespaces, instead of RBAC.
	Policy bool
	// Name is that of the roles and bindings. MaxNames is how many names of objects a rule lists.
	Name     string
	MaxNames int
	// Resources, Verbs and Namespaces are what rights are counted in.
	Resources         []plan.Resource
	Verbs, Namespaces []string
}

// Part is what is suggested for one namespace, or for the cluster if that is empty. Conditions can be said in Policy
// only, so that a part can have both.
type Part struct {
	Namespace string
	RBAC      []rbacv1.PolicyRule
	Policy    []policyv1alpha1.PolicyRule
}

// Result is a suggestion with its proof.
type Result struct {
	Parts []Part
	// Allowed is how many uses are held today; Stays are those of them that everybody has, and Refused are the uses
	// that the policy does not allow.
	Allowed, Stays int
	Refused        []Use
	// Replaced are the bindings that the subject is taken out of, Kept those whose role denies something.
	Replaced, Kept []ruleset.BindingRef
	// Broken are the uses that would be decided in another way.
	Broken []Use
	// Before and After count the rights: verbs × resources × namespaces that are allowed, under conditions or not.
	Before, After int

	after *ruleset.Index
}

// Make suggests, and proves what it suggests. An error means that there is no proof.
func Make(in Input) (*Result, error) {
	if in.MaxNames <= 0 {
		in.MaxNames = 20
	}
	out := &Result{}
	in.Namespaces = slices.Clone(in.Namespaces)
	for _, u := range in.Uses {
		if u.Namespace != "" && !slices.Contains(in.Namespaces, u.Namespace) {
			in.Namespaces = append(in.Namespaces, u.Namespace)
		}
	}
	s := &suggester{Input: in, rights: map[right]*objects{}, allows: in.allowsOnly()}
	for _, u := range in.Uses {
		s.take(u, out)
	}
	s.make(out)
	if len(out.Broken) > 0 {
		// What is granted for the whole cluster, no deny of a namespace refuses: so it has to stay there.
		for _, u := range out.Broken {
			s.keepWide(u)
		}
		s.make(out)
	}
	if err := s.held(out.Parts); err != nil {
		return nil, err
	}
	out.Before, out.After = s.count(in.Index, in.Who), s.count(out.after, without(in.Who, mastersGroup))
	return out, nil
}

// make puts what is noted together, and replays.
func (s *suggester) make(out *Result) {
	out.Replaced, out.Kept, out.Broken = nil, nil, nil
	out.Parts = s.parts()
	out.after = s.replace(out)
	s.replay(out.after, out)
}

const mastersGroup = "system:masters"

// everybodys are the groups that stay, whatever is suggested.
var everybodys = []string{"system:authenticated", "system:unauthenticated", "system:serviceaccounts"}

type suggester struct {
	Input
	rights map[right]*objects
	// allows is the index without the deny rules. All of these stay, so that they do not count against what is granted.
	allows *ruleset.Index
}

// right is what a rule says, without names.
type right struct {
	namespace, group, resource, sub, verb, path string
	// rule is the conditional rule behind it, by its place; the zero value is none.
	rule rulePlace
}

type rulePlace struct {
	role  ruleset.RoleRef
	index int
	// master is instead of a rule: the right has to be given in the master namespace.
	master bool
}

// objects are the names of what was touched; all if a request said none.
type objects struct {
	all   bool
	names map[string]bool
	rule  *policyv1alpha1.PolicyRule
}

func (s *suggester) masters() bool { return slices.Contains(s.Who.GetGroups(), mastersGroup) }

// take notes what a use needs.
func (s *suggester) take(u Use, out *Result) {
	v := s.Index.Decide(u.attributes(s.Who))
	if s.masters() {
		v = ruleset.Standing{Certainty: ruleset.Always}
	}
	if v.Certainty == ruleset.Never {
		out.Refused = append(out.Refused, u)
		return
	}
	out.Allowed++
	var common []ruleset.Subject
	for _, g := range s.Who.GetGroups() {
		if slices.Contains(everybodys, g) && (ruleset.Subject{Group: true, Name: g}) != s.Subject {
			common = append(common, ruleset.Subject{Group: true, Name: g})
		}
	}
	var q ruleset.Query
	if q.ResetFor(s.Index, u.attributes(s.Who), common...); q.Decide(nil).Certainty == ruleset.Always {
		out.Stays++
		return
	}
	if v.Certainty == ruleset.Always || v.Allow.Found() {
		s.note(u, rulePlace{}, nil)
	}
	if v.Certainty == ruleset.Always {
		return
	}
	for _, h := range v.Conditions {
		if h.Effect() == ruleset.Allows && h.PolicyRule() != nil {
			s.note(u, rulePlace{role: h.Role(), index: h.RuleIndex()}, h.PolicyRule())
		}
	}
}

// keepWide notes, of what a use needs, what is granted for the whole cluster.
func (s *suggester) keepWide(u Use) {
	var q ruleset.Query
	q.Reset(s.Index, u.attributes(s.Who))
	v, granted := q.Decide(nil), q.ClusterGrant().Found()
	u.Namespace = ""
	if granted {
		s.note(u, rulePlace{}, nil)
	}
	for _, h := range append(slices.Clone(v.Conditions), v.Allow) {
		if !h.Found() || h.Effect() != ruleset.Allows || h.Binding().Kind != ruleset.PolicyRoleBinding || h.Binding().Namespace != s.Index.MasterNamespace() {
			continue
		}
		if h.Condition() == nil {
			s.note(u, rulePlace{master: true}, nil)
			continue
		}
		s.note(u, rulePlace{role: h.Role(), index: h.RuleIndex()}, h.PolicyRule())
	}
}

func (s *suggester) note(u Use, place rulePlace, rule *policyv1alpha1.PolicyRule) {
	at := right{u.Namespace, u.Group, u.Resource, u.Subresource, u.Verb, u.Path, place}
	o := s.rights[at]
	if o == nil {
		o = &objects{names: map[string]bool{}, rule: rule}
		s.rights[at] = o
	}
	if u.Name == "" || u.Verb == "create" && u.Subresource == "" {
		o.all = true
		return
	}
	o.names[u.Name] = true
}

// allowsOnly is the index without deny rules: each is replaced by one that matches nothing, so that the others keep
// their places.
func (in Input) allowsOnly() *ruleset.Index {
	var changes []ruleset.Change
	for _, p := range in.Policies {
		next := p.DeepCopy()
		for _, role := range next.Roles {
			for i := range role.Rules {
				if role.Rules[i].Deny {
					role.Rules[i] = policyv1alpha1.PolicyRule{Verbs: []string{"nothing"}, ResourceKinds: []string{"nothing.nothing.invalid"}}
				}
			}
		}
		changes = append(changes, ruleset.Put(next))
	}
	return in.Index.Apply(changes...)
}

// held proves with the check of escalation that nothing is granted that is not held.
func (s *suggester) held(parts []Part) error {
	for _, p := range parts {
		if len(p.RBAC) > 0 {
			if err := escalation.Covers(s.allows, escalation.Grant{User: s.Who, Namespace: p.Namespace, RBAC: p.RBAC}); err != nil {
				return fmt.Errorf("the suggestion would grant more than is held: %w", err)
			}
		}
		if len(p.Policy) > 0 {
			namespace := p.Namespace
			if namespace == "" {
				namespace = s.Index.MasterNamespace()
			}
			if err := escalation.Covers(s.allows, escalation.Grant{User: s.Who, Namespace: namespace, Policy: p.Policy}); err != nil {
				return fmt.Errorf("the suggestion would grant more than is held: %w", err)
			}
		}
	}
	return nil
}

// replay decides every use with the suggestion in place of the rights.
func (s *suggester) replay(after *ruleset.Index, out *Result) {
	who := without(s.Who, mastersGroup)
	for _, u := range s.Uses {
		before, now := s.Index.Decide(u.attributes(s.Who)), after.Decide(u.attributes(who))
		if s.masters() {
			before = ruleset.Standing{Certainty: ruleset.Always}
		}
		switch {
		case before.Certainty == ruleset.Never, now.Certainty == ruleset.Always:
		case before.Certainty == ruleset.Always, now.Certainty == ruleset.Never, !sameConditions(before, now):
			out.Broken = append(out.Broken, u)
		}
	}
}

// sameConditions tells that whatever the walk through the conditions allowed before, it allows now: for every allow
// there is one of the same condition, or of none, that no other deny stands before.
func sameConditions(before, now ruleset.Standing) bool {
	had, have := allowsOf(before), allowsOf(now)
	return !slices.ContainsFunc(had, func(a allowance) bool {
		return !slices.ContainsFunc(have, func(b allowance) bool {
			return (b.condition == "" || b.condition == a.condition) && !slices.ContainsFunc(b.denies, func(d string) bool { return !slices.Contains(a.denies, d) })
		})
	})
}

// allowance is an allow on the walk, with the denies that stand before it.
type allowance struct {
	condition string
	denies    []string
}

func allowsOf(v ruleset.Standing) (all []allowance) {
	var denies []string
	for _, h := range v.Conditions {
		text := "names only"
		if r := h.PolicyRule(); r != nil {
			text = conditionText(r) + fmt.Sprint(h.Names())
		}
		if h.Effect() == ruleset.Denies {
			denies = append(denies, text)
			continue
		}
		all = append(all, allowance{text, slices.Clone(denies)})
	}
	if v.Allow.Found() && !v.Deny.Found() {
		all = append(all, allowance{"", denies})
	}
	return all
}

func conditionText(r *policyv1alpha1.PolicyRule) string {
	return fmt.Sprintf("%q %q %q %v", r.Where, r.When, r.APIVersion, r.AttributeRestrictions)
}

// count counts what is allowed.
func (s *suggester) count(ix *ruleset.Index, who user.Info) (n int) {
	for _, r := range s.Resources {
		for _, namespace := range append([]string{"", "any-other-namespace"}, s.Namespaces...) {
			if !r.Namespaced && namespace != "" {
				continue
			}
			for _, verb := range s.Verbs {
				u := Use{Verb: verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: namespace}
				if slices.Contains(who.GetGroups(), mastersGroup) || ix.Decide(u.attributes(who)).Certainty != ruleset.Never || s.byName(ix, who, u) {
					n++
				}
			}
		}
	}
	return n
}

// byName tells that it is allowed for a name that was seen.
func (s *suggester) byName(ix *ruleset.Index, who user.Info, u Use) bool {
	for at, o := range s.rights {
		if at.namespace != u.Namespace || at.group != u.Group || at.resource != u.Resource || at.sub != u.Subresource || at.verb != u.Verb {
			continue
		}
		for name := range o.names {
			u.Name = name
			if ix.Decide(u.attributes(who)).Certainty != ruleset.Never {
				return true
			}
		}
	}
	return false
}

// without is a user without a group.
func without(who user.Info, group string) user.Info {
	return &user.DefaultInfo{Name: who.GetName(), UID: who.GetUID(), Extra: who.GetExtra(), Groups: slices.DeleteFunc(slices.Clone(who.GetGroups()), func(g string) bool { return g == group })}
}
