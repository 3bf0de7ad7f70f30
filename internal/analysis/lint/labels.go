package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// MaxLabelledKinds is of how many kinds objects are read for one rule.
const MaxLabelledKinds = 20

// Objects are those of a kind, in a namespace or, if that is empty, everywhere.
type Objects struct {
	schema.GroupVersionResource
	Namespace string
}

func (o Objects) String() string {
	if o.Namespace == "" {
		return o.GroupResource().String()
	}
	return o.GroupResource().String() + " in " + o.Namespace
}

// Labelled is what was found out about objects: how many there are, and which labels they have.
type Labelled struct {
	Count  int
	Labels map[string]bool
}

// Naming is a place in a rule that names labels of objects.
type Naming struct {
	Object Object
	Path   []any
	Labels []string
	// Kinds is how many kinds the rule is about, and Of are the objects whose labels are meant; none if there are too
	// many kinds.
	Kinds int
	Of    []Objects
}

// Namings are the places that name labels, in order. A caller that has objects reads those, and gives them to Check.
func Namings(in Input) (all []Naming) {
	c := &checker{Input: in}
	for _, r := range c.roles() {
		if in.Ours != nil && in.Ours(r.ref) {
			continue
		}
		for i := range r.policy {
			rule := &r.policy[i]
			var found []Naming
			for _, e := range []struct{ field, source string }{{"where", rule.Where}, {"when", rule.When}} {
				if tree, issues := in.Comparer.Cache.Compiler().Syntax(e.source); e.source != "" && len(issues) == 0 {
					found = append(found, Naming{Object: r.object, Path: []any{"rules", i, e.field}, Labels: expr.Labels(tree)})
				}
			}
			if restrictions := rule.AttributeRestrictions; restrictions != nil {
				for n, label := range restrictions.LabelsContain {
					key, _, _ := strings.Cut(label, "=")
					found = append(found, Naming{Object: r.object, Path: []any{"rules", i, "attributeRestrictions", "labelsContain", n}, Labels: []string{key}})
				}
			}
			for _, one := range found {
				if len(one.Labels) > 0 {
					one.Kinds, one.Of = c.labelled(r, rule)
					all = append(all, one)
				}
			}
		}
	}
	return all
}

// labelled are the objects that a rule is about.
func (c *checker) labelled(r role, rule *policyv1alpha1.PolicyRule) (kinds int, of []Objects) {
	for _, gr := range ruleset.Coverage(rule, c.Index.Kinds()).Resources {
		for _, served := range c.Resources {
			if served.Group != gr.Group || served.Resource != gr.Resource || served.Subresource != "" || !served.Own {
				continue
			}
			one := Objects{GroupVersionResource: gr.WithVersion(served.Version)}
			if served.Namespaced && r.ref.Namespace != c.Index.MasterNamespace() {
				one.Namespace = r.ref.Namespace
			}
			of = append(of, one)
		}
	}
	slices.SortFunc(of, func(a, b Objects) int { return cmp.Compare(a.String(), b.String()) })
	of = slices.Compact(of)
	if len(of) > MaxLabelledKinds {
		return len(of), nil
	}
	return len(of), of
}

// labels remarks on labels that no object has. Where not all of the objects are known, or there is none, nothing is
// certain.
func (c *checker) labels() {
	for _, n := range c.Namings {
		count, known := 0, len(n.Of) > 0
		have := map[string]bool{}
		for _, of := range n.Of {
			found, read := c.Labelled[of]
			known = known && read
			count += found.Count
			for key := range found.Labels {
				have[key] = true
			}
		}
		if !known || count == 0 {
			continue
		}
		keys := make([]string, 0, len(have))
		for key := range have {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, label := range n.Labels {
			if have[label] {
				continue
			}
			remark := Remark{Code: codeLabel, Severity: Warning, Object: n.Object, Path: n.Path, Message: fmt.Sprintf("no object has the label %s: %d were checked, %s", label, count, kindsOf(n.Of))}
			if meant := near(label, keys); meant != "" {
				remark.Do = "Write " + meant + ", if that is meant."
			}
			c.say(remark)
		}
	}
}

func kindsOf(all []Objects) string {
	var names []string
	for _, o := range all {
		names = append(names, o.String())
	}
	return few(names)
}
