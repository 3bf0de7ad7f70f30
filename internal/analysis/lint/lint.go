package lint

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/analysis/compare"
	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/whocan"
)

// Input is what is looked at.
type Input struct {
	Index    *ruleset.Index
	Comparer *compare.Comparer
	// Resources, Verbs, Namespaces and Names are the values from which requests are built.
	Resources                []plan.Resource
	Verbs, Namespaces, Names []string
	// Ours reports whether a role is one that every server creates itself; nothing is reported about these.
	Ours func(ruleset.RoleRef) bool

	Policies            []*policyv1alpha1.Policy
	PolicyBindings      []*policyv1alpha1.PolicyBinding
	Roles               []*rbacv1.Role
	ClusterRoles        []*rbacv1.ClusterRole
	RoleBindings        []*rbacv1.RoleBinding
	ClusterRoleBindings []*rbacv1.ClusterRoleBinding
	Sinks               []*auditv1alpha1.AuditSink
	NamespaceSinks      []*policyv1alpha1.NamespaceAuditSink
	Classes             []*auditv1alpha1.AuditClass

	// Guards are the protected attributes that are enforced. Carriers are the objects that have a value of one and are
	// older than it, as the searches of Searches found them.
	Guards   []Guard
	Carriers map[Object][]string
	// Reachable are hidden fields that others can get at.
	Reachable []Reachable
	// Shown are permissions that hide fields where the server does not.
	Shown []Object
	// Fields are the permissions for fields; nil while that system is off.
	Fields *fieldperm.Table

	// Now is the time, for bindings that begin and end; zero leaves them out.
	Now time.Time
	// Namings and Labelled are for labels that no object has: what Namings returned, and the objects that were read.
	Namings  []Naming
	Labelled map[Objects]Labelled
}

// Object is what a remark is about.
type Object struct {
	Group, Kind, Namespace, Name string
}

func (o Object) String() string {
	return o.Kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
}

// Remark is something suspicious, and where.
type Remark struct {
	Code     string
	Severity Severity
	Object   Object
	// Path leads to the place in the object: field names and positions.
	Path    []any
	Message string
	// Do says what to do, if it is more than the code says.
	Do string
}

// Field is the path as people write it: rules[0].verbs[1].
func (r Remark) Field() string {
	var b strings.Builder
	for _, step := range r.Path {
		if n, ok := step.(int); ok {
			fmt.Fprintf(&b, "[%d]", n)
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		fmt.Fprint(&b, step)
	}
	return b.String()
}

// Place is where it is, in one line.
func (r Remark) Place() string {
	if field := r.Field(); field != "" {
		return r.Object.String() + " " + field
	}
	return r.Object.String()
}

// Check returns all remarks, in a stable order. It ends early when ctx does, with an error.
func Check(ctx context.Context, in Input) ([]Remark, error) {
	c := &checker{Input: in, ctx: ctx, budget: maxQuestions}
	c.asked()
	c.problems()
	for _, r := range c.roles() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if in.Ours != nil && in.Ours(r.ref) {
			continue
		}
		c.written(r)
		c.conditions(r)
		c.effects(r)
		c.evasions(r)
	}
	c.power()
	c.accounts()
	c.sinks()
	c.labels()
	c.guards()
	c.reachable()
	c.shown()
	c.times()
	slices.SortStableFunc(c.remarks, func(a, b Remark) int {
		return cmp.Or(cmp.Compare(a.Object.Namespace, b.Object.Namespace), cmp.Compare(a.Object.Kind, b.Object.Kind), cmp.Compare(a.Object.Name, b.Object.Name),
			cmp.Compare(a.Field(), b.Field()), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message))
	})
	return c.remarks, ctx.Err()
}

// maxQuestions bounds the requests that are decided; what would need more is not remarked on.
const maxQuestions = 3_000_000

type checker struct {
	Input
	ctx     context.Context
	budget  int
	remarks []Remark
}

// role is a role as it was written.
type role struct {
	ref    ruleset.RoleRef
	object Object
	policy []policyv1alpha1.PolicyRule
	rbac   []rbacv1.PolicyRule
	// aggregated cluster roles get their rules from others.
	aggregated bool
}

const (
	policyGroup = "authorization.proviso.dev"
	rbacGroup   = "rbac.authorization.k8s.io"
)

func objectOf(ref ruleset.RoleRef) Object {
	switch ref.Kind {
	case ruleset.ClusterRole:
		return Object{rbacGroup, "ClusterRole", "", ref.Name}
	case ruleset.Role:
		return Object{rbacGroup, "Role", ref.Namespace, ref.Name}
	}
	return Object{policyGroup, "Role", ref.Namespace, ref.Name}
}

func bindingOf(ref ruleset.BindingRef) Object {
	switch ref.Kind {
	case ruleset.ClusterRoleBinding:
		return Object{rbacGroup, "ClusterRoleBinding", "", ref.Name}
	case ruleset.RoleBinding:
		return Object{rbacGroup, "RoleBinding", ref.Namespace, ref.Name}
	}
	return Object{policyGroup, "RoleBinding", ref.Namespace, ref.Name}
}

// roles are all that were written, in order.
func (c *checker) roles() (all []role) {
	for _, p := range c.Policies {
		for name, r := range p.Roles {
			ref := ruleset.RoleRef{Kind: ruleset.PolicyRole, Namespace: p.Namespace, Name: name}
			all = append(all, role{ref: ref, object: objectOf(ref), policy: r.Rules})
		}
	}
	for _, r := range c.Roles {
		ref := ruleset.RoleRef{Kind: ruleset.Role, Namespace: r.Namespace, Name: r.Name}
		all = append(all, role{ref: ref, object: objectOf(ref), rbac: r.Rules})
	}
	for _, r := range c.ClusterRoles {
		ref := ruleset.RoleRef{Kind: ruleset.ClusterRole, Name: r.Name}
		all = append(all, role{ref: ref, object: objectOf(ref), rbac: r.Rules, aggregated: r.AggregationRule != nil})
	}
	slices.SortFunc(all, func(a, b role) int {
		return cmp.Or(cmp.Compare(a.ref.Kind, b.ref.Kind), cmp.Compare(a.ref.Namespace, b.ref.Namespace), cmp.Compare(a.ref.Name, b.ref.Name))
	})
	return all
}

// asked adds the resources that nobody serves and that authorization asks about.
func (c *checker) asked() {
	c.Resources = slices.Clone(c.Resources)
	groups := make([]string, 0, len(more))
	for group := range more {
		groups = append(groups, group)
	}
	slices.Sort(groups)
	for _, group := range groups {
		for _, resource := range more[group] {
			if !slices.ContainsFunc(c.Resources, func(r plan.Resource) bool { return r.Group == group && r.Resource == resource }) {
				c.Resources = append(c.Resources, plan.Resource{Group: group, Version: "v1", Resource: resource})
			}
		}
	}
}

func (c *checker) say(r Remark) { c.remarks = append(c.remarks, r) }

// problems are what the engine itself says.
func (c *checker) problems() {
	for _, p := range c.Index.Problems() {
		switch {
		case p.Binding != (ruleset.BindingRef{}) && p.Role.Kind == ruleset.ClusterRole && shipped(p.Role.Name): // every cluster has it
		case p.Binding != (ruleset.BindingRef{}):
			c.say(Remark{Code: codeNoRole, Severity: Error, Object: bindingOf(p.Binding), Path: []any{"roleRef"}, Message: p.Err.Error()})
		case p.Role != (ruleset.RoleRef{}):
			c.say(Remark{Code: codeBroken, Severity: Error, Object: objectOf(p.Role), Path: []any{"rules", p.Rule}, Message: p.Error()})
		default:
			c.say(Remark{Code: codeBroken, Severity: Error, Message: p.Error()})
		}
	}
}

// shipped reports whether Kubernetes itself creates a cluster role.
func shipped(name string) bool {
	return strings.HasPrefix(name, "system:") || slices.Contains([]string{"cluster-admin", "admin", "edit", "view"}, name)
}

// standing is what the rules make of a request by a subject.
func standing(ix *ruleset.Index, attrs authorizer.Attributes, subject ruleset.Subject) ruleset.Standing {
	var q ruleset.Query
	q.ResetFor(ix, attrs, whocan.Judged(subject)...)
	return q.Decide(nil)
}

// named is a subject as messages have it.
func named(s ruleset.Subject) string {
	if s.Group {
		return "group " + s.Name
	}
	if account, ok := strings.CutPrefix(s.Name, accountPrefix); ok {
		return "service account " + strings.Replace(account, ":", "/", 1)
	}
	return "user " + s.Name
}

const accountPrefix = "system:serviceaccount:"

// few joins the first names.
func few(names []string) string {
	const most = 5
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}
