package authorize

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/access"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/test/law"
)

// unionWorld is a policy of several namespaces, all of whose rules are edgar's, and a gate that unites.
type unionWorld struct {
	t       testing.TB
	in      ruleset.Input
	rules   []*accessv1alpha1.AccessRule
	granted []*accessv1alpha1.AccessRequest
	gate    *Gate
	said    []string
	// denies tells that a rule of a namespace denies: a list is denied as a whole where a get of one name is not.
	denies bool
}

// unionPlaces are in the order in which objects are stored: one is the beginning of another.
var unionPlaces = []string{"a-b", "a", "b", "c", "master"}

var unionNoon = time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)

func newUnionWorld(t testing.TB, compile ruleset.CompileRule) *unionWorld {
	t.Helper()
	w := &unionWorld{t: t, in: ruleset.Input{MasterNamespace: "master", CompileRule: compile, Kinds: unionServed().Kinds()}}
	store := snapshot.NewStore()
	chain, err := NewChain(Link{Name: "policy-master", Authorizer: NewPolicyMaster(store).ServedBy(servedHere)}, Link{Name: "policy-namespace", Authorizer: NewPolicyNamespace(store, nil).ServedBy(servedHere)},
		Link{Name: "rbac", Authorizer: NewRBAC(store).ServedBy(servedHere)}, Link{Name: "access", Authorizer: NewAccess(store).ServedBy(servedHere)})
	if err != nil {
		t.Fatal(err)
	}
	w.gate = NewGate(GateConfig{Chain: chain, Conditional: true, Unions: true, Local: servedHere, Reads: anyReads{ReadsFunc(func(authorizer.Attributes) error { return nil })}})
	return w
}

func unionServed() *snapshot.Served {
	return snapshot.Sources{Local: []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "configmaps", Kind: "ConfigMap", Namespaced: true}, {Name: "secrets", Kind: "Secret", Namespaced: true},
		{Name: "pods", Kind: "Pod", Namespaced: true}, {Name: "pods/log", Kind: "Pod", Namespaced: true}, {Name: "namespaces", Kind: "Namespace"}, {Name: "nodes", Kind: "Node"}}}}}.Served()
}

// uids are namespaces whose uid is their name.
type uids struct{}

func (uids) Namespace(name string) (metav1.Object, bool) {
	return &metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)}, true
}

func (w *unionWorld) note(format string, args ...any) {
	w.said = append(w.said, fmt.Sprintf(format, args...))
}

// policy gives rules in a namespace.
func (w *unionWorld) policy(namespace string, rules ...policyv1alpha1.PolicyRule) *unionWorld {
	w.note("policy of %s: %+v", namespace, rules)
	for _, p := range w.in.Policies {
		if p.Namespace == namespace {
			role := p.Roles["r"]
			role.Rules = append(role.Rules, rules...)
			p.Roles["r"] = role
			return w
		}
	}
	w.in.Policies = append(w.in.Policies, &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: namespace}, Roles: map[string]policyv1alpha1.PolicyRole{"r": {Rules: rules}}})
	w.in.PolicyBindings = append(w.in.PolicyBindings, &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: namespace, Namespace: namespace},
		RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"b": {RoleName: "r", UserNames: []string{"edgar"}}}})
	return w
}

// rbac gives rules of RBAC in a namespace, or ("") in all of them.
func (w *unionWorld) rbac(namespace string, rules ...rbacv1.PolicyRule) *unionWorld {
	w.note("RBAC of %q: %+v", namespace, rules)
	name := fmt.Sprint("r", len(w.in.ClusterRoles))
	w.in.ClusterRoles = append(w.in.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})
	ref, who := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}, []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "edgar"}}
	if namespace == "" {
		w.in.ClusterRoleBindings = append(w.in.ClusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: ref, Subjects: who})
		return w
	}
	w.in.RoleBindings = append(w.in.RoleBindings, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, RoleRef: ref, Subjects: who})
	return w
}

// grant is what an AccessRequest for a namespace has been granted, for an hour from noon on.
func (w *unionWorld) grant(namespace string, rules ...rbacv1.PolicyRule) *unionWorld {
	w.note("granted in %s: %+v", namespace, rules)
	name := fmt.Sprint("g", len(w.granted))
	ref := accessv1alpha1.AccessRoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	w.in.ClusterRoles = append(w.in.ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})
	w.rules = append(w.rules, &accessv1alpha1.AccessRule{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Generation: 1}, Spec: accessv1alpha1.AccessRuleSpec{
		Subjects: accessv1alpha1.Subjects{UserNames: []string{"edgar"}}, RoleRef: ref, Namespaces: []string{namespace}, MaxDurationSeconds: 7200, AuditSinks: []string{"sink-" + name},
		Approvals: &accessv1alpha1.ApprovalRule{Count: 1, Subjects: accessv1alpha1.Subjects{GroupNames: []string{"leads"}}}}})
	from, until := metav1.NewTime(unionNoon), metav1.NewTime(unionNoon.Add(time.Hour))
	r := &accessv1alpha1.AccessRequest{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID(name), Annotations: map[string]string{policyv1alpha1.AnnotationNamespaceUID: "uid-of-" + namespace}},
		Spec: accessv1alpha1.AccessRequestSpec{RuleRef: accessv1alpha1.AccessRuleRef{Name: name, UID: types.UID(name)}, DurationSeconds: 3600},
		Status: accessv1alpha1.AccessRequestStatus{From: &from, Until: &until, Granted: &accessv1alpha1.AccessGrant{RoleRef: ref},
			Conditions: []metav1.Condition{{Type: accessv1alpha1.ConditionApproved, Status: metav1.ConditionTrue, Reason: accessv1alpha1.ReasonApproved}}}}
	r.Spec.Requester.Username = "edgar"
	w.granted = append(w.granted, r)
	return w
}

// snapshot compiles it all.
func (w *unionWorld) snapshot() *snapshot.Snapshot {
	return &snapshot.Snapshot{Synced: true, Rules: ruleset.Build(w.in), Served: unionServed(),
		Access: access.Build(access.Input{MasterNamespace: "master", Rules: w.rules, Requests: w.granted, Namespaces: uids{}, ClusterRoles: w.in.ClusterRoles, CompileRule: w.in.CompileRule, Kinds: w.in.Kinds,
			Sinks: map[string]time.Time{"sink-g0": {}}})}
}

// at is the context of a request a minute after noon.
func (w *unionWorld) at(snap *snapshot.Snapshot) context.Context {
	return requestctx.At(w.t.Context(), snap, unionNoon.Add(time.Minute))
}

func listOf(resource string) authorizer.AttributesRecord {
	attrs := asks("list")
	attrs.Namespace, attrs.Resource = "", resource
	return attrs
}

// got decides one object as a get of it would be.
func (w *unionWorld) got(snap *snapshot.Snapshot, o *unstructured.Unstructured, resource string) bool {
	w.t.Helper()
	attrs := listOf(resource)
	attrs.Verb, attrs.Namespace, attrs.Name = "get", o.GetNamespace(), o.GetName()
	if resource == "namespaces" {
		attrs.Namespace = o.GetName()
	}
	ctx := w.at(snap)
	v := w.gate.Decide(ctx, attrs)
	if v.Answer == Open {
		return v.Pass.Pending().Resolve(ctx, readState(o, resource)).Decision == authorizer.DecisionAllow
	}
	return v.Answer == Allowed
}

// shown decides one object as the list does.
func (w *unionWorld) shown(snap *snapshot.Snapshot, n *requestctx.Narrowing, o *unstructured.Unstructured, resource string) bool {
	w.t.Helper()
	if n == nil {
		return true
	}
	if !(&readsWorld{}).inBox(n.Box, o) {
		return false
	}
	if n.Each == nil {
		return true
	}
	shown, _ := n.Each.Shows(w.at(snap), readState(o, resource))
	if at, known := n.Each.At(o.GetNamespace(), o.GetName()); known && at != shown || at && !known {
		w.t.Fatalf("%s\n%s/%s: by its name it is shown %v (known %v), and asked about %v", strings.Join(w.said, "\n"), o.GetNamespace(), o.GetName(), at, known, shown)
	}
	return shown
}

func readState(o *unstructured.Unstructured, resource string) authorizer.ConditionsData {
	return admission.NewAttributesRecord(o, o, o.GroupVersionKind(), o.GetNamespace(), o.GetName(), schema.GroupVersionResource{Version: "v1", Resource: resource}, "", "GET", nil, false, nil)
}

// unionObjects are config maps of every namespace, or the namespaces.
func unionObjects(random *rand.Rand, resource string) (all []*unstructured.Unstructured) {
	for _, place := range append(slices.Clone(unionPlaces), "elsewhere") {
		names, kind := []string{"o1", "o2", "o3"}, "ConfigMap"
		if resource == "namespaces" {
			names, kind = []string{place}, "Namespace"
		}
		for _, name := range names {
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name}, "data": map[string]any{"k": []string{"v", "w"}[random.IntN(2)]}}}
			if kind == "ConfigMap" {
				o.SetNamespace(place)
			}
			if random.IntN(3) > 0 {
				o.SetLabels(map[string]string{"team": []string{"x", "y"}[random.IntN(2)]})
			}
			all = append(all, o)
		}
	}
	return all
}

var (
	readMaps   = rbacv1.PolicyRule{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}
	readSpaces = rbacv1.PolicyRule{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"namespaces"}}
)

func readRule(kind, when, where string, names ...string) policyv1alpha1.PolicyRule {
	return policyv1alpha1.PolicyRule{Verbs: []string{"get", "list", "watch"}, ResourceKinds: []string{kind}, When: when, Where: where, ResourceNames: names}
}

func named2(r rbacv1.PolicyRule, names ...string) rbacv1.PolicyRule {
	r.ResourceNames = names
	return r
}

// draw gives rights at random, of all kinds and in all places.
func (w *unionWorld) draw(random *rand.Rand) {
	pick := func(all ...string) string { return all[random.IntN(len(all))] }
	where := func() string {
		return pick(`resource.metadata.labels.team == "x"`, `resource.metadata.name.endsWith("3")`, `resource.metadata.?labels[?"team"].orValue("") != "y"`, `request.name.startsWith("o1")`)
	}
	for _, ns := range unionPlaces[:4] {
		switch random.IntN(14) {
		case 0:
			w.rbac(ns, readMaps)
		case 1:
			w.rbac(ns, named2(readMaps, "o1", "nosuch"))
		case 2:
			w.policy(ns, readRule("configmaps", "", ""))
		case 3:
			w.policy(ns, readRule("configmaps", "", where()))
		case 4:
			w.policy(ns, readRule("configmaps", "", where(), "o2", "o3"))
		case 5:
			deny := readRule("configmaps", "", "")
			deny.Deny = true
			w.policy(ns, deny, readRule("configmaps", "", ""))
			w.denies = true
		case 6:
			w.grant(ns, readMaps)
		case 7:
			w.grant(ns, named2(readMaps, "o3"))
		case 9:
			deny := readRule("namespaces", "", "")
			deny.Deny = true
			w.policy(ns, deny, readRule("configmaps", "", ""))
		}
	}
	for range 1 + random.IntN(2) {
		w.drawWide(random, where)
	}
}

// drawWide gives a right in all namespaces.
func (w *unionWorld) drawWide(random *rand.Rand, where func() string) {
	switch random.IntN(14) {
	case 0:
		w.policy("master", readRule("configmaps", "", where()))
	case 1:
		w.policy("master", readRule("configmaps", "", "", "o3"))
	case 2:
		w.policy("master", readRule("configmaps", `request.namespace.startsWith("a")`, ""))
	case 3:
		w.policy("master", readRule("configmaps", `request.namespace in ["b", "elsewhere"]`, where()))
	case 4:
		w.rbac("", named2(readMaps, "o2"))
	case 5:
		deny := readRule("configmaps", `request.namespace == "b"`, "")
		deny.Deny = true
		w.policy("master", deny, readRule("configmaps", "", where()))
	case 6:
		w.policy("master", readRule("secrets", `request.namespace == "c"`, ""))
	case 7:
		w.rbac("", named2(readSpaces, "a", "elsewhere"))
	case 8:
		deny := readRule("namespaces", `request.namespace == "a"`, "")
		deny.Deny = true
		w.policy("master", deny, readRule("*", `request.namespace.startsWith("a")`, ""))
	case 9:
		w.policy("master", readRule("namespaces", "", `resource.metadata.labels.team == "x"`))
	case 10:
		w.rbac("", readMaps)
	case 11:
		deny := readRule("namespaces", `request.namespace in ["c", "elsewhere"]`, "")
		deny.Deny = true
		w.policy("master", deny)
	case 12:
		deny := readRule("namespaces", "", "", "elsewhere", "b")
		deny.Deny, deny.Verbs = true, []string{"get"}
		w.policy("master", deny)
	}
}

// TestUnionsAreBruteForce: RD-11, RD-12. For rights of all kinds in single namespaces and in all of them, a list over
// all namespaces shows every object that the caller would get, and no other. A list that is refused shows nothing
// because there is nothing. What a place and a name alone decide, the object decides alike.
func TestUnionsAreBruteForce(t *testing.T) {
	compile := compilerOf(t)
	united, refused, shown, hidden, views := 0, 0, 0, 0, 0
	law.Rounds(t, 300, func(seed int64) int {
		random := rand.New(rand.NewPCG(uint64(seed), 41))
		w := newUnionWorld(t, compile)
		w.draw(random)
		snap := w.snapshot()
		for _, resource := range []string{"configmaps", "namespaces"} {
			attrs := listOf(resource)
			ctx := w.at(snap)
			v := w.gate.Decide(ctx, attrs)
			n := v.Pass.Narrowing()
			if (v.Answer == Open) != (n != nil) || v.Answer == Denied {
				t.Fatalf("seed %d: %s\n%v: %v", seed, strings.Join(w.said, "\n"), v, n)
			}
			if v.Answer == Unanswered {
				refused++
			}
			if n != nil && n.Union != nil {
				united++
				inOrder := slices.IsSortedFunc(n.Union.Namespaces, func(a, b string) int { return strings.Compare(a+"/", b+"/") })
				if !inOrder || n.Union.Themselves != (resource == "namespaces") && len(n.Union.Namespaces) > 0 {
					t.Fatalf("seed %d: %s\n%+v", seed, strings.Join(w.said, "\n"), n.Union)
				}
				again, err := w.gate.NarrowFor(ctx, snap, attrs)
				if err != nil || again.View() != n.View() {
					t.Fatalf("seed %d: another view of the same: %v", seed, err)
				}
				views++
			}
			if v.Answer == Allowed {
				continue // a request without a namespace: no deny that asks for one is about it
			}
			for _, o := range unionObjects(random, resource) {
				got := w.got(snap, o, resource)
				listed := v.Answer != Unanswered && w.shown(snap, n, o, resource)
				if got {
					shown++
				} else {
					hidden++
				}
				if got != listed && (listed || !w.denies) {
					t.Fatalf("seed %d: %s\n%v: listed %v, got %v (%v %q)", seed, strings.Join(w.said, "\n"), o.Object, listed, got, v.Answer, v.Reason)
				}
				if place := o.GetNamespace(); n != nil && n.Union != nil && listed && resource == "configmaps" && !n.Union.Elsewhere && !slices.Contains(n.Union.Namespaces, place) {
					t.Fatalf("seed %d: %s\nsomething of %s is shown, and the union is of %v", seed, strings.Join(w.said, "\n"), place, n.Union.Namespaces)
				}
			}
		}
		return 2
	})
	t.Logf("%d unions, %d lists refused, %d objects shown, %d hidden, %d views", united, refused, shown, hidden, views)
	if united < 100 || refused < 5 || shown < 500 || hidden < 500 {
		law.TooFew(t, "%d unions, %d refused, %d shown, %d hidden: the law proves little", united, refused, shown, hidden)
	}
}
