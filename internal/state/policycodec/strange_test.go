package policycodec

import (
	"encoding/json"
	"errors"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/test/law"
	"proviso.dev/proviso/test/refmodel"
)

// PO-25: whatever is renamed, wrapped or added in a stored container, at whatever level, no deny is lost to a caller
// without a cluster-wide grant, and nothing is granted that was not. The decisions of the container as it was come from
// the reference model, which enumerates.
func TestLawUnknownFieldsLoseNoDeny(t *testing.T) {
	denials, byWay := 0, map[string]int{}
	law.Rounds(t, 800, func(seed int64) int {
		n, way := unknownFieldsLoseNoDeny(t, seed, rand.New(rand.NewSource(seed)).Intn)
		denials += n
		byWay[way] += n
		return 60
	})
	if denials < 200 || len(byWay) < len(ways) {
		law.TooFew(t, "%d denials, %v", denials, byWay)
	}
}

func FuzzUnknownFieldsLoseNoDeny(f *testing.F) {
	law.Fuzz(f, func(t *testing.T, pick func(int) int) { unknownFieldsLoseNoDeny(t, 0, pick) })
}

func unknownFieldsLoseNoDeny(t *testing.T, seed int64, pick refmodel.Pick) (denials int, way string) {
	w := pick.World()
	for _, p := range w.Policies {
		for _, role := range p.Roles {
			for i := range role.Rules {
				if rule := &role.Rules[i]; len(rule.ResourceKinds) > 0 { // no valid rule has both
					rule.NonResourceURLs = nil
				}
			}
		}
	}
	strange := *w
	strange.Policies, strange.PolicyBindings = slices.Clone(w.Policies), slices.Clone(w.PolicyBindings)
	way = slices.Sorted(maps.Keys(ways))[pick(len(ways))]
	var text string
	if n := pick(len(w.Policies) + len(w.PolicyBindings)); n < len(w.Policies) {
		p := w.Policies[n]
		text = bend(t, p, pick, way)
		strange.Policies[n] = readBack(t, "Policy", p.Namespace, p.Name, text, &policy.Policy{})
	} else {
		n -= len(w.Policies)
		b := w.PolicyBindings[n]
		text = bend(t, b, pick, way)
		strange.PolicyBindings[n] = readBack(t, "PolicyBinding", b.Namespace, b.Name, text, &policy.PolicyBinding{})
	}
	ix := indexOf(&strange)
	for range 60 {
		r := pick.Request()
		// A server knows every caller as one of these.
		r.User = &user.DefaultInfo{Name: r.User.GetName(), Groups: append(slices.Clone(r.User.GetGroups()), user.AllAuthenticated)}
		want, ok := w.Decide(r)
		if !ok || ix.ClusterGrant(r).Found() || ix.PolicyMaster(r).Allow.Found() {
			continue
		}
		got, hits := ix.Decide(r), w.Hits(r)
		if int(got.Certainty) > int(want) {
			t.Fatalf("seed %d: %s: %+v: %v, was %v\n%s", seed, way, r, got.Certainty, want, text)
		}
		denies := func(hits []refmodel.Hit) bool {
			return slices.ContainsFunc(hits, func(h refmodel.Hit) bool { return h.Deny })
		}
		master, local := ix.PolicyMaster(r), ix.PolicyNamespace(r)
		if denies(hits.Master) {
			denials++
			if !master.Denies() {
				t.Fatalf("seed %d: %s: %+v: the deny of the master namespace is lost\n%s", seed, way, r, text)
			}
		}
		if denies(hits.Local) {
			denials++
			if !local.Denies() && !master.Deny.Found() {
				t.Fatalf("seed %d: %s: %+v: the deny of the namespace is lost\n%s", seed, way, r, text)
			}
		}
	}
	return denials, way
}

func indexOf(w *refmodel.World) *ruleset.Index {
	var served []matching.Served
	for _, r := range w.Served {
		served = append(served, matching.Served{Group: r.Group, Resource: r.Plural, Kind: r.Kind, Builtin: r.Builtin()})
	}
	return ruleset.Build(ruleset.Input{MasterNamespace: w.Master, Kinds: matching.NewKinds(served),
		CompileRule: func(_ ruleset.RoleRef, _ int, r *policy.PolicyRule) (matching.Condition, error) {
			if strings.Contains(r.When, refmodel.Broken) {
				return nil, errors.New("when: syntax error")
			}
			return condition(r.Where + "|" + r.When), nil
		},
		Policies: w.Policies, PolicyBindings: w.PolicyBindings, Roles: w.Roles, ClusterRoles: w.ClusterRoles,
		RoleBindings: w.RoleBindings, ClusterRoleBindings: w.ClusterRoleBindings})
}

// condition is one that is only compared.
type condition string

func (condition) RuleCondition() {}

// spot is a value in a stored object, with the object or list that holds it.
type spot struct {
	in    map[string]any // nil for an element of a list
	key   string
	list  []any
	index int
	// entry says that the key is a name that somebody chose, not a field.
	entry bool
}

func (p spot) value() any {
	if p.in != nil {
		return p.in[p.key]
	}
	return p.list[p.index]
}

func (p spot) set(v any) {
	if p.in != nil {
		p.in[p.key] = v
	} else {
		p.list[p.index] = v
	}
}

// ways are what is done to a place.
var ways = map[string]func(p spot, other string) bool{
	"rename": func(p spot, other string) bool {
		if p.in == nil || p.entry {
			return false
		}
		p.in[other] = p.in[p.key]
		delete(p.in, p.key)
		return true
	},
	"wrap": func(p spot, other string) bool {
		p.set(map[string]any{other: p.value()})
		return true
	},
	"move below a new field": func(p spot, other string) bool {
		if p.in == nil || p.entry {
			return false
		}
		p.in[other] = map[string]any{p.key: p.in[p.key]}
		delete(p.in, p.key)
		return true
	},
	"into a list": func(p spot, other string) bool {
		p.set([]any{map[string]any{other: p.value()}})
		return true
	},
	"add": func(p spot, other string) bool {
		if p.in == nil || p.entry {
			return false
		}
		p.in[other] = []any{"x"}
		return true
	},
}

// bend changes the stored form of an object in one place.
func bend(t *testing.T, obj runtime.Object, pick refmodel.Pick, way string) string {
	t.Helper()
	data, err := runtime.Encode(StorageCodec(), obj)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(data, &tree); err != nil {
		t.Fatal(err)
	}
	names := []string{"spec", "effect", "subjects", "items", "Deny", "later"}
	for range 100 {
		all := placesIn(tree, false, 1+pick(1+pick(6)), nil) // far up there are few places, and much depends on them
		if ways[way](all[pick(len(all))], names[pick(len(names))]) {
			break
		}
	}
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// placesIn lists the values of a tree down to a depth, in a stable order.
func placesIn(v any, entries bool, depth int, all []spot) []spot {
	if depth == 0 {
		return all
	}
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			all = append(all, spot{in: v, key: key, entry: entries})
			named := !entries && slices.Contains([]string{"roles", "roleBindings", "labels", "annotations"}, key)
			all = placesIn(v[key], named, depth-1, all)
		}
	case []any:
		for i := range v {
			all = append(all, spot{list: v, index: i})
			all = placesIn(v[i], false, depth-1, all)
		}
	}
	return all
}
