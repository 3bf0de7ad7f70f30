package lint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// Guard is a protected attribute as it was written.
type Guard struct {
	Object Object
	protectedattr.Protection
	// Created is when it was stored; zero if it is not yet.
	Created time.Time
}

// Carries reports whether an object with these labels and annotations has a value that is protected.
func (g Guard) Carries(labels, annotations map[string]string) bool {
	have := labels
	if g.Attribute == protectedattr.Annotation {
		have = annotations
	}
	domain, every := strings.CutSuffix(g.Key, "*")
	for _, key := range slices.Sorted(maps.Keys(have)) {
		if (key == g.Key || every && strings.HasPrefix(key, domain)) && g.covers(have[key]) {
			return true
		}
	}
	return false
}

func (g Guard) covers(value string) bool {
	return len(g.Values) == 0 || g.Closed || slices.Contains(g.Values, value)
}

// Before reports whether an object of that age was there before it was protected.
func (g Guard) Before(made time.Time) bool { return g.Created.IsZero() || made.Before(g.Created) }

// selector finds the objects, or is empty if they have to be looked at one by one.
func (g Guard) selector() string {
	if g.Attribute != protectedattr.Label || strings.HasSuffix(g.Key, "*") {
		return ""
	}
	op, values := selection.Exists, []string(nil)
	if len(g.Values) > 0 && !g.Closed {
		op, values = selection.In, g.Values
	}
	r, err := labels.NewRequirement(g.Key, op, values)
	if err != nil {
		return ""
	}
	return labels.NewSelector().Add(*r).String()
}

// Search is where objects may have a value that is protected now.
type Search struct {
	Guard Guard
	// Selector limits the objects to those that have it; empty means all of them.
	Selector string
	// Named is set if the protection names the kinds. Kinds is how many there are, and Of are they; none if there are
	// too many.
	Named bool
	Kinds int
	Of    []Objects
}

// Searches are all of them, in order. A caller that has objects looks for those, and gives them to Check.
func Searches(in Input) (all []Search) {
	c := &checker{Input: in}
	for _, g := range in.Guards {
		s := Search{Guard: g, Selector: g.selector(), Named: len(g.Resources) > 0}
		for _, r := range in.Resources {
			if r.Subresource != "" || !r.Own || r.Virtual || s.Named && !c.meant(g.Resources, r.Group, r.Resource) || g.Namespace != "" && !r.Namespaced {
				continue
			}
			one := Objects{Namespace: g.Namespace}
			one.Group, one.Version, one.Resource = r.Group, r.Version, r.Resource
			s.Of = append(s.Of, one)
		}
		slices.SortFunc(s.Of, func(a, b Objects) int { return cmp.Compare(a.String(), b.String()) })
		s.Of = slices.Compact(s.Of)
		if s.Kinds = len(s.Of); s.Kinds > MaxLabelledKinds && s.Selector == "" {
			s.Of = nil
		}
		all = append(all, s)
	}
	return all
}

// meant reports whether names, read as in a deny rule, mean a resource.
func (c *checker) meant(names []string, group, resource string) bool {
	for _, name := range names {
		parsed, err := matching.ParseKind(name)
		if err != nil {
			return true
		}
		patterns, _ := c.Index.Kinds().Expand(parsed, false, false)
		if slices.ContainsFunc(patterns, func(p matching.Pattern) bool { return (p.AnyRes || p.Res == resource) && p.InGroup(group) }) {
			return true
		}
	}
	return false
}

// guards remarks on protections that leave values free, and on objects that had a value before it was protected.
func (c *checker) guards() {
	for _, g := range c.Guards {
		if len(g.Values) > 0 && !g.Closed {
			c.say(Remark{Code: codeFree, Severity: Warning, Object: g.Object, Path: []any{"protectedValues"},
				Message: fmt.Sprintf("everybody who may write an object can set %s %s to other values than %s", g.Attribute, g.Key, few(g.Values))})
		}
		if found := c.Carriers[g.Object]; len(found) > 0 {
			c.say(Remark{Code: codeCarried, Severity: Warning, Object: g.Object, Path: []any{"attributeName"},
				Message: fmt.Sprintf("%s older than this protection and have a protected value of %s %s: %s", objects(len(found)), g.Attribute, g.Key, few(found))})
		}
	}
}

func objects(n int) string {
	if n == 1 {
		return "1 object is"
	}
	return fmt.Sprintf("%d objects are", n)
}
