package snapshot

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
)

// servedPart puts what is served into the snapshot.
type servedPart struct{ served *Served }

func (*servedPart) Name() string           { return WhatIsServed }
func (*servedPart) HasSynced() bool        { return true }
func (p *servedPart) Apply(next *Snapshot) { next.Served = p.served }

func servedPods(more ...metav1.APIResource) *Served {
	return Sources{Local: []*metav1.APIResourceList{list("v1", append(more, metav1.APIResource{Name: "pods", Kind: "Pod"})...)}}.Served()
}

// policyWorld is a store whose rules come from a shelf.
type policyWorld struct {
	*testing.T
	shelf
	store   *Store
	served  *servedPart
	changes int
}

var ruleKinds = []Kind{Namespaces, Policies, PolicyBindings, Roles, ClusterRoles, RoleBindings, ClusterRoleBindings}

func newPolicyWorld(t *testing.T, kinds ...Kind) *policyWorld {
	t.Helper()
	w := &policyWorld{T: t, shelf: newShelf(kinds...), store: NewStore(), served: &servedPart{servedPods()}}
	rules, err := NewRules(RulesConfig{Source: w, MasterNamespace: "master"}, func() { w.changes++ })
	if err != nil {
		t.Fatal(err)
	}
	if err := w.store.Add(rules, w.served); err != nil {
		t.Fatal(err)
	}
	return w
}

// may publishes and asks.
func (w *policyWorld) may(who, verb, resource string) ruleset.Certainty {
	w.store.Publish()
	return w.store.Current().Rules.Decide(authorizer.AttributesRecord{User: &user.DefaultInfo{Name: who}, Verb: verb, Namespace: "hammer", Resource: resource, ResourceRequest: true}).Certainty
}

func (w *policyWorld) expect(when, who, verb string, want bool) {
	w.Helper()
	before := w.changes
	if got := w.may(who, verb, "pods") == ruleset.Always; got != want {
		w.Errorf("%s: %s may %s: %v", when, who, verb, got)
	}
	if w.changes != before {
		w.Errorf("%s: publishing has changed something", when)
	}
}

// policyOf and bindingOf belong to the namespace with the UID 1.
func policyOf(ns string, rules ...policyv1alpha1.PolicyRule) *policyv1alpha1.Policy {
	return &policyv1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "default", UID: "policy-of-" + types.UID(ns), Annotations: map[string]string{policyv1alpha1.AnnotationNamespaceUID: "1"}}, Roles: map[string]policyv1alpha1.PolicyRole{"edit": {Rules: rules}}}
}

func bindingOf(ns string, users ...string) *policyv1alpha1.PolicyBinding {
	return &policyv1alpha1.PolicyBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: ns, UID: "binding-of-" + types.UID(ns), Annotations: map[string]string{policyv1alpha1.AnnotationNamespaceUID: "1"}},
		RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"edit": {RoleName: "edit", UserNames: users}}}
}

var (
	getPods    = policyv1alpha1.PolicyRule{Verbs: []string{"get"}, ResourceKinds: []string{"pods"}}
	denyDelete = policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"pods"}}
)

// PO-18, SV-8: every kind of rule counts when it is published, changes, and is gone when it is deleted, also when
// nobody saw that.
func TestRulesFollowTheirSource(t *testing.T) {
	w := newPolicyWorld(t, ruleKinds...)
	w.expect("nothing is there", "edgar", "get", false)
	if !w.store.Current().Synced {
		t.Fatal("an empty source is not synced")
	}
	ns := namespaceAt("1", time.Now().Add(-time.Hour))
	w.put(t, Namespaces, ns)
	w.put(t, Policies, policyOf("hammer", getPods))
	w.expect("a role that nobody has", "edgar", "get", false)
	w.put(t, PolicyBindings, bindingOf("hammer", "edgar"))
	if w.store.Current().Rules.Decide(authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "edgar"}, Verb: "get", Namespace: "hammer", Resource: "pods", ResourceRequest: true}).Certainty == ruleset.Always {
		t.Error("it counts before it is published")
	}
	w.expect("bound", "edgar", "get", true)
	w.put(t, PolicyBindings, bindingOf("hammer", "hubert"))
	w.expect("bound to another", "edgar", "get", false)
	w.expect("the other", "hubert", "get", true)
	w.remove(t, Policies, policyOf("hammer"), true)
	w.expect("the role is gone", "hubert", "get", false)
	w.put(t, Policies, policyOf("hammer", getPods))
	w.expect("and back", "hubert", "get", true)
	w.remove(t, PolicyBindings, bindingOf("hammer"), false)
	w.expect("the binding is gone", "hubert", "get", false)

	rules := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}
	subjects := []rbacv1.Subject{{Kind: "User", Name: "rob"}}
	rbac := func() bool {
		w.store.Publish()
		return w.store.Current().Rules.RBAC(authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "rob"}, Verb: "get", Namespace: "hammer", Resource: "pods", ResourceRequest: true}).Allow.Found()
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "r"}, Rules: rules}
	w.put(t, Roles, role)
	w.put(t, RoleBindings, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "r"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "r"}, Subjects: subjects})
	if !rbac() {
		t.Error("a role of RBAC does not count")
	}
	w.remove(t, Roles, role, true)
	if rbac() {
		t.Error("a role of RBAC outlives its deletion")
	}
	w.put(t, ClusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: rules})
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "r"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "r"}, Subjects: subjects}
	w.put(t, ClusterRoleBindings, binding)
	if !rbac() {
		t.Error("a cluster role does not count")
	}
	w.remove(t, ClusterRoleBindings, binding, false)
	if rbac() {
		t.Error("a cluster role binding outlives its deletion")
	}
}

// SV-8: half a policy is not a policy: nothing is compiled before every source has told what it has, and what it says
// later counts.
func TestNoRulesBeforeTheSync(t *testing.T) {
	w := newPolicyWorld(t, ruleKinds...)
	late := w.shelf[PolicyBindings.GroupVersionResource]
	late.synced = false
	w.put(t, Namespaces, namespaceAt("1", time.Now().Add(-time.Hour)))
	w.put(t, Policies, policyOf("hammer", getPods))
	w.store.Publish()
	if s := w.store.Current(); s.Synced || s.Rules != nil {
		t.Errorf("synced %v, rules %v", s.Synced, s.Rules)
	}
	if err := w.store.Ready(); !errors.Is(err, ErrNotSynced) || !strings.Contains(err.Error(), "policies and RBAC") {
		t.Errorf("ready: %v", err)
	}
	w.put(t, PolicyBindings, bindingOf("hammer", "edgar"))
	late.synced = true
	w.expect("all is there", "edgar", "get", true)
	late.synced = false // it connects again
	w.put(t, PolicyBindings, bindingOf("hammer"))
	w.expect("taken away meanwhile", "edgar", "get", false)
	if !w.store.Current().Synced {
		t.Error("a snapshot has become unsynced")
	}
}

// SV-8: what is served is part of what a rule means, and changes with it.
func TestRulesFollowWhatIsServed(t *testing.T) {
	w := newPolicyWorld(t, ruleKinds...)
	w.put(t, Namespaces, namespaceAt("1", time.Now().Add(-time.Hour)))
	w.put(t, Policies, policyOf("hammer", policyv1alpha1.PolicyRule{Verbs: []string{"get"}, ResourceKinds: []string{"Gizmo"}}))
	w.put(t, PolicyBindings, bindingOf("hammer", "edgar"))
	if w.may("edgar", "get", "gizmos") == ruleset.Always {
		t.Error("a kind that is not served")
	}
	w.served.served = servedPods(metav1.APIResource{Name: "gizmos", Kind: "Gizmo"})
	if w.may("edgar", "get", "gizmos") != ruleset.Always {
		t.Error("a kind that is served now")
	}
	w.served.served = servedPods()
	if w.may("edgar", "get", "gizmos") == ruleset.Always {
		t.Error("a kind that is served no more")
	}
}

// PO-20: policy counts in its own namespace: when that is gone it neither grants nor denies in another one of the same
// name, and before the namespace is known it denies.
func TestPolicyOfANamespaceThatIsGone(t *testing.T) {
	for _, missed := range []bool{false, true} {
		w := newPolicyWorld(t, ruleKinds...)
		created := time.Now().Add(-time.Hour)
		policy, binding := policyOf("hammer", getPods, denyDelete), bindingOf("hammer", "edgar")
		denied := func(when string, want bool) {
			t.Helper()
			w.store.Publish()
			v := w.store.Current().Rules.Decide(authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "edgar"}, Verb: "delete", Namespace: "hammer", Resource: "pods", ResourceRequest: true})
			if v.Deny.Found() != want {
				t.Errorf("%s: denied %v", when, !want)
			}
		}
		w.put(t, Policies, policy)
		w.put(t, PolicyBindings, binding)
		w.expect("no namespace yet", "edgar", "get", false)
		denied("no namespace yet", true)
		w.put(t, Namespaces, namespaceAt("1", created))
		w.expect("its namespace", "edgar", "get", true)
		denied("its namespace", true)
		before := w.changes
		labelled := namespaceAt("1", created)
		labelled.Labels = map[string]string{"a": "b"}
		w.put(t, Namespaces, labelled)
		if w.changes != before {
			t.Error("a label of a namespace changes its policy")
		}
		if missed { // the next one is there at once
			w.put(t, Namespaces, namespaceAt("2", time.Now().Add(time.Minute)))
		} else {
			w.remove(t, Namespaces, labelled, false)
			w.expect("gone", "edgar", "get", false)
			denied("gone", false)
			w.put(t, Namespaces, namespaceAt("2", time.Now().Add(time.Minute)))
		}
		w.expect("made again", "edgar", "get", false)
		denied("made again", false)
	}
}

// A source without a kind has no objects of it; one that fails, or that nobody can listen to, makes no part.
func TestSourcesThatFail(t *testing.T) {
	w := newPolicyWorld(t)
	w.expect("a source without anything", "edgar", "get", false)
	if !w.store.Current().Synced {
		t.Error("a source without anything is not synced")
	}
	parts := map[string]func(Source) error{
		"rules": func(s Source) error {
			_, err := NewRules(RulesConfig{Source: s}, func() {})
			return err
		},
		"protections": func(s Source) error {
			_, err := NewProtections(ProtectionsConfig{Source: s}, func() {})
			return err
		},
		"fields": func(s Source) error {
			_, err := NewFields(FieldsConfig{Source: s, Read: func(any) CustomFields { return CustomFields{} }}, func() {})
			return err
		},
	}
	for part, kinds := range map[string][]Kind{"rules": ruleKinds, "protections": {Namespaces, ProtectedAttributes, ClusterProtectedAttributes}, "fields": {FieldPermissions, Definitions}} {
		for _, k := range kinds {
			broken, deaf := newShelf(kinds...), newShelf(kinds...)
			broken[k.GroupVersionResource].broken, deaf[k.GroupVersionResource].deaf = true, true
			if parts[part](broken) == nil || parts[part](deaf) == nil {
				t.Errorf("%s without %s", part, k.Resource)
			}
		}
		if err := parts[part](newShelf(kinds...)); err != nil {
			t.Errorf("%s: %v", part, err)
		}
		if err := parts[part](newShelf()); err != nil {
			t.Errorf("%s of nothing: %v", part, err)
		}
	}
}

// PA-1, PA-2, SV-8: protections count when they are published, one that is no good takes nothing from the others, and
// those of a namespace end with it.
func TestProtectionsFollowTheirSource(t *testing.T) {
	s := newShelf(Namespaces, ProtectedAttributes, ClusterProtectedAttributes)
	changes := 0
	p, err := NewProtections(ProtectionsConfig{Source: s, MasterNamespace: "master", ExemptUsers: []string{"copier"}, ExemptGroups: []string{"copiers"}}, func() { changes++ })
	if err != nil {
		t.Fatal(err)
	}
	index := func() *protectedattr.Index {
		var next Snapshot
		p.Apply(&next)
		return next.Protect
	}
	s[ProtectedAttributes.GroupVersionResource].synced = false
	if p.HasSynced() || index() != nil {
		t.Error("compiled before the sync")
	}
	s[ProtectedAttributes.GroupVersionResource].synced = true
	if !p.HasSynced() || index().Len() != 0 {
		t.Error("an empty source")
	}
	if ix := index(); !ix.Exempts(&protectedattr.Request{User: "copier"}) || !ix.Exempts(&protectedattr.Request{Groups: []string{"copiers"}}) || ix.Exempts(&protectedattr.Request{User: "edgar"}) {
		t.Error("who is exempt")
	}
	cluster := &policyv1alpha1.ClusterProtectedAttribute{ObjectMeta: metav1.ObjectMeta{Name: "a"}, AttributeKind: policyv1alpha1.AttributeLabel, AttributeName: "tier"}
	s.put(t, ClusterProtectedAttributes, cluster)
	s.put(t, ClusterProtectedAttributes, &policyv1alpha1.ClusterProtectedAttribute{ObjectMeta: metav1.ObjectMeta{Name: "bad"}, AttributeKind: "Smell", AttributeName: "x"})
	created := time.Now().Add(-time.Hour)
	local := &policyv1alpha1.ProtectedAttribute{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "b", UID: "b", Annotations: map[string]string{policyv1alpha1.AnnotationNamespaceUID: "1"}},
		AttributeKind: policyv1alpha1.AttributeLabel, AttributeName: "shelf"}
	s.put(t, ProtectedAttributes, local)
	if changes != 3 || !index().Touches(map[string]string{"tier": ""}, nil) || !index().Touches(map[string]string{"shelf": ""}, nil) {
		t.Errorf("%d changes, %d protections", changes, index().Len())
	}
	if first := index(); index() != first {
		t.Error("compiled again although nothing has changed")
	}
	s.put(t, Namespaces, namespaceAt("1", created))
	s.remove(t, Namespaces, namespaceAt("1", created), false)
	if !index().Touches(map[string]string{"tier": ""}, nil) || index().Touches(map[string]string{"shelf": ""}, nil) {
		t.Error("a protection outlives its namespace")
	}
	s.remove(t, ProtectedAttributes, local, true)
	again := local.DeepCopy()
	again.Annotations[policyv1alpha1.AnnotationNamespaceUID] = "2"
	s.put(t, Namespaces, namespaceAt("2", time.Now()))
	s.put(t, ProtectedAttributes, again)
	if !index().Touches(map[string]string{"shelf": ""}, nil) {
		t.Error("one of the next namespace does not count")
	}
	renamed := cluster.DeepCopy()
	renamed.AttributeName = "rank"
	s.put(t, ClusterProtectedAttributes, renamed)
	if index().Touches(map[string]string{"tier": ""}, nil) || !index().Touches(map[string]string{"rank": ""}, nil) {
		t.Error("a protection that was changed counts as it was")
	}
	s.put(t, ClusterProtectedAttributes, cluster)
	s.remove(t, ClusterProtectedAttributes, cluster, true)
	if index().Touches(map[string]string{"tier": ""}, nil) {
		t.Error("a deleted protection counts")
	}
}

// FP-3, FP-4: declarations count when they are published, those of definitions when a definition changes what it
// declares; a problem is kept.
func TestFieldsFollowTheirSource(t *testing.T) {
	s := newShelf(FieldPermissions, Definitions)
	changes, reads := 0, 0
	f, err := NewFields(FieldsConfig{Source: s, Read: func(definition any) (c CustomFields) {
		reads++
		d, ok := definition.(*apiextensionsv1.CustomResourceDefinition)
		if !ok {
			t.Fatalf("a %T was read as a definition", definition)
		}
		c.Problem = d.Annotations["problem"]
		if d.Annotations["scale"] != "" {
			c.Resource = fieldperm.Resource{Group: "example.com", Resource: d.Annotations["scale"]}
			c.Scale = []fieldperm.Path{}
		}
		return c
	}}, func() { changes++ })
	if err != nil {
		t.Fatal(err)
	}
	table := func() *fieldperm.Table {
		var next Snapshot
		f.Apply(&next)
		return next.Fields
	}
	s[Definitions.GroupVersionResource].synced = false
	if f.HasSynced() || table() != nil {
		t.Error("compiled before the sync")
	}
	s[Definitions.GroupVersionResource].synced = true
	if !f.HasSynced() || table() == nil {
		t.Error("an empty source")
	}
	fp := &policyv1alpha1.FieldPermission{ObjectMeta: metav1.ObjectMeta{Name: "tier"}, Spec: policyv1alpha1.FieldPermissionSpec{
		Resources: []string{"pods"}, Field: ".metadata.labels[tier]", Permission: "example.com/tier", Exclusive: true}}
	pods := fieldperm.Target{Resource: fieldperm.Resource{Resource: "pods"}, Version: "v1"}
	if table().Guards(pods) {
		t.Fatal("pods are guarded by themselves")
	}
	s.put(t, FieldPermissions, fp)
	if changes != 1 || !table().Guards(pods) {
		t.Error("a field permission does not count")
	}
	if first := table(); table() != first {
		t.Error("compiled again although nothing has changed")
	}
	s.remove(t, FieldPermissions, fp, true)
	if changes != 2 || table().Guards(pods) {
		t.Error("a deleted field permission counts")
	}
	definition := func(annotations map[string]string) *apiextensionsv1.CustomResourceDefinition {
		return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com", Annotations: annotations}}
	}
	changes = 0
	for i, c := range []struct {
		annotations map[string]string
		changes     int
		issues      int
	}{{nil, 0, 0}, {map[string]string{"x": "y"}, 0, 0}, {map[string]string{"problem": "boom"}, 1, 1}, {map[string]string{"problem": "boom", "x": "y"}, 1, 1}, {map[string]string{"scale": "widgets"}, 2, 0}} {
		s.put(t, Definitions, definition(c.annotations))
		if table(); changes != c.changes || len(f.issues) != c.issues {
			t.Errorf("step %d: %d changes, issues %v", i, changes, f.issues)
		}
	}
	s.remove(t, Definitions, definition(map[string]string{"scale": "widgets"}), true)
	if changes != 3 || reads == 0 {
		t.Error("a definition that is gone changes nothing")
	}
}

// SV-8: a condition that turns out not to compile is looked at again, by whoever holds it, and quarantined.
func TestBrokenConditionsAreRechecked(t *testing.T) {
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	compiler := &rulecondition.Compiler{CEL: cel, Cache: expr.NewCache(cel)}
	warmer := NewWarmer(compiler.Cache)
	rules, fields := 0, 0
	s := newShelf(append(ruleKinds, FieldPermissions, Definitions)...)
	r, err := NewRules(RulesConfig{Source: s, MasterNamespace: "master", Warmer: warmer, CompileRule: compiler.CompileRule, Conditions: compiler}, func() { rules++ })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewFields(FieldsConfig{Source: s, Read: func(any) CustomFields { return CustomFields{} }, Warmer: warmer}, func() { fields++ }); err != nil {
		t.Fatal(err)
	}
	s.put(t, Policies, policyOf("master", policyv1alpha1.PolicyRule{Verbs: []string{"get"}, ResourceKinds: []string{"pods"}, When: "object.a =="}))
	s.put(t, PolicyBindings, bindingOf("master", "edgar"))
	next := Snapshot{Served: servedPods()}
	r.Apply(&next)
	if problems := next.Rules.Problems(); len(problems) != 0 {
		t.Errorf("before it is compiled: %v", problems)
	}
	if len(warmer.wake) != 1 {
		t.Error("nobody was told that there is something to compile")
	}
	if !warmer.compile(make(chan struct{})) {
		t.Error("it compiles")
	}
	for _, f := range warmer.broken {
		f()
	}
	if rules != 3 || fields != 1 {
		t.Errorf("%d changes of rules, %d of fields", rules, fields)
	}
	r.Apply(&next)
	if problems := next.Rules.Problems(); len(problems) != 1 {
		t.Errorf("afterwards: %v", problems)
	}
}

// A nil Served, and resources that nobody serves, know nothing.
func TestUnknownIsNothing(t *testing.T) {
	var s *Served
	gr := schema.GroupResource{Resource: "pods"}
	if s.Kinds() != nil || s.PreferredVersion(schema.GroupKind{Kind: "Pod"}) != "" || s.OwnKind(gr) != "" || s.HasFields(gr, "") || s.HasFields(gr, "scale") {
		t.Error("nothing knows something")
	}
	s = servedPods(metav1.APIResource{Name: "pods/status", Kind: "Pod"}, metav1.APIResource{Name: "pods/scale", Kind: "Scale"}, metav1.APIResource{Name: "pods/binding", Kind: "Binding"},
		metav1.APIResource{Name: "pods/eviction", Kind: "Eviction"}, metav1.APIResource{Name: "nodes/binding", Kind: "Binding"}, metav1.APIResource{Name: "nodes", Kind: "Node"})
	for sub, want := range map[string]bool{"": true, "status": true, "scale": true, "binding": true, "eviction": false, "unknown": false} {
		if s.HasFields(gr, sub) != want {
			t.Errorf("pods/%s has fields: %v", sub, !want)
		}
	}
	if s.HasFields(schema.GroupResource{Resource: "nodes"}, "binding") {
		t.Error("a binding of something else stands for fields")
	}
	if _, found := (Resources{}).Of(schema.GroupKind{Kind: "Pod"}); found {
		t.Error("found in nothing")
	}
	rs := NewResources([]*metav1.APIResourceList{
		list("a/b/c", metav1.APIResource{Name: "bad", Kind: "Bad", Verbs: metav1.Verbs{"list"}}),
		list("g/v2", metav1.APIResource{Name: "ts", Kind: "T", Verbs: metav1.Verbs{"list", "delete"}}, metav1.APIResource{Name: "ts/status", Kind: "T", Verbs: metav1.Verbs{"list"}}, metav1.APIResource{Name: "us", Kind: "U", Verbs: metav1.Verbs{"get"}}),
		list("g/v1", metav1.APIResource{Name: "ts", Kind: "T", Verbs: metav1.Verbs{"list"}}),
	})
	if len(rs) != 1 || rs[0].Version != "v2" || !rs[0].Deletable {
		t.Errorf("resources: %+v", rs)
	}
	if r, found := rs.Of(schema.GroupKind{Group: "g", Kind: "T"}); !found || r.Resource != "ts" {
		t.Error("a kind that is served is not found")
	}
	if _, found := rs.Of(schema.GroupKind{Group: "h", Kind: "T"}); found {
		t.Error("a kind of another group is found")
	}
	if got := Of[*corev1.Namespace](nil); got != nil {
		t.Errorf("objects of nothing: %v", got)
	}
}
