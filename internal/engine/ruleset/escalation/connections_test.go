package escalation

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/test/law"
	"proviso.dev/proviso/test/refmodel"
)

// connecting is a world in which the writer has some rules.
func connecting(own rules) *refmodel.World {
	w := &refmodel.World{Master: "master", Served: []refmodel.Resource{{Plural: "pods", Kind: "Pod"}, {Plural: "services", Kind: "Service"}, {Plural: "nodes", Kind: "Node"}}}
	w.Policies = []*policyv1alpha1.Policy{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "default"},
		Roles: map[string]policyv1alpha1.PolicyRole{"own": {Rules: own}}}}
	w.PolicyBindings = []*policyv1alpha1.PolicyBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "hammer"},
		RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"own": {RoleName: "own", UserNames: []string{"bob"}}}}}
	return w
}

func whole(verbs, kinds string) policyv1alpha1.PolicyRule {
	return policyv1alpha1.PolicyRule{Verbs: strings.Fields(verbs), ResourceKinds: strings.Fields(kinds), Where: refmodel.Whole}
}

// CA-26, PO-12: the same where is not about the same on a connection that one rule names and the other one does not.
func TestWhereOnConnectionsIsHeldByName(t *testing.T) {
	plain := policyv1alpha1.PolicyRule{Verbs: []string{"*"}, ResourceKinds: []string{"*"}}
	for _, test := range []struct {
		name   string
		wanted policyv1alpha1.PolicyRule
		held   rules
		want   bool
	}{
		{"exec by a wildcard", whole("create", "pods/exec"), rules{whole("*", "*")}, false},
		{"exec by a wildcard of subresources", whole("create", "pods/exec"), rules{whole("*", "pods/*")}, false},
		{"exec by its verb, held by a wildcard", whole("exec", "pods"), rules{whole("*", "*")}, false},
		{"every verb of exec by a wildcard", whole("*", "pods/exec"), rules{whole("*", "*")}, false},
		{"without a condition", whole("create", "pods/exec"), rules{plain}, true},
		{"the same", whole("create", "pods/exec"), rules{whole("create", "pods/exec")}, true},
		{"by the kind", whole("create", "Pod/exec"), rules{whole("create", "pods/exec")}, true},
		{"by the subresource alone", whole("create", "pods/exec"), rules{whole("create", "*/exec")}, true},
		{"by the verb", whole("create", "pods/exec"), rules{whole("exec", "pods")}, true},
		{"by the verb of everything", whole("create", "pods/exec"), rules{whole("exec", "*")}, true},
		{"beside a wildcard", whole("create", "pods/exec"), rules{whole("*", "*"), whole("exec", "pods")}, true},
		{"in one rule with a wildcard", whole("create", "pods/exec"), rules{whole("*", "* pods/exec")}, true},
		{"the other verb", whole("create", "pods/proxy"), rules{whole("* exec", "*")}, false},
		{"another subresource", whole("create", "pods/attach"), rules{whole("*", "pods/* pods/exec")}, false},
		{"one of two subresources", whole("create", "pods/exec pods/attach"), rules{whole("*", "pods/* pods/exec")}, false},
		{"another resource", whole("create", "nodes/proxy"), rules{whole("*", "* pods/proxy")}, false},
		{"a wildcard by a wildcard", whole("*", "*"), rules{whole("*", "*")}, true},
		{"a wildcard by a wildcard and a name", whole("*", "*"), rules{whole("*", "* pods/exec")}, true},
		{"a wildcard and a name by a wildcard", whole("*", "* pods/exec"), rules{whole("*", "*")}, false},
		{"pods and exec by pods", whole("create", "pods pods/exec"), rules{whole("create", "pods")}, false},
		{"pods by pods and exec", whole("create", "pods"), rules{whole("create", "pods pods/exec")}, true},
		{"get by exec and get", whole("get", "pods"), rules{whole("get exec", "pods")}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := Covers(ruleset.Build(inputOf(connecting(test.held))), Grant{User: &user.DefaultInfo{Name: "bob"}, Namespace: "hammer", Policy: rules{test.wanted}})
			if (err == nil) != test.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

// CA-26, PO-12: whatever where is about, an object, a target or nothing, a grant gives only what its writer has.
func TestWhereOnConnectionsGainsNothing(t *testing.T) {
	accepted, gained := 0, 0
	law.Rounds(t, 3000, func(seed int64) int {
		pick := picker(seed)
		a, g := whereGainsNothing(t, seed, pick)
		accepted, gained = accepted+a, gained+g
		return 1
	})
	if accepted < 300 || gained < 1000 {
		law.TooFew(t, "%d grants were accepted and %d requests gained: too few to prove anything", accepted, gained)
	}
}

func FuzzWhereOnConnectionsGainsNothing(f *testing.F) {
	law.Fuzz(f, func(t *testing.T, pick func(int) int) { whereGainsNothing(t, 0, pick) })
}

func whereGainsNothing(t *testing.T, seed int64, pick refmodel.Pick) (accepted, gained int) {
	draw := func() policyv1alpha1.PolicyRule {
		r := policyv1alpha1.PolicyRule{Where: refmodel.Whole}
		for range 1 + pick(2) {
			r.Verbs = append(r.Verbs, []string{"*", "create", "exec", "proxy", "get", "-exec", "-get"}[pick(7)])
			r.ResourceKinds = append(r.ResourceKinds, []string{"*", "pods", "pods/*", "pods/exec", "*/exec", "Pod/exec", "pods/attach",
				"nodes/proxy", "pods/proxy", "nodes", "pods./exec", "*.apps/exec", "-pods/exec"}[pick(13)])
		}
		if pick(6) == 0 {
			r.Where = ""
		}
		return r
	}
	var own, wanted rules
	for range 1 + pick(3) {
		own = append(own, draw())
	}
	for range 1 + pick(2) {
		r := draw()
		if pick(2) == 0 {
			r = *own[pick(len(own))].DeepCopy()
			switch pick(3) {
			case 0:
				r.ResourceKinds = draw().ResourceKinds
			case 1:
				r.Verbs = draw().Verbs
			}
		}
		wanted = append(wanted, r)
	}
	before, g := connecting(own), Grant{User: &user.DefaultInfo{Name: "bob"}, Namespace: "hammer", Policy: wanted}
	if Covers(ruleset.Build(inputOf(before)), g) != nil {
		return 0, 0
	}
	after := connecting(wanted)
	for _, at := range []string{"pods", "pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "services/proxy", "nodes", "nodes/proxy", "pods/status", "services/exec"} {
		for _, verb := range []string{"create", "get", "update"} {
			resource, sub, _ := strings.Cut(at, "/")
			r := &refmodel.Request{AttributesRecord: authorizer.AttributesRecord{User: g.User, Verb: verb, Namespace: "hammer", Resource: resource, Subresource: sub, Name: "web", ResourceRequest: true}}
			now, held := after.Hits(r), before.Hits(r)
			for bits := range 4 {
				holds := func(of rules) func(refmodel.Hit) bool {
					return func(h refmodel.Hit) bool {
						return of[h.Rule].Where == "" || h.About == refmodel.Object && bits&1 != 0 || h.About == refmodel.Target && bits&2 != 0
					}
				}
				if !now.Allowed(holds(wanted)) {
					continue
				}
				if gained++; !held.Allowed(holds(own)) {
					t.Fatalf("seed %d: %s %s is gained (%b) by %s, held are %s", seed, verb, at, bits, written(wanted), written(own))
				}
			}
		}
	}
	return 1, gained
}

func written(all rules) (out []string) {
	for _, r := range all {
		out = append(out, fmt.Sprintf("%v of %v where %q", r.Verbs, r.ResourceKinds, r.Where))
	}
	return out
}
