package policyreview

import (
	"context"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/test/law"
	"proviso.dev/proviso/test/refmodel"
)

// SV-6: a trace says what is decided, on random policies: the answer is the one that the chain decides, exactly the
// links behind the one that decided are not asked, and a tier that decided shows a rule that is in force.
func TestTraceIsTheDecision(t *testing.T) {
	h := newHouse(t)
	seen := map[authz.TracedAnswer]int{}
	each(t, h, 60, func(ctx context.Context, _ *refmodel.World, q asked, s ruleset.Subject, o *runtime.RawExtension) {
		status := h.can(t, ctx, q.namespace, q.spec(s, o))
		trace := status.Trace
		seen[trace.Decision]++
		if status.Allowed != (trace.Decision == authz.AnswerAllow) || o != nil && trace.Decision == authz.AnswerConditional {
			t.Fatalf("%s %+v: allowed is %v, and the trace says %v", s, q, status.Allowed, trace.Decision)
		}
		decided := false
		for _, a := range trace.Authorizers {
			if decided != (a.Answer == authz.AnswerNotAsked) {
				t.Fatalf("%s %+v: %s answers %s, decided before: %v", s, q, a.Name, a.Answer, decided)
			}
			decided = decided || a.Answer == authz.AnswerAllow || a.Answer == authz.AnswerDeny
			deciders := slices.DeleteFunc(slices.Clone(a.Rules), func(r authz.RuleTrace) bool { return !r.Decides })
			switch a.Answer {
			case authz.AnswerAllow, authz.AnswerDeny:
				if len(deciders) != 1 || string(deciders[0].Effect) != string(a.Answer) || deciders[0].Yields {
					t.Fatalf("%s %+v: %s answers %s through %+v", s, q, a.Name, a.Answer, deciders)
				}
			default:
				if len(deciders) > 0 {
					t.Fatalf("%s %+v: %s answers %s and yet rules decide: %+v", s, q, a.Name, a.Answer, deciders)
				}
			}
			for _, r := range a.Rules {
				requireOwn(t, s, r)
			}
		}
	})
	for _, a := range []authz.TracedAnswer{authz.AnswerAllow, authz.AnswerDeny, authz.AnswerNoOpinion, authz.AnswerConditional} {
		if seen[a] < 10 {
			law.TooFew(t, "answers %v: too few to prove anything", seen)
		}
	}
}

// requireOwn: a trace shows rules that the subject is bound to, and nobody else's.
func requireOwn(t *testing.T, s ruleset.Subject, r authz.RuleTrace) {
	t.Helper()
	for _, mine := range []ruleset.Subject{s, {Group: true, Name: "system:authenticated"}} {
		if r.Subject == subjectOf(mine) {
			return
		}
	}
	t.Fatalf("the trace for %s shows a rule of %+v", s, r.Subject)
}

// each visits random questions: every subject of a world, with and without objects.
func each(t *testing.T, h *house, worlds int, visit func(context.Context, *refmodel.World, asked, ruleset.Subject, *runtime.RawExtension)) {
	t.Helper()
	law.Rounds(t, worlds, func(seed int64) (cases int) {
		defer func() {
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		}()
		w, pick := world(seed)
		ctx := h.in(w)
		for range 4 {
			q := ask(pick)
			for _, s := range subjects(w) {
				visit(ctx, w, q, s, nil)
				cases++
				if q.writes() {
					objects := q.objects()
					visit(ctx, w, q, s, objects[pick(len(objects))])
					cases++
				}
			}
		}
		return cases
	})
}

// SV-6: the remedy of a refusal works, on random policies: with the deny rules gone and the grant applied the same
// request is allowed. It is the smallest: the deny rules alone are not enough if there is a grant, nor is the grant
// alone if there are deny rules; and the grant of RBAC gives nobody else anything, and the subject nothing but what was
// asked.
func TestRemedyFlipsTheDecision(t *testing.T) {
	for _, chain := range []string{"Policy and RBAC", "Policy alone"} {
		t.Run(chain, func(t *testing.T) {
			h := newHouse(t)
			if chain == "Policy alone" {
				if err := h.Gate.Chain.Replace(h.Gate.Chain.Links()[:3]...); err != nil {
					t.Fatal(err)
				}
			}
			removed, granted := 0, 0
			each(t, h, 9, func(ctx context.Context, w *refmodel.World, q asked, s ruleset.Subject, o *runtime.RawExtension) {
				spec := q.spec(s, o)
				before := h.can(t, ctx, q.namespace, spec)
				remedy := before.Trace.Remedy
				if before.Allowed {
					return
				}
				open := strings.Contains(remedy.Note, "conditions that deny")
				freed := without(w, remedy.Remove)
				if len(remedy.Remove) > 0 {
					removed++
				}
				if remedy.Grant != "" {
					granted++
					if h.can(t, h.in(freed), q.namespace, spec).Allowed {
						t.Fatalf("%s %+v: allowed without the grant\n%+v", s, q, remedy)
					}
				}
				cured := with(t, freed, remedy.Grant)
				after := h.can(t, h.in(cured), q.namespace, spec)
				if !after.Allowed && !(open && after.Trace.Decision == authz.AnswerConditional) {
					t.Fatalf("%s %+v: still refused: %s\n%+v\n%+v", s, q, after.DenyReason, remedy, after.Trace)
				}
				if len(remedy.Remove) > 0 && h.can(t, h.in(with(t, w, remedy.Grant)), q.namespace, spec).Allowed && q.namespace != "" {
					t.Fatalf("%s %+v: allowed although the deny rules stay\n%+v", s, q, remedy)
				}
				if remedy.Grant != "" && chain != "Policy alone" {
					requireNoMore(t, h, freed, cured, q, s)
				}
			})
			if removed < 5 || granted < 100 {
				law.TooFew(t, "%d with deny rules and %d with a grant: too few to prove anything", removed, granted)
			}
		})
	}
}

// requireNoMore: what the cure allows in addition is what was asked.
func requireNoMore(t *testing.T, h *house, freed, cured *refmodel.World, q asked, s ruleset.Subject) {
	t.Helper()
	before, after := h.in(freed), h.in(cured)
	others := []asked{q, q, q, q}
	others[0].verb = map[string]string{"update": "patch", "patch": "update", "delete": "deletecollection", "get": "list"}[q.verb]
	others[1].kind = "nodes"
	others[2].namespace = "elsewhere"
	others[3].name = "some-other"
	for i, other := range others {
		if other.verb == "" || i == 2 && q.namespace == "" || i == 3 && q.name == "" {
			continue
		}
		if h.can(t, after, other.namespace, other.spec(s, nil)).Allowed && !h.can(t, before, other.namespace, other.spec(s, nil)).Allowed {
			t.Fatalf("%s %+v: the grant also allows %+v", s, q, other)
		}
	}
	stranger := ruleset.Subject{Name: "stranger"}
	if s.Name != "system:authenticated" && h.can(t, after, q.namespace, q.spec(stranger, nil)).Allowed && !h.can(t, before, q.namespace, q.spec(stranger, nil)).Allowed {
		t.Fatalf("%s %+v: the grant also allows a stranger", s, q)
	}
}

// without is the world in which some deny rules match nothing.
func without(w *refmodel.World, rules []authz.RuleTrace) *refmodel.World {
	next := *w
	next.Policies = nil
	for _, p := range w.Policies {
		p = p.DeepCopy()
		for _, r := range rules {
			if r.Role.Namespace == p.Namespace {
				p.Roles[r.Role.Name].Rules[r.RuleIndex] = policyv1alpha1.PolicyRule{Verbs: []string{"nothing"}, ResourceKinds: []string{"nothing"}}
			}
		}
		next.Policies = append(next.Policies, p)
	}
	return &next
}

// with is the world in which a grant has been applied.
func with(t *testing.T, w *refmodel.World, grant string) *refmodel.World {
	t.Helper()
	next := *w
	if grant == "" {
		return &next
	}
	role, binding, ok := strings.Cut(grant, "---\n")
	if !ok {
		t.Fatalf("not two documents:\n%s", grant)
	}
	read := func(text string, into any) {
		if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
	}
	switch {
	case strings.Contains(role, "apiVersion: "+authz.GroupName):
		var r authz.Role
		var b authz.RoleBinding
		read(role, &r)
		read(binding, &b)
		next.Policies = replaced(next.Policies, func(p *policyv1alpha1.Policy) bool { return p.Namespace == r.Namespace },
			&policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: policyv1alpha1.PolicyName}, Roles: map[string]policyv1alpha1.PolicyRole{}},
			func(p *policyv1alpha1.Policy) { p.Roles[r.Name] = policyv1alpha1.PolicyRole{Rules: r.Rules} })
		next.PolicyBindings = replaced(next.PolicyBindings, func(c *policyv1alpha1.PolicyBinding) bool {
			return c.Namespace == b.Namespace && c.Name == b.RoleRef.Namespace
		},
			&policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: b.RoleRef.Namespace}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{}},
			func(c *policyv1alpha1.PolicyBinding) {
				c.RoleBindings[b.Name] = policyv1alpha1.PolicyRoleBinding{RoleName: b.RoleRef.Name, UserNames: b.UserNames, GroupNames: b.GroupNames}
			})
	case strings.Contains(role, "kind: ClusterRole\n"):
		var r rbacv1.ClusterRole
		var b rbacv1.ClusterRoleBinding
		read(role, &r)
		read(binding, &b)
		next.ClusterRoles = append(slices.Clone(next.ClusterRoles), &r)
		next.ClusterRoleBindings = append(slices.Clone(next.ClusterRoleBindings), &b)
	default:
		var r rbacv1.Role
		var b rbacv1.RoleBinding
		read(role, &r)
		read(binding, &b)
		next.Roles = append(slices.Clone(next.Roles), &r)
		next.RoleBindings = append(slices.Clone(next.RoleBindings), &b)
	}
	return &next
}

// replaced is the list with a changed copy of the element that is meant, or of a new one.
func replaced[T interface{ DeepCopy() T }](list []T, is func(T) bool, fresh T, change func(T)) []T {
	list = slices.Clone(list)
	i := slices.IndexFunc(list, is)
	if i < 0 {
		list, i = append(list, fresh), len(list)
	}
	list[i] = list[i].DeepCopy()
	change(list[i])
	return list
}

// SV-6: what an authorizer refuses that has no rules, no grant changes.
func TestRemedySaysWhenNothingHelps(t *testing.T) {
	h := newHouse(t)
	links := append([]authorize.Link{{Name: "gatekeeper", Authorizer: refuser{}}}, h.Gate.Chain.Links()...)
	if err := h.Gate.Chain.Replace(links...); err != nil {
		t.Fatal(err)
	}
	status := h.can(t, h.in(&refmodel.World{Master: master}), "hammer", authz.SubjectAccessReviewSpec{Verb: "get", ResourceKind: "pods", UserName: "edgar", Trace: true})
	if r := status.Trace.Remedy; r == nil || r.Grant != "" || !strings.Contains(r.Note, "gatekeeper") || status.Trace.DecidedBy != "gatekeeper" {
		t.Errorf("got %+v", status.Trace)
	}
}
