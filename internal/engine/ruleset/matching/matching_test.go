package matching

import (
	"hash/maphash"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

var seed = maphash.MakeSeed()

// ask is a question as a rule sees it. Every part of it can be *.
func ask(verb, group, resource, sub string) *Request {
	q := &Request{}
	q.Set(seed, authorizer.AttributesRecord{Verb: verb, APIGroup: group, Resource: resource, Subresource: sub, ResourceRequest: true})
	return q
}

// written is a rule of Policy.
type written struct {
	verbs, kinds, groups []string
	deny                 bool
}

// table compiles a rule, among so many others about a resource of which nobody asks that it has to be searched for.
func (w written) table(t *testing.T, others int) *Table {
	t.Helper()
	r := &Rule{Deny: w.deny, Groups: w.groups}
	r.Verbs = PolicyVerbs(split(w.verbs))
	if w.deny {
		positive, negative, _ := split(w.verbs)
		r.Verbs = PolicyVerbs(positive, negative, true)
	}
	all := &Table{}
	add := func(p Pattern, r *Rule) {
		c := Cell{Pattern: &p, Rule: r}
		if !p.AnyRes {
			c.Hash = maphash.String(seed, p.Res)
		}
		if p.AnyRes {
			all.Wild = append(all.Wild, c)
			return
		}
		all.Cells = append(all.Cells, c)
	}
	for _, entry := range w.kinds {
		name, negated := strings.CutPrefix(entry, "-")
		p, err := ParseKind(name)
		switch {
		case err != nil:
			t.Fatal(err)
		case negated:
			r.Negs = append(r.Negs, p)
		default:
			add(p, r)
		}
	}
	for i := range others {
		add(Pattern{Res: "other" + string(rune('a'+i)), Group: "others"}, &Rule{Deny: w.deny, Verbs: PolicyVerbs([]string{"get"}, nil, w.deny)})
	}
	all.Sort()
	return all
}

func split(entries []string) (positive, negative []string, deny bool) {
	for _, e := range entries {
		if name, negated := strings.CutPrefix(e, "-"); negated {
			negative = append(negative, name)
		} else {
			positive = append(positive, e)
		}
	}
	return positive, negative, false
}

// What single requests are made of. None of it occurs in `others`.
var (
	verbs     = []string{"get", "create", "update", "delete", "use", "bind", "impersonate", "granular:set"}
	groups    = []string{"", "apps"}
	resources = []string{"pods", "deployments", "services"}
	subs      = []string{"", "exec", "proxy", "scale"}
)

// meant are the single requests that a question is about.
func meant(verb, group, resource, sub string) (all []*Request) {
	each := func(asked string, known []string) []string {
		if asked == "*" {
			return known
		}
		return []string{asked}
	}
	for _, v := range each(verb, verbs) {
		for _, g := range each(group, groups) {
			for _, r := range each(resource, resources) {
				for _, s := range each(sub, subs[1:]) {
					all = append(all, ask(v, g, r, s))
				}
			}
		}
	}
	return all
}

func orAll(list ...string) []string { return append(list, "*") }

// PO-9: a rule that allows is a yes to a question about several things only if it allows every one of them; a rule that
// denies one of them is a no to all. However many rules there are, the answers are the same.
func TestQuestionsAboutSeveralThings(t *testing.T) {
	yes, no := 0, 0
	for _, v := range [][]string{{"*"}, {"get"}, {"*", "-get"}, {"exec"}, {"proxy"}, {"create", "use"}, {"*", "bind", "escalate", "deny", "approve", "unsafe-delete-ignore-read-errors", "impersonate*", "granular:*", "reveal:*"}, {"granular:*"}} {
		for _, k := range [][]string{{"*"}, {"pods"}, {"pods/*"}, {"pods/exec"}, {"*/scale"}, {"*.apps"}, {"*", "-pods"}, {"pods", "deployments.apps"}, {"*/*", "*"}, {"services/proxy", "services"}} {
			for _, g := range [][]string{nil, {""}, {"apps"}, {"", "apps"}} {
				allow, deny := written{v, k, g, false}, written{v, k, g, true}
				few, many := allow.table(t, 0), allow.table(t, 3*LinearMax)
				denies, denyMany := deny.table(t, 0), deny.table(t, 3*LinearMax)
				for _, verb := range orAll(verbs...) {
					for _, group := range orAll(groups...) {
						for _, resource := range orAll(resources...) {
							for _, sub := range orAll(subs...) {
								q := ask(verb, group, resource, sub)
								got, _ := few.Match(q)
								if other, _ := many.Match(q); (got == nil) != (other == nil) {
									t.Fatalf("%v: %s %s/%s in %q depends on the number of rules", allow, verb, resource, sub, group)
								}
								denied, _ := denies.Match(q)
								if other, _ := denyMany.Match(q); denied != nil && other == nil {
									t.Fatalf("%v: %s %s/%s in %q is not denied among many rules", deny, verb, resource, sub, group)
								}
								for _, one := range meant(verb, group, resource, sub) {
									if r, _ := few.Match(one); got != nil && r == nil {
										t.Fatalf("%v allows %s %s/%s in %q, but not %s %s/%s in %q", allow, verb, resource, sub, group, one.Verb, one.Resource, one.Sub, one.Group)
									}
									if r, _ := denies.Match(one); denied == nil && r != nil {
										t.Fatalf("%v does not deny %s %s/%s in %q, but %s %s/%s in %q", deny, verb, resource, sub, group, one.Verb, one.Resource, one.Sub, one.Group)
									}
								}
								if !q.Wild {
									continue
								}
								if got != nil {
									yes++
								}
								if denied == nil {
									no++
								}
							}
						}
					}
				}
			}
		}
	}
	if yes < 500 || no < 500 {
		t.Errorf("%d questions about several things were answered with yes, %d without a deny: nothing is tested", yes, no)
	}
}

// Such a question is answered with yes where one rule says all of it, and a deny elsewhere leaves it alone.
func TestQuestionsThatARuleAnswers(t *testing.T) {
	everything := []string{"*", "bind", "escalate", "deny", "approve", "unsafe-delete-ignore-read-errors", "impersonate*", "granular:*", "reveal:*"}
	for _, c := range []struct {
		rule    written
		asked   *Request
		applies bool
	}{
		{written{verbs: []string{"get"}, kinds: []string{"*.apps"}}, ask("get", "apps", "*", ""), true},
		{written{verbs: []string{"get"}, kinds: []string{"*"}, groups: []string{"apps"}}, ask("get", "apps", "*", ""), true},
		{written{verbs: []string{"get"}, kinds: []string{"*"}, groups: []string{"apps"}}, ask("get", "*", "*", ""), false},
		{written{verbs: []string{"get"}, kinds: []string{"pods"}}, ask("get", "*", "pods", ""), true},
		{written{verbs: []string{"get"}, kinds: []string{"pods"}}, ask("get", "*", "pods", "*"), false},
		{written{verbs: []string{"get"}, kinds: []string{"*/scale"}}, ask("get", "*", "*", "scale"), true},
		{written{verbs: everything, kinds: []string{"*"}}, ask("*", "*", "*", ""), true},
		{written{verbs: []string{"*"}, kinds: []string{"*"}}, ask("*", "*", "*", ""), false},
		{written{verbs: []string{"*"}, kinds: []string{"pods/exec"}, deny: true}, ask("*", "*", "*", "*"), true},
		{written{verbs: []string{"*"}, kinds: []string{"pods/exec"}, deny: true}, ask("*", "*", "*", "scale"), false},
		{written{verbs: []string{"*"}, kinds: []string{"pods/exec"}, deny: true}, ask("*", "*", "*", "exec"), true},
		{written{verbs: []string{"*"}, kinds: []string{"pods/exec"}, deny: true}, ask("*", "*", "pods", ""), false},
		{written{verbs: []string{"*"}, kinds: []string{"deployments.apps"}, deny: true}, ask("get", "", "*", ""), false},
		{written{verbs: []string{"*"}, kinds: []string{"*"}, groups: []string{"apps"}, deny: true}, ask("*", "", "*", ""), false},
		{written{verbs: []string{"get"}, kinds: []string{"*", "-pods/scale"}}, ask("get", "", "pods", "scale"), false},
		{written{verbs: []string{"get"}, kinds: []string{"*", "-pods/scale"}}, ask("get", "", "pods", "status"), true},
		{written{verbs: []string{"get"}, kinds: []string{"*", "-pods/scale"}}, ask("get", "", "pods", ""), true},
		{written{verbs: []string{"get"}, kinds: []string{"*", "-pods/*"}}, ask("get", "", "pods", "status"), false},
		{written{verbs: []string{"get"}, kinds: []string{"*", "-pods/*"}}, ask("get", "", "pods", ""), true},
		{written{verbs: []string{"get"}, kinds: []string{"*", "-pods"}}, ask("get", "", "pods", "status"), false},
	} {
		if r, _ := c.rule.table(t, 0).Match(c.asked); (r != nil) != c.applies {
			t.Errorf("%+v, asked for %s %s/%s in %q: %v, want %v", c.rule, c.asked.Verb, c.asked.Resource, c.asked.Sub, c.asked.Group, r != nil, c.applies)
		}
	}
}

// A review can ask for the resource "pods/exec", or for pods and the subresource exec.
func TestSubresourceWithinTheResource(t *testing.T) {
	joined := ask("create", "", "pods/exec", "")
	apart := ask("create", "", "pods", "exec")
	joined.RawSub = apart.RawSub // RBAC alone compares it as it was asked for
	if *joined != *apart {
		t.Errorf("%+v\n%+v", joined, apart)
	}
	if q := ask("get", "", "a/b", "c"); q.Resource != "a" || q.Sub != "b/c" || !q.HasSub {
		t.Errorf("%+v", q)
	}
}

// PO-18: the inverse index leaves out no rule that could apply, and lists a rule of plain verbs under those alone.
func TestBitsCoverWhatMatches(t *testing.T) {
	sets := [][]string{{"*"}, {"get"}, {"exec"}, {"proxy"}, {"use"}, {"impersonate*"}, {"granular:*"}, {"*", "-get"}, {"bind", "update"}}
	for _, set := range sets {
		for _, deny := range []bool{false, true} {
			positive, negative, _ := split(set)
			v := PolicyVerbs(positive, negative, deny)
			for _, verb := range verbs {
				for _, resource := range resources {
					for _, sub := range subs {
						if q := ask(verb, "", resource, sub); (v.Matches(q) || v.MatchesParent(q)) && v.Bits()&q.Bits() == 0 {
							t.Errorf("%v (deny %v) matches %s %s/%s, of which its bits %b know nothing", set, deny, verb, resource, sub, v.Bits())
						}
					}
				}
			}
		}
	}
	for verb, want := range map[string]VerbBit{"get": bitGet, "update": bitUpdate | bitPatch, "delete": BitDelete | BitDeleteCollection, "use": bitOther, "granular:*": bitOther} {
		if v := PolicyVerbs([]string{verb}, nil, false); v.Bits() != want {
			t.Errorf("%s: %b, want %b", verb, v.Bits(), want)
		}
	}
	if v := (&VerbSet{starSpecial: true}); v.Bits() != bitOther {
		t.Errorf("a star for special verbs: %b", v.Bits())
	}
	if v := (&VerbSet{Proxy: true}); v.Bits() != bitOther {
		t.Errorf("proxy: %b", v.Bits())
	}
}

// PO-20: a deny of delete reaches an eviction, whatever else is denied; one that yields hides none that does not.
func TestDeniesOfEvictions(t *testing.T) {
	evict := ask("create", "", "pods", SubEviction)
	rule := func(verb, kind string, soft bool) *Table {
		all := written{verbs: []string{verb}, kinds: []string{kind}, deny: true}.table(t, 0)
		all.Cells[0].Rule.Soft = soft
		return all
	}
	both := func(a, b *Table) *Table {
		all := &Table{Cells: slices.Concat(a.Cells, b.Cells)}
		all.Sort()
		return all
	}
	hard, softEviction := rule("delete", "pods", false), rule("create", "pods/eviction", true)
	for _, c := range []struct {
		name  string
		table *Table
		want  *Rule
	}{
		{"a deny of delete", hard, hard.Cells[0].Rule},
		{"a deny of get", rule("get", "pods", false), nil},
		{"one that yields, and one that does not", both(softEviction, hard), hard.Cells[0].Rule},
		{"one that yields", softEviction, softEviction.Cells[0].Rule},
	} {
		before := *evict
		if got, _ := c.table.Denies(evict); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		if *evict != before {
			t.Errorf("%s: the request is another one afterwards: %+v", c.name, evict)
		}
	}
	conditional := rule("delete", "pods", false)
	conditional.Cells[0].Rule.Cond = never{}
	if got, open := conditional.Denies(evict); got != nil || !open {
		t.Errorf("a deny of delete under a condition: %+v, open %v", got, open)
	}
}

// PO-20: a deny rule with names holds for the object of a proxy request, however that is spelled, and may hold where
// the request has no name; an allow rule means only what it says.
func TestNamesOfRules(t *testing.T) {
	for _, c := range []struct {
		names                []string
		verb, resource, sub  string
		name                 string
		allows, denies, open bool
	}{
		{[]string{"web"}, "get", "services", "", "web", true, true, false},
		{[]string{"web"}, "get", "services", "", "other", false, false, false},
		{[]string{"web"}, "get", "services", "", "https:web:443", false, false, false},
		{[]string{"web"}, "get", "services", "", "", false, false, true},
		{[]string{"web"}, "get", "services", "proxy", "https:web:443", false, true, false},
		{[]string{"https:web:443"}, "get", "services", "proxy", "web", false, true, false},
		{[]string{"https:web:443"}, "get", "services", "proxy", "https:web:443", true, true, false},
		{[]string{"web"}, "get", "services", "proxy", "https:other:443", false, false, false},
		{[]string{"web"}, "*", "services", "", "https:web:443", false, true, false},
	} {
		for _, deny := range []bool{false, true} {
			all := written{verbs: []string{"*", "bind", "escalate", "deny", "approve", "unsafe-delete-ignore-read-errors", "impersonate*", "granular:*", "reveal:*"}, kinds: []string{"services", "services/*"}, deny: deny}.table(t, 0)
			for i := range all.Cells {
				all.Cells[i].Rule.Names = c.names
			}
			q := &Request{}
			q.Set(seed, authorizer.AttributesRecord{Verb: c.verb, Resource: c.resource, Subresource: c.sub, Name: c.name, ResourceRequest: true})
			r, open := all.Match(q)
			if want := deny && c.denies || !deny && c.allows; (r != nil) != want || open != (deny && c.open) {
				t.Errorf("names %v, deny %v: %s %s/%s %q: %v, open %v", c.names, deny, c.verb, c.resource, c.sub, c.name, r != nil, open)
			}
		}
	}
}

// PO-2: paths are matched as RBAC does it, and a question about all verbs of one is answered by all, or by any deny.
func TestPaths(t *testing.T) {
	for _, c := range []struct {
		verbs, paths []string
		deny         bool
		verb, path   string
		matches      bool
	}{
		{[]string{"get"}, []string{"/healthz"}, false, "get", "/healthz", true},
		{[]string{"get"}, []string{"/healthz"}, false, "get", "/healthz/etcd", false},
		{[]string{"get"}, []string{"/healthz*"}, false, "get", "/healthz/etcd", true},
		{[]string{"get"}, []string{"/healthz**"}, false, "get", "/livez", false},
		{[]string{"get"}, []string{"*"}, false, "get", "/anything", true},
		{[]string{"get"}, []string{"*"}, false, "post", "/anything", false},
		{[]string{"get"}, []string{"*"}, false, "*", "/anything", false},
		{[]string{"*"}, []string{"*"}, false, "*", "/anything", true},
		{[]string{"get"}, []string{"*"}, true, "*", "/anything", true},
		{[]string{"get"}, []string{"*"}, true, "post", "/anything", false},
	} {
		r := &Rule{Deny: c.deny, Verbs: PolicyVerbs(c.verbs, nil, c.deny)}
		r.URLs, r.Prefixes = SplitURLs(c.paths)
		q := &Request{}
		q.Set(seed, authorizer.AttributesRecord{Verb: c.verb, Path: c.path})
		all := Table{URLs: []*Rule{r}}
		if got, _ := all.Match(q); (got != nil) != c.matches {
			t.Errorf("%v %v, deny %v: %s %s: %v", c.verbs, c.paths, c.deny, c.verb, c.path, got != nil)
		}
		r.Cond = never{}
		if got, open := all.Match(q); got != nil || open != c.matches {
			t.Errorf("%v %v under a condition: %s %s: %v, open %v", c.verbs, c.paths, c.verb, c.path, got != nil, open)
		}
	}
}

type never struct{}

func (never) RuleCondition() {}

// PO-9: what stands for nothing is refused, and says what to write.
func TestKindsThatCannotBeRead(t *testing.T) {
	for entry, want := range map[string]string{
		"": "has no name", ".apps": "has no name", "--pods": "more than one sign", "po*": "whole name", "pods.ap*": "whole name", "pods/": "after the /",
		"pods/ex*": "after the /", "pods/*c": "after the /",
	} {
		if _, err := ParseKind(strings.TrimPrefix(entry, "-")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", entry, err, want)
		}
	}
	for entry, want := range map[string]Pattern{
		"*": {AnyRes: true, AnyGroup: true, Mode: SubAll}, "Pods": {Res: "pods", AnyGroup: true}, "pods.": {Res: "pods"}, "pods/*": {Res: "pods", AnyGroup: true, Mode: SubAny},
		"*/scale": {AnyRes: true, AnyGroup: true, Mode: SubExact, Sub: "scale"}, "deployments.apps/scale": {Res: "deployments", Group: "apps", Mode: SubExact, Sub: "scale"},
		"*.apps": {AnyRes: true, Group: "apps", Mode: SubAll},
	} {
		got, err := ParseKind(entry)
		if err != nil || got.NotIn != nil {
			t.Errorf("%q: %+v %v", entry, got, err)
		}
		if got.NotIn = nil; got.Res != want.Res || got.Group != want.Group || got.Sub != want.Sub || got.Mode != want.Mode || got.AnyRes != want.AnyRes || got.AnyGroup != want.AnyGroup {
			t.Errorf("%q: %+v, want %+v", entry, got, want)
		}
	}
}
