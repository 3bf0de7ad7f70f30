package suggest

import (
	"cmp"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/ruleset/escalation"
	"proviso.dev/proviso/internal/engine/verbs"
)

// Use is one observed action of a subject, as the rules see it: without its namespace if the right must be held
// cluster-wide.
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
	return u.Verb + " " + u.object()
}

// object is what the use is about.
func (u Use) object() string {
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
	return what
}

// Input is what was recorded, and what is held.
type Input struct {
	// Subject is whose rights are replaced, and Who is how the engine sees it: a user with all groups, or an unnamed
	// member of a group.
	Subject ruleset.Subject
	Who     user.Info
	Uses    []Use

	Index  *ruleset.Index
	Server plan.Server
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

	// Writes is what updates and patches changed, of those uses of which that is known for every request. Checked are
	// the permissions for fields that the server asked for and found, by use.
	Writes  map[Use][]Write
	Checked map[Use][]string
	// Exclusive reports whether a permission is for fields that no general verb covers; if nil, all are.
	Exclusive func(permission string) bool

	// Lifts are the verbs on roles with which the server would let a use hand out rights that are not held. It asks for
	// them, and is content with rights that are held.
	Lifts map[Use][]Use
	// Guards are the roles whose members may do what nobody else may: a binding of one stays.
	Guards map[ruleset.RoleRef]bool

	// Touched is what was recorded of the objects of uses, before and after. Live are all objects that are there, where
	// that is known. Holds decides a where for an object, as the server would.
	Touched map[Use][]map[string]any
	Live    map[Place][]map[string]any
	Holds   func(where string, object map[string]any) bool
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
	// HandsOut are the uses that grant rights which the subject holds now and would no longer hold.
	HandsOut []Use
	// Replaced are the bindings that the subject is taken out of, Kept those whose role denies something or asks who
	// the caller is, or that end, and Guarding those whose role makes its members exceptions of a guard.
	Replaced, Kept, Guarding []ruleset.BindingRef
	// Broken are the uses that would be decided in another way.
	Broken []Use
	// Before and After count the rights: verbs × resources × namespaces that are allowed, under conditions or not.
	Before, After int
	// Fields are the places in which single fields can be written instead of whole objects, and Wheres how many rights
	// are under a where of the suggestion.
	Fields []string
	Wheres int
	// Lost are the rights that are held today and not with the suggestion, in order.
	Lost []Loss

	after *ruleset.Index
}

// Make returns a proven suggestion. An error means that there is no proof.
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
	s := &suggester{Input: in, allows: in.allowsOnly()}
	s.byField = s.fieldwise()
	s.takeAll(out)
	s.make(out)
	if broken := out.Broken; len(broken) > 0 {
		// What is granted for the whole cluster, no deny of a namespace refuses: so it has to stay there, as a verb.
		for _, u := range broken {
			s.byField[placeOf(u)] = false
		}
		s.takeAll(out)
		for _, u := range broken {
			for _, verb := range append([]string{u.Verb, fieldsVerb}, s.Checked[u]...) {
				if verb != fieldsVerb || s.hasFields(u) {
					s.keepWide(u.with(verb))
				}
			}
		}
		s.make(out)
	}
	for at, fields := range s.byField {
		if fields {
			out.Fields = append(out.Fields, Use{Group: at.group, Resource: at.resource, Subresource: at.sub, Namespace: at.namespace}.object())
		}
	}
	slices.Sort(out.Fields)
	out.Wheres = len(s.wheres)
	if err := s.held(out.Parts); err != nil {
		return nil, err
	}
	out.Before, out.After = s.count(in.Index, in.Who), s.count(out.after, without(in.Who, mastersGroup))
	out.Lost = s.lost(out.after)
	return out, nil
}

// takeAll notes what all uses need.
func (s *suggester) takeAll(out *Result) {
	s.rights = map[right]*objects{}
	out.Allowed, out.Stays, out.Refused, out.HandsOut = 0, 0, nil, nil
	for _, u := range s.Uses {
		s.take(u, out)
	}
}

// make puts what is noted together, and replays.
func (s *suggester) make(out *Result) {
	s.wheres = nil
	out.Replaced, out.Kept, out.Guarding, out.Broken = nil, nil, nil, nil
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
	// byField are the places in which fields are granted instead of update and patch, and wheres the conditions that
	// were made.
	byField map[place]bool
	wheres  []string
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
	if v.Certainty == ruleset.Never && !s.hasFields(u) {
		out.Refused = append(out.Refused, u)
		return
	}
	out.Allowed++
	s.lift(u, out)
	for _, verb := range s.Checked[u] {
		s.noteHeld(u.with(verb))
	}
	if v.Certainty != ruleset.Always && s.hasFields(u) {
		s.noteHeld(u.with(fieldsVerb))
	}
	if v.Certainty == ruleset.Never {
		return
	}
	if s.everybodyHas(u) {
		out.Stays++
		return
	}
	if verbs.Updates(u.Verb) && s.byField[placeOf(u)] {
		s.noteFields(u)
		return
	}
	s.noteAs(u, v)
}

// everybodyHas reports whether a right comes with a group that everybody is in.
func (s *suggester) everybodyHas(u Use) bool {
	var common []ruleset.Subject
	for _, g := range s.Who.GetGroups() {
		if slices.Contains(everybodys, g) && (ruleset.Subject{Group: true, Name: g}) != s.Subject {
			common = append(common, ruleset.Subject{Group: true, Name: g})
		}
	}
	var q ruleset.Query
	q.ResetFor(s.Index, u.attributes(s.Who), common...)
	return q.Decide(nil).Certainty == ruleset.Always
}

// noteHeld notes a right as it is held: with its conditions, if it has any.
func (s *suggester) noteHeld(u Use) {
	v := s.Index.Decide(u.attributes(s.Who))
	if s.masters() {
		v = ruleset.Standing{Certainty: ruleset.Always}
	}
	if !s.everybodyHas(u) {
		s.noteAs(u, v)
	}
}

// noteAs notes what a standing allows.
func (s *suggester) noteAs(u Use, v ruleset.Standing) {
	if v.Certainty == ruleset.Always || v.Allow.Found() {
		s.note(u, rulePlace{}, nil)
	}
	if v.Certainty == ruleset.Always {
		return
	}
	for _, h := range v.Conditions {
		// A rule that asks who the caller is stays, with its binding.
		if h.Effect() == ruleset.Allows && h.PolicyRule() != nil && !escalation.Personal(h.PolicyRule()) {
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
		if h.PolicyRule() != nil && escalation.Personal(h.PolicyRule()) {
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
		if err := s.covered(p.Namespace, p.RBAC, p.Policy); err != nil {
			return fmt.Errorf("the suggestion would grant more than the subject has: %w", err)
		}
	}
	return nil
}

// count counts what is allowed.
func (s *suggester) count(ix *ruleset.Index, who user.Info) (n int) {
	s.eachRight(func(u Use) {
		if s.mayUse(ix, who, u) {
			n++
		}
	})
	return n
}

// eachRight visits what rights are counted in.
func (s *suggester) eachRight(visit func(Use)) {
	for _, namespace := range append([]string{"", AnyOther}, s.Namespaces...) {
		for _, r := range s.Resources {
			if !r.Namespaced && namespace != "" {
				continue
			}
			for _, verb := range s.Verbs {
				visit(Use{Verb: verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: namespace})
			}
		}
	}
}

func (s *suggester) mayUse(ix *ruleset.Index, who user.Info, u Use) bool {
	u.Namespace = s.Server.Scoped(u.attributes(who)).GetNamespace()
	return slices.Contains(who.GetGroups(), mastersGroup) || verbs.Updates(u.Verb) && s.byName(ix, who, u.with(fieldsVerb)) || ix.Decide(u.attributes(who)).Certainty != ruleset.Never || s.byName(ix, who, u)
}

// byName reports whether it is allowed for a recorded name.
func (s *suggester) byName(ix *ruleset.Index, who user.Info, u Use) bool {
	for at, o := range s.rights {
		if at.namespace != u.Namespace || at.group != u.Group || at.resource != u.Resource || at.sub != u.Subresource || at.verb != u.Verb && (at.verb != fieldsVerb || !verbs.Updates(u.Verb)) {
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
