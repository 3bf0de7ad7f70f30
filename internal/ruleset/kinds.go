package ruleset

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Served is one resource that the server serves.
type Served struct {
	Group    string
	Resource string // plural, without a subresource
	Kind     string
}

// Kinds is the mapping from kinds to the resources that have them. It is immutable. A nil *Kinds knows no kind.
type Kinds struct {
	plurals map[string][]string               // plural → groups that serve it
	kinds   map[string][]schema.GroupResource // kind in lower case → resources
	all     []schema.GroupResource
}

// NewKinds returns the mapping for what is served. Versions and subresources are of no interest.
func NewKinds(served []Served) *Kinds {
	k := &Kinds{plurals: map[string][]string{}, kinds: map[string][]schema.GroupResource{}}
	seen := map[schema.GroupResource]bool{}
	for _, s := range served {
		if strings.Contains(s.Resource, "/") {
			continue
		}
		gr := schema.GroupResource{Group: s.Group, Resource: s.Resource}
		if !seen[gr] {
			seen[gr] = true
			k.all = append(k.all, gr)
			k.plurals[gr.Resource] = append(k.plurals[gr.Resource], gr.Group)
		}
		if kind := strings.ToLower(s.Kind); kind != "" && !slices.Contains(k.kinds[kind], gr) {
			k.kinds[kind] = append(k.kinds[kind], gr)
		}
	}
	slices.SortFunc(k.all, compareGR)
	for _, groups := range k.plurals {
		slices.Sort(groups)
	}
	for _, grs := range k.kinds {
		slices.SortFunc(grs, compareGR)
	}
	return k
}

func compareGR(a, b schema.GroupResource) int {
	if c := strings.Compare(a.Group, b.Group); c != 0 {
		return c
	}
	return strings.Compare(a.Resource, b.Resource)
}

// Resources lists what is served, by group and plural.
func (k *Kinds) Resources() []schema.GroupResource {
	if k == nil {
		return nil
	}
	return slices.Clone(k.all)
}

// Resolve finds the served resources that an entry of resourceKinds names: by plural if one is served, else by kind. A
// wildcard or a subresource is not resolved.
func (k *Kinds) Resolve(entry string) []schema.GroupResource {
	p, err := parseKind(strings.TrimPrefix(entry, "-"))
	if err != nil || p.anyRes || k == nil {
		return nil
	}
	if groups := k.pluralIn(p.res, p.group, p.anyGroup); len(groups) > 0 {
		out := make([]schema.GroupResource, 0, len(groups))
		for _, g := range groups {
			out = append(out, schema.GroupResource{Group: g, Resource: p.res})
		}
		return out
	}
	return k.kindIn(p.res, p.group, p.anyGroup)
}

func (k *Kinds) pluralIn(name, group string, anyGroup bool) []string {
	if k == nil {
		return nil
	}
	groups := k.plurals[name]
	switch {
	case anyGroup:
		return groups
	case slices.Contains(groups, group):
		return []string{group}
	}
	return nil
}

func (k *Kinds) kindIn(name, group string, anyGroup bool) []schema.GroupResource {
	if k == nil {
		return nil
	}
	if anyGroup {
		return k.kinds[name]
	}
	var in []schema.GroupResource
	for _, gr := range k.kinds[name] {
		if gr.Group == group {
			in = append(in, gr)
		}
	}
	return in
}

// expand turns a pattern that names a resource into patterns on plurals. A name is a plural if one is served under it, so
// that nobody can make `secrets` mean more by serving a kind called Secrets; otherwise it is a kind. A name that is not
// served at all matches as a plural, and with guess also the plural that a kind of that name usually has: that closes the
// moment between a resource being served and the mapping knowing it, in rules where matching more is the safe side.
func (k *Kinds) expand(p kindPattern, guess bool) (patterns []kindPattern, served bool) {
	if p.anyRes {
		return []kindPattern{p}, true
	}
	patterns = []kindPattern{p}
	if len(k.pluralIn(p.res, p.group, p.anyGroup)) > 0 {
		return patterns, true
	}
	for _, gr := range k.kindIn(p.res, p.group, p.anyGroup) {
		q := p
		q.res, q.group, q.anyGroup = gr.Resource, gr.Group, false
		patterns, served = append(patterns, q), true
	}
	if guess && !served {
		plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: p.res})
		q := p
		q.res, q.guess = plural.Resource, p.res
		if !p.anyGroup {
			q.guess += "." + p.group
		}
		patterns = append(patterns, q)
	}
	return patterns, served
}

// changed lists the names that mean something else in next than in k.
func (k *Kinds) changed(next *Kinds) map[string]bool {
	names := map[string]bool{}
	note := func(a, b *Kinds) {
		if a == nil {
			return
		}
		for name := range a.plurals {
			if !slices.Equal(a.plurals[name], b.pluralIn(name, "", true)) {
				names[name] = true
			}
		}
		for name := range a.kinds {
			if !slices.Equal(a.kinds[name], b.kindIn(name, "", true)) {
				names[name] = true
			}
		}
	}
	note(k, next)
	note(next, k)
	return names
}
