package narrowedtoken

import (
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/lru"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/power"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/verbs"
)

// maxCompiled is how many compiled links are kept. A holder can make as many as they like.
const maxCompiled = 1024

// Compiler compiles links, and caches them by their text. It is safe for concurrent use.
type Compiler struct {
	compile ruleset.CompileRule
	kept    *lru.Cache
}

// NewCompiler returns a compiler that compiles conditions like those of policy.
func NewCompiler(compile ruleset.CompileRule) *Compiler {
	return &Compiler{compile: compile, kept: lru.New(maxCompiled)}
}

// Link compiles the text of a link; kinds give names their meaning.
func (c *Compiler) Link(text string, kinds *ruleset.Kinds) (*Rules, error) {
	if known, ok := c.kept.Get(text); ok {
		if r, ok := known.(*Rules); ok && r.kinds == kinds {
			return r, nil
		}
	}
	l, err := DecodeLink([]byte(text))
	if err != nil {
		return nil, err
	}
	r := c.rules(l, kinds)
	c.kept.Add(text, r)
	return r, nil
}

// Rules is one link, compiled.
type Rules struct {
	Link *Link

	kinds *ruleset.Kinds
	parts []*part
}

// part holds the rules that apply in the same namespaces.
type part struct {
	// namespaces is empty if they apply everywhere.
	namespaces []string
	all        *ruleset.Index
	// named is the part of the rules that is written out, see writtenOut. It is built when a request needs it.
	named func() *ruleset.Index
}

func (c *Compiler) rules(l *Link, kinds *ruleset.Kinds) *Rules {
	r := &Rules{Link: l, kinds: kinds}
	places := map[string][]policyv1alpha1.PolicyRule{}
	var order []string
	for i := range l.Rules {
		at := strings.Join(sorted(&l.Rules[i]), " ")
		if places[at] == nil {
			order = append(order, at)
		}
		places[at] = append(places[at], l.Rules[i].PolicyRule)
	}
	for _, at := range order {
		rules := places[at]
		r.parts = append(r.parts, &part{
			namespaces: strings.Fields(at), all: c.index(rules, kinds),
			named: sync.OnceValue(func() *ruleset.Index { return c.index(writtenOut(rules), kinds) }),
		})
	}
	return r
}

func sorted(r *accessv1alpha1.TokenRule) []string { return slices.Sorted(slices.Values(r.Namespaces)) }

// holder is the subject to which the rules of a link are bound, in a namespace whose bindings apply everywhere.
const (
	holder = "token"
	place  = "token"
	role   = "link"
)

func (c *Compiler) index(rules []policyv1alpha1.PolicyRule, kinds *ruleset.Kinds) *ruleset.Index {
	return ruleset.Build(ruleset.Input{
		MasterNamespace: place, Kinds: kinds, CompileRule: c.compile, Limits: ruleset.DefaultLimits(),
		Policies: []*policyv1alpha1.Policy{{
			ObjectMeta: metav1.ObjectMeta{Namespace: place, Name: policyv1alpha1.PolicyName},
			Roles:      map[string]policyv1alpha1.PolicyRole{role: {Rules: rules}},
		}},
		PolicyBindings: []*policyv1alpha1.PolicyBinding{{
			ObjectMeta:   metav1.ObjectMeta{Namespace: place, Name: place},
			RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{role: {RoleName: role, UserNames: []string{holder}}},
		}},
	})
}

// writtenOut reduces the rules to the verbs and resources that they name: an allow rule keeps no wildcards, and one
// that has only exceptions allows nothing (TK-4). Deny rules are unchanged.
func writtenOut(rules []policyv1alpha1.PolicyRule) []policyv1alpha1.PolicyRule {
	var out []policyv1alpha1.PolicyRule
	for _, r := range rules {
		if !r.Deny {
			var verbs, kinds bool
			r.Verbs, verbs = literal(r.Verbs)
			r.ResourceKinds, kinds = literal(r.ResourceKinds)
			if !verbs || !kinds {
				continue
			}
		}
		out = append(out, r)
	}
	return out
}

// literal keeps names and exceptions; false if there are no names. A list without names would mean all.
func literal(list []string) (kept []string, named bool) {
	for _, entry := range list {
		switch {
		case strings.HasPrefix(entry, "-"):
			kept = append(kept, entry)
		case !strings.Contains(entry, "*"):
			kept, named = append(kept, entry), true
		}
	}
	return kept, named
}

// Answer is a link's answer to a request before the object is known. The zero value refuses.
type Answer struct {
	// Allowed is true if the link allows the request for every object, unless one of Denies holds.
	Allowed bool
	// Allows and Denies are the rules that allow and deny under conditions.
	Allows, Denies []ruleset.Hit
	// Unnamed says what can be done with the request, if the link would allow it but does not name it.
	Unnamed string
}

// IsRefused reports whether the request is refused for every object.
func (a *Answer) IsRefused() bool { return !a.Allowed && len(a.Allows) == 0 }

// Ask asks the link about a request.
func (r *Rules) Ask(attrs authorizer.Attributes) Answer {
	why, powerful := "", false
	if attrs.IsResourceRequest() {
		why, powerful = power.Of(attrs.GetVerb(), attrs.GetAPIGroup(), attrs.GetResource(), attrs.GetSubresource())
	}
	if a := r.ask(attrs, powerful); !powerful || !a.IsRefused() {
		return a
	}
	if a := r.ask(attrs, false); a.IsRefused() {
		return Answer{}
	}
	return Answer{Unnamed: why}
}

func (r *Rules) ask(attrs authorizer.Attributes, named bool) (a Answer) {
	for _, p := range r.parts {
		here, denies := p.holds(attrs)
		if !here && !denies {
			continue
		}
		index := p.all
		if named {
			index = p.named()
		}
		var q ruleset.Query
		q.ResetFor(index, attrs, ruleset.Subject{Name: holder})
		m := q.PolicyMaster()
		if m.Deny.Found() {
			return Answer{}
		}
		if m.ConditionalDeny {
			a.Denies = q.AppendConditional(a.Denies, ruleset.TierMaster, ruleset.Denies)
		}
		if !here {
			continue
		}
		a.Allowed = a.Allowed || m.Allow.Found()
		if m.ConditionalAllow {
			a.Allows = q.AppendConditional(a.Allows, ruleset.TierMaster, ruleset.Allows)
		}
	}
	if a.Allowed {
		a.Allows = nil
	}
	return a
}

// holds reports whether the rules apply to a request, and whether the deny rules do: a request for all namespaces may
// be about one of these.
func (p *part) holds(attrs authorizer.Attributes) (here, denies bool) {
	switch {
	case len(p.namespaces) == 0:
		return true, true
	case attrs.GetNamespace() != "":
		here = slices.Contains(p.namespaces, attrs.GetNamespace())
		return here, here
	}
	return false, attrs.IsResourceRequest() && attrs.GetName() == "" && attrs.GetVerb() != verbs.Create
}
