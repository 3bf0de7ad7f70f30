package compile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// Input is what is compiled, and for what.
type Input struct {
	// Index is the policy, compiled, and Bindings what binds its roles.
	Index    *ruleset.Index
	Bindings []*policyv1alpha1.PolicyBinding
	// CEL is the compiler of its conditions.
	CEL *expr.Compiler
	// Resources are those that are served, and that rules name.
	Resources []plan.Resource
	// Ours are API groups that a stock server does not have.
	Ours []string
	// World knows what else there is.
	World World
	// Protected are the protected attributes, with their exemptions.
	Protected protectedattr.Config
	// Fields are the field permissions; nil if there are none.
	Fields *fieldperm.Table
	// Lost are objects that cannot be had as they are, with the reason, such as ProtectedAttribute/prod/env.
	Lost map[string]string
	// Accept are rules and objects to do without, see Assessment.Rule.
	Accept []string
}

// World is what a policy is compiled in.
type World interface {
	// Elsewhere reports whether another API server serves a resource.
	Elsewhere(group, resource string) bool
	// Default reports whether a role is one that every Proviso server has; such roles count only where they are bound.
	Default(role ruleset.RoleRef) bool
	// Shipped reports whether a binding is one that every Proviso server has; a stock server has its own instead.
	Shipped(namespace, name string, b *policyv1alpha1.PolicyRoleBinding) bool
}

// Result is what was compiled. Policies come before grants: a grant must not exist without its condition.
type Result struct {
	Policies    []runtime.Object
	Grants      []runtime.Object
	Assessments []*Assessment
}

// Impossible are the rules and objects with losses that the caller has not accepted.
func (r *Result) Impossible() []*Assessment {
	return slices.DeleteFunc(slices.Clone(r.Assessments), func(f *Assessment) bool { return f.Verdict != Impossible || f.Accepted })
}

// compiler compiles one policy.
type compiler struct {
	in      Input
	checker admissioncel.Compiler
	said    map[string]*Assessment
	bounds  []*bound
	units   map[*bound][]*unit
	// allows are all units that allow.
	allows []*unit
	// fields are the permissions for exclusive fields.
	fields []*exclusive
}

// Compile compiles. An invalid policy is an error; what cannot be expressed is in the assessments.
func Compile(in Input) (*Result, error) {
	if err := problems(in.Index); err != nil {
		return nil, err
	}
	c := &compiler{in: in, checker: newChecker(), said: map[string]*Assessment{}, units: map[*bound][]*unit{}}
	c.fields = c.exclusives()
	c.bind()
	c.unbound()
	for _, b := range c.bounds {
		c.expand(b)
	}
	c.withholdRBAC()
	for name, why := range in.Lost {
		c.assess(name).lose(why)
	}
	out := &Result{}
	if err := c.write(out); err != nil {
		return nil, err
	}
	for _, f := range c.said {
		slices.Sort(f.Policies)
		f.conclude(in.Accept)
		out.Assessments = append(out.Assessments, f)
	}
	slices.SortFunc(out.Assessments, func(a, b *Assessment) int { return strings.Compare(a.Rule, b.Rule) })
	return out, c.collisions(out)
}

// problems is an error if some of the policy does not take effect as written. What RBAC binds is not compiled, and a
// role of RBAC may be in the cluster alone.
func problems(ix *ruleset.Index) error {
	var all []error
	for _, p := range ix.Problems() {
		if p.Role.Kind != ruleset.Role && p.Role.Kind != ruleset.ClusterRole {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("the policy does not take effect as written: %w", errors.Join(all...))
}

func (c *compiler) assess(name string) *Assessment {
	if c.said[name] == nil {
		c.said[name] = &Assessment{Rule: name}
	}
	return c.said[name]
}

// bind collects what is bound where. A time-limited binding cannot be expressed.
func (c *compiler) bind() {
	found := map[string]*bound{}
	for _, container := range c.in.Bindings {
		for name, b := range container.RoleBindings {
			if c.in.World.Shipped(container.Namespace, name, &b) {
				continue
			}
			if b.NotBefore != nil || b.NotAfter != nil {
				c.assess("RoleBinding/" + container.Namespace + "/" + name).lose("RBAC has no bindings that begin or end")
				continue
			}
			one := &bound{role: ruleset.RoleRef{Kind: ruleset.PolicyRole, Namespace: container.Name, Name: b.RoleName}, scope: container.Namespace}
			if b.RoleRef != nil {
				one.role = ruleset.RoleRef{Kind: ruleset.ClusterRole, Name: b.RoleRef.Name}
			}
			if one.scope == c.in.Index.MasterNamespace() {
				one.scope = ""
			}
			k := fmt.Sprint(one.role, "\x00", one.scope)
			if found[k] == nil {
				found[k] = one
				c.bounds = append(c.bounds, one)
			}
			found[k].merge(b.UserNames, b.GroupNames)
		}
	}
	c.bounds = slices.DeleteFunc(c.bounds, func(b *bound) bool { return len(b.users) == 0 && len(b.groups) == 1 && b.groups[0] == masters })
	slices.SortFunc(c.bounds, compareBound)
}

// expand makes the units of a role where it is bound.
func (c *compiler) expand(b *bound) {
	d := c.in.Index.Definition(b.role)
	if d == nil || d.Policy == nil {
		return
	}
	for i := range d.Policy {
		u := &unit{bound: b, index: i, src: &d.Policy[i], rule: d.Rules[i], said: c.assess(ruleName(b.role, i))}
		if u.rule == nil {
			u.said.lose("the rule is not enforced, and that cluster cannot shadow it")
			continue
		}
		c.admit(u)
		c.units[b] = append(c.units[b], u)
		if !u.src.Deny && len(u.at) > 0 {
			c.allows = append(c.allows, u)
		}
	}
}

// unbound records the rules of roles without a binding.
func (c *compiler) unbound() {
	c.in.Index.Definitions(func(d *ruleset.Definition) {
		if d.Ref.Kind != ruleset.PolicyRole || strings.Contains(d.Ref.Name, "\x00") || slices.ContainsFunc(c.bounds, func(b *bound) bool { return b.role == d.Ref }) {
			return
		}
		if c.in.World.Default(d.Ref) {
			return
		}
		for i := range d.Policy {
			c.assess(ruleName(d.Ref, i)).note("the role is bound to nobody")
		}
	})
}

// write makes the objects.
func (c *compiler) write(out *Result) error {
	for _, b := range c.bounds {
		if b.role.Kind == ruleset.ClusterRole {
			if !c.withholds(b) {
				out.Grants = append(out.Grants, c.bindRole(b))
			}
			continue
		}
		var allows []*unit
		for _, u := range c.units[b] {
			if c.guard(out, u) && !u.src.Deny {
				allows = append(allows, u)
			}
		}
		grants := c.grant(b, allows)
		for _, g := range grants {
			if err := sized(g); err != nil {
				return fmt.Errorf("%s: %w", b.role, err)
			}
		}
		out.Grants = append(out.Grants, grants...)
	}
	c.guardFields(out)
	if err := c.protect(out); err != nil {
		return err
	}
	order(out.Policies)
	order(out.Grants)
	return nil
}

// guard writes the policies of a unit, if it takes any. Without them a conditional right is not granted.
func (c *compiler) guard(out *Result, u *unit) bool {
	write := c.hold
	switch {
	case u.src.Deny && c.refuses(u):
		write = c.deny
	case u.src.Deny || !u.conditional():
		return !hasCondition(u.src)
	}
	var policies []*admissionv1.ValidatingAdmissionPolicy
	for _, piece := range u.pieces() {
		p := write(piece)
		if err := c.checkPolicy(p); err != nil {
			u.said.lose(err.Error())
			return false
		}
		policies = append(policies, p)
	}
	for _, p := range policies {
		u.said.Policies = append(u.said.Policies, p.Name)
		out.Policies = append(out.Policies, p, c.enact(p))
	}
	return true
}

// refuses reports whether a rule that denies has anything that a policy can refuse.
func (c *compiler) refuses(u *unit) bool {
	if u.src.Enforcement != "" && u.src.Enforcement != policyv1alpha1.EnforcementEnforce {
		return false
	}
	if hasCondition(u.src) {
		return u.conditional()
	}
	return len(u.at) > 0 || len(c.patterns(u)) > 0
}

// kindOrder is the order in which objects are created: what is referred to comes before what refers to it.
var kindOrder = []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"}

// identityOf is the kind, the namespace and the name of an object.
func identityOf(o runtime.Object) (kind, name string) {
	m, err := meta.Accessor(o)
	if err != nil {
		return o.GetObjectKind().GroupVersionKind().Kind, ""
	}
	return o.GetObjectKind().GroupVersionKind().Kind, m.GetNamespace() + "/" + m.GetName()
}

// order sorts objects by kind, namespace and name.
func order(objects []runtime.Object) {
	slices.SortFunc(objects, func(a, b runtime.Object) int {
		kindA, nameA := identityOf(a)
		kindB, nameB := identityOf(b)
		return cmp.Or(cmp.Compare(slices.Index(kindOrder, kindA), slices.Index(kindOrder, kindB)), strings.Compare(nameA, nameB))
	})
}

// collisions is an error if two objects have one name.
func (c *compiler) collisions(out *Result) error {
	seen := map[string]bool{}
	for _, o := range slices.Concat(out.Policies, out.Grants) {
		kind, name := identityOf(o)
		if seen[kind+" "+name] {
			return fmt.Errorf("two objects would be called %s %s: rename a role", kind, name)
		}
		seen[kind+" "+name] = true
	}
	return nil
}
