package ruleset

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// schedule is a policy with bindings that begin and end, and the same as a model that knows nothing of the index.
type schedule struct {
	r    *rand.Rand
	held map[string]entry // by namespace and name
}

type entry struct {
	namespace, name, role string
	user                  string
	span                  Span
}

const (
	allowRole, denyRole, clusterRoleName = "allow", "deny", "view"
	horizon                              = 12
)

func (s *schedule) draw() {
	e := entry{namespace: []string{"master", "a", "b"}[s.r.IntN(3)], name: fmt.Sprint("e", s.r.IntN(5)), user: []string{"u", "v"}[s.r.IntN(2)],
		role: []string{allowRole, denyRole, clusterRoleName}[s.r.IntN(3)], span: always}
	if s.r.IntN(4) > 0 {
		e.span.From = s.r.Int64N(horizon)
	}
	if s.r.IntN(4) > 0 {
		e.span.Until = max(e.span.From, 0) + 1 + s.r.Int64N(horizon/2)
	}
	key := e.namespace + "/" + e.name
	if s.r.IntN(5) == 0 {
		delete(s.held, key)
		return
	}
	s.held[key] = e
}

// containers are the bindings as they are stored; keep says which, and whether with their span.
func (s *schedule) containers(keep func(entry) (there, timed bool)) (out []*policyv1alpha1.PolicyBinding) {
	for _, ns := range []string{"master", "a", "b"} {
		c := &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "master"}, PolicyRef: policyv1alpha1.PolicyReference{Namespace: "master"}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{}}
		for _, e := range s.held {
			there, timed := keep(e)
			if e.namespace != ns || !there {
				continue
			}
			b := policyv1alpha1.PolicyRoleBinding{RoleName: e.role, UserNames: []string{e.user}}
			if e.role == clusterRoleName {
				b.RoleRef = &policyv1alpha1.PolicyRoleReference{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: e.role}
			}
			if timed && e.span.From != always.From {
				b.NotBefore = &metav1.Time{Time: time.Unix(e.span.From, 0)}
			}
			if timed && e.span.Until != always.Until {
				b.NotAfter = &metav1.Time{Time: time.Unix(e.span.Until, 0)}
			}
			c.RoleBindings[e.name] = b
		}
		out = append(out, c)
	}
	return out
}

func (s *schedule) input(keep func(entry) (there, timed bool)) Input {
	return Input{MasterNamespace: "master", PolicyBindings: s.containers(keep),
		Policies: []*policyv1alpha1.Policy{{ObjectMeta: metav1.ObjectMeta{Namespace: "master", Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{
			allowRole: {Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"get"}, ResourceKinds: []string{"pods"}}}},
			denyRole:  {Rules: []policyv1alpha1.PolicyRule{{Deny: true, Verbs: []string{"get"}, ResourceKinds: []string{"pods"}}}},
		}}},
		ClusterRoles: []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: clusterRoleName}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}}},
		Kinds:        NewKinds([]Served{{Resource: "pods", Kind: "Pod", Builtin: true}})}
}

func all(entry) (bool, bool) { return true, true }

// answers are what the index says to every question that there is here.
func answers(ix *Index) string {
	var out string
	for _, who := range []string{"u", "v"} {
		for _, ns := range []string{"", "a", "b"} {
			s := ix.Decide(authorizer.AttributesRecord{User: &user.DefaultInfo{Name: who}, Verb: "get", Namespace: ns, APIVersion: "v1", Resource: "pods", ResourceRequest: true})
			out += fmt.Sprintf("%s in %q: %d; ", who, ns, s.Certainty)
		}
	}
	return out
}

// TM-1: whichever way an index came to a moment, by changes of policy and by jumps of the clock in both
// directions, it says what an index says that is built of exactly the bindings that count then.
func TestIndexAtEveryInstant(t *testing.T) {
	rounds := 400
	if testing.Short() {
		rounds = 40
	}
	for seed := range rounds {
		s := &schedule{r: rand.New(rand.NewPCG(uint64(seed), 1)), held: map[string]entry{}}
		ix := Build(s.input(all))
		for range 25 {
			switch s.r.IntN(5) {
			case 0:
				s.draw()
				s.draw()
				var changes []Change
				for _, c := range s.containers(all) {
					changes = append(changes, Put(c))
				}
				ix = ix.Apply(changes...)
			case 1:
				ix = ix.Unknown()
			case 2:
				ix = ix.Throughout(Span{s.r.Int64N(horizon), horizon + s.r.Int64N(horizon)})
			default:
				ix = ix.At(time.Unix(s.r.Int64N(horizon*2), s.r.Int64N(1e9)))
			}
			check := func(name string, got *Index, keep func(entry) counting) {
				t.Helper()
				want := Build(s.input(func(e entry) (bool, bool) {
					c := keep(e)
					return c == fully || c == denying && e.role == denyRole, false
				}))
				if g, w := answers(got), answers(want); g != w {
					t.Fatalf("seed %d, %s:\n got %s\nwant %s\n%v", seed, name, g, w, s.held)
				}
			}
			at := time.Unix(s.r.Int64N(horizon*2), 0)
			now := ix.At(at)
			check(fmt.Sprint("at ", at.Unix()), now, func(e entry) counting {
				if e.span.From <= at.Unix() && at.Unix() < e.span.Until {
					return fully
				}
				return never
			})
			if edge, found := now.Until(); found {
				if before := edge.Add(-time.Nanosecond); !now.HoldsAt(before) || now.HoldsAt(edge) || answers(now.At(before)) != answers(now) {
					t.Fatalf("seed %d: the index of %v should hold until %v", seed, at.Unix(), edge.Unix())
				}
			}
			check("unknown", ix.Unknown(), func(e entry) counting {
				if e.span == always {
					return fully
				}
				return denying
			})
			span := Span{s.r.Int64N(horizon), always.Until}
			if s.r.IntN(2) == 0 {
				span.Until = span.From + 1 + s.r.Int64N(horizon)
			}
			check(fmt.Sprint("throughout ", span), ix.Throughout(span), func(e entry) counting {
				whole, some := true, false
				for at := int64(0); at < 3*horizon; at++ {
					if at < span.From || at >= span.Until {
						continue
					}
					counts := e.span.From <= at && at < e.span.Until
					whole, some = whole && counts, some || counts
				}
				switch {
				case whole:
					return fully
				case some:
					return denying
				}
				return never
			})
		}
	}
}

// TM-1: a policy in which nothing begins or ends is the same index at every instant, and nothing is made for it.
func TestTimeCostsNothingWhereItIsNotUsed(t *testing.T) {
	s := &schedule{r: rand.New(rand.NewPCG(1, 1)), held: map[string]entry{"a/e": {namespace: "a", name: "e", role: allowRole, user: "u", span: always}}}
	ix := Build(s.input(all))
	for range 3 {
		if ix.At(time.Unix(s.r.Int64N(horizon), 0)) != ix || ix.Throughout(Span{1, 2}) != ix || ix.Unknown() != ix {
			t.Fatal("another index")
		}
	}
	if n := testing.AllocsPerRun(100, func() { ix.At(time.Unix(7, 0)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if _, found := ix.Until(); found || len(ix.Edges(nil)) != 0 {
		t.Error("edges without bindings that begin or end")
	}
}

// TM-1: a role of RBAC that is bound by Policy means what RBAC means by it, in its namespace or everywhere, and one
// that does not exist grants nothing and is reported.
func TestClusterRoleBoundByPolicy(t *testing.T) {
	s := &schedule{held: map[string]entry{
		"a/e":      {namespace: "a", name: "e", role: clusterRoleName, user: "u", span: always},
		"master/e": {namespace: "master", name: "e", role: clusterRoleName, user: "v", span: always},
	}}
	in := s.input(all)
	ix := Build(in)
	if got, want := answers(ix), `u in "": 0; u in "a": 2; u in "b": 0; v in "": 2; v in "a": 2; v in "b": 2; `; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	get := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "u"}, Verb: "get", Namespace: "a", APIVersion: "v1", Resource: "pods", ResourceRequest: true}
	if got, want := ix.Decide(get).Allow.Reason(), `Policy: allowed by RoleBinding "a/e" of ClusterRole "view" to User "u"`; got != want {
		t.Errorf("reason %s, want %s", got, want)
	}
	if rules := ix.PolicyRulesFor(&user.DefaultInfo{Name: "u"}, "a"); len(rules.Resources) != 1 || rules.Resources[0].GetResources()[0] != "pods" {
		t.Errorf("rules: %+v", rules)
	}
	gone := ix.Apply(Delete(in.ClusterRoles[0]))
	if problems := gone.Problems(); gone.Decide(get).Certainty != Never || len(problems) != 2 {
		t.Errorf("without the role: %+v, %v", gone.Decide(get), problems)
	}
}
