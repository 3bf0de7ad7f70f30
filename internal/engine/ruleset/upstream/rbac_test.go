// Package upstream_test holds the index against upstream's own RBAC authorizer. It is apart from the index's own tests
// because it links Kubernetes.
package upstream_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/test/law"
	"proviso.dev/proviso/test/refmodel"
)

func upstreamOf(w *refmodel.World) *rbac.RBACAuthorizer {
	_, static := validation.NewTestRuleResolver(w.Roles, w.RoleBindings, w.ClusterRoles, w.ClusterRoleBindings)
	return rbac.New(static, static, static, static)
}

func indexOf(w *refmodel.World) *ruleset.Index {
	return ruleset.Build(ruleset.Input{MasterNamespace: w.Master, Roles: w.Roles, RoleBindings: w.RoleBindings,
		ClusterRoles: w.ClusterRoles, ClusterRoleBindings: w.ClusterRoleBindings})
}

// odd makes a request strange in ways that reviews can be strange: wildcards, slashes in the resource, a namespace on a
// path.
func odd(pick refmodel.Pick, r *refmodel.Request) {
	switch pick(8) {
	case 0:
		r.Verb = "*"
	case 1:
		r.Resource = "*"
	case 2:
		r.APIGroup = "*"
	case 3:
		r.Subresource = "*"
	case 4:
		if r.Subresource != "" {
			r.Resource, r.Subresource = r.Resource+"/"+r.Subresource, ""
		}
	case 5:
		if !r.ResourceRequest {
			r.Namespace = "hammer"
		}
	case 6:
		r.Resource += "/"
	case 7:
		r.Resource, r.Subresource = "*/scale", ""
	}
}

// PO-19: on random objects and requests the index decides as upstream's RBAC authorizer does, for reasons that upstream
// could have given, and reports an error when upstream does.
func TestDecisionsEqualUpstream(t *testing.T) {
	allowed, missing := 0, 0
	law.Rounds(t, 800, func(seed int64) int {
		a, m := decisionsEqualUpstream(t, seed, refmodel.Pick(rand.New(rand.NewSource(seed)).Intn))
		allowed, missing = allowed+a, missing+m
		return 60
	})
	if allowed < 1000 || missing < 1000 {
		law.TooFew(t, "%d allowed, %d with errors: too few to prove anything", allowed, missing)
	}
}

func FuzzDecisionsEqualUpstream(f *testing.F) {
	law.Fuzz(f, func(t *testing.T, pick func(int) int) { decisionsEqualUpstream(t, 0, pick) })
}

// decisionsEqualUpstream tries the law on one world: how many requests were allowed, and how many were not for want of
// a role.
func decisionsEqualUpstream(t *testing.T, seed int64, pick refmodel.Pick) (allowed, missing int) {
	w := pick.World()
	up, ix := upstreamOf(w), indexOf(w)
	for i := range 60 {
		r := pick.Request()
		if i%3 == 0 {
			odd(pick, r)
		}
		decision, reason, err := up.Authorize(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		var q ruleset.Query
		q.Reset(ix, r)
		m := q.RBAC()
		if m.Allow.Found() != (decision == authorizer.DecisionAllow) || m.Denies() || m.ConditionalAllow {
			t.Fatalf("seed %d: request %+v\nupstream: %v %s\nindex: %v %s", seed, r, decision, reason, m, m.Allow.Reason())
		}
		if decision == authorizer.DecisionAllow {
			allowed++
			requireReason(t, m.Allow, reason, w, r)
			continue
		}
		if (q.Errors(ruleset.TierRBAC) != nil) != (reason != "") {
			t.Fatalf("seed %d: request %+v: upstream reports %q, index %v", seed, r, reason, q.Errors(ruleset.TierRBAC))
		}
		if reason != "" {
			missing++
		}
	}
	return allowed, missing
}

// requireReason: if only one binding grants the request, both name it in the same words, apart from which of several
// subjects of the binding is named. Otherwise any of them will do, and the form is the same.
func requireReason(t *testing.T, h ruleset.Hit, reason string, w *refmodel.World, r *refmodel.Request) {
	t.Helper()
	got, _, _ := strings.Cut(h.Reason(), " to ")
	want, _, _ := strings.Cut(reason, " to ")
	bindings := map[string]bool{}
	if !strings.Contains(r.Resource, "/") {
		hits := w.RBAC(r, true)
		if len(hits) == 0 {
			hits = w.RBAC(r, false)
		}
		for _, hit := range hits {
			bindings[hit.Binding] = true
		}
	}
	if len(bindings) == 1 && got != want {
		t.Fatalf("request %+v: reason %q, upstream's %q", r, h.Reason(), reason)
	}
	if got[:20] != want[:20] || !strings.Contains(h.Reason(), " to ") {
		t.Fatalf("request %+v: reason %q, upstream's %q", r, h.Reason(), reason)
	}
}

// PO-19: RulesFor lists the same set of rules, and an error when upstream has one.
func TestRulesForEqualsUpstream(t *testing.T) {
	rules := 0
	law.Rounds(t, 600, func(seed int64) int {
		pick := refmodel.Pick(rand.New(rand.NewSource(seed)).Intn)
		w := pick.World()
		up, ix := upstreamOf(w), indexOf(w)
		for range 10 {
			u, ns := pick.User(), refmodel.Namespaces[pick(3)]
			if pick(4) == 0 {
				ns = ""
			}
			res, non, incomplete, err := up.RulesFor(context.Background(), u, ns)
			got := ix.RBACRulesFor(u, ns)
			if g, w := asSet(t, got.Resources, got.NonResources), asSet(t, res, non); !slices.Equal(g, w) {
				t.Fatalf("seed %d: rules of %v in %q\nupstream %q\nindex %q", seed, u, ns, w, g)
			}
			if got.Incomplete != incomplete || (got.Err != nil) != (err != nil) {
				t.Fatalf("seed %d: incomplete %v, error %v; upstream %v, %v", seed, got.Incomplete, got.Err, incomplete, err)
			}
			rules += len(res) + len(non)
		}
		return 10
	})
	if rules < 1000 {
		law.TooFew(t, "%d rules: too few to prove anything", rules)
	}
}

func asSet(t *testing.T, res []authorizer.ResourceRuleInfo, non []authorizer.NonResourceRuleInfo) (set []string) {
	t.Helper()
	for _, r := range res {
		set = append(set, text(t, r))
	}
	for _, r := range non {
		set = append(set, text(t, r))
	}
	slices.Sort(set)
	return slices.Compact(set)
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%T %s", v, b)
}

// PO-19: a user in many groups and with many roles, where the index takes its other path.
func TestManyRolesEqualUpstream(t *testing.T) {
	law.Rounds(t, 20, func(seed int64) int {
		pick := refmodel.Pick(rand.New(rand.NewSource(seed)).Intn)
		w := crowd(pick, 60)
		up, ix := upstreamOf(w), indexOf(w)
		for range 200 {
			r := pick.Request()
			r.User = &user.DefaultInfo{Name: "alice", Groups: manyGroups(pick)}
			decision, reason, _ := up.Authorize(context.Background(), r)
			if m := ix.RBAC(r); m.Allow.Found() != (decision == authorizer.DecisionAllow) {
				t.Fatalf("seed %d: request %+v: upstream %v %s, index %v", seed, r, decision, reason, m.Allow.Reason())
			}
		}
		return 200
	})
}
