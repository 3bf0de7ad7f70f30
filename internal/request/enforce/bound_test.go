package enforce

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes/scheme"

	access "proviso.dev/proviso/api/access/v1alpha1"
	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/policycodec"
)

// bindingWrite creates what binds a role, or lets people ask for it.
func bindingWrite(o runtime.Object, gv schema.GroupVersion, kind, resource, namespace string) admission.Attributes {
	o.GetObjectKind().SetGroupVersionKind(gv.WithKind(kind))
	return admission.NewAttributesRecord(o, nil, gv.WithKind(kind), namespace, "b", gv.WithResource(resource), "", admission.Create, nil, false, edgar)
}

// PA-12: which role a request binds, and where that counts. The zero role is none.
func TestBoundRoles(t *testing.T) {
	w := protectedWorld(t)
	clusterRole := protectedattr.Role{Kind: protectedattr.KindClusterRole, Name: "keepers"}
	policyRole := func(namespace string) protectedattr.Role {
		return protectedattr.Role{Kind: protectedattr.KindPolicyRole, Namespace: namespace, Name: "keepers"}
	}
	binds := func(namespace string, ref authz.RoleRef) admission.Attributes {
		return bindingWrite(&authz.RoleBinding{RoleRef: ref}, authz.SchemeGroupVersion, "RoleBinding", "rolebindings", namespace)
	}
	asks := func(ref access.AccessRoleRef, selector *metav1.LabelSelector, namespaces ...string) admission.Attributes {
		return bindingWrite(&access.AccessRule{Spec: access.AccessRuleSpec{RoleRef: ref, Namespaces: namespaces, NamespaceSelector: selector}}, access.SchemeGroupVersion, "AccessRule", "accessrules", "")
	}
	ofCluster := authz.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "keepers"}
	for _, c := range []struct {
		name  string
		attrs admission.Attributes
		role  protectedattr.Role
		in    string
	}{
		{"a role of the namespace", binds("hammer", authz.RoleRef{Name: "keepers"}), policyRole("hammer"), "hammer"},
		{"a role of the master policy", binds("hammer", authz.RoleRef{Namespace: "master", Name: "keepers"}), policyRole("master"), "hammer"},
		{"a cluster role", binds("hammer", ofCluster), clusterRole, "hammer"},
		{"a cluster role, in the master policy", binds("master", ofCluster), clusterRole, ""},
		{"a role, in the master policy", binds("master", authz.RoleRef{Name: "keepers"}), policyRole("master"), ""},
		{"a rule", asks(access.AccessRoleRef{Name: "keepers"}, nil, "hammer", "anvil"), policyRole("master"), "hammer anvil"},
		{"a rule about a cluster role", asks(access.AccessRoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "keepers"}, nil, "hammer"), clusterRole, "hammer"},
		{"a rule about all namespaces", asks(access.AccessRoleRef{Name: "keepers"}, nil, "hammer", "*"), policyRole("master"), ""},
		{"a rule about the cluster", asks(access.AccessRoleRef{Name: "keepers"}, nil, "master", "hammer"), policyRole("master"), ""},
		{"a rule with a selector", asks(access.AccessRoleRef{Name: "keepers"}, &metav1.LabelSelector{}), policyRole("master"), ""},
		{"a rule about no namespace", asks(access.AccessRoleRef{Name: "keepers"}, nil), policyRole("master"), "nowhere"},
		{"no binding", bindingWrite(widget(nil), schema.GroupVersion{Group: "example.com", Version: "v1"}, "Widget", "widgets", "hammer"), protectedattr.Role{}, "hammer"},
	} {
		objects := admission.NewObjectInterfacesFromScheme(policycodec.Scheme)
		got, err := boundRole(w.snap, c.attrs, objects)
		in := c.in
		if in == "nowhere" && len(got.namespaces) == 0 {
			continue
		}
		if err != nil || got.role != c.role || strings.Join(got.namespaces, " ") != in || len(got.namespaces) == 0 {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
	w.snap.Rules = nil
	if got, err := boundRole(w.snap, binds("master", authz.RoleRef{Name: "keepers"}), admission.NewObjectInterfacesFromScheme(policycodec.Scheme)); err != nil || !slices.Equal(got.namespaces, []string{"master"}) {
		t.Errorf("without rules no namespace is the master's: %+v, %v", got, err)
	}
}

// PA-12, TM-1: who is bound to a role for a time does not bind it for longer, and who was does not bind it at all.
func TestMembersForATime(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC) }
	until := func(hour int) *metav1.Time {
		if hour == 0 {
			return nil
		}
		return &metav1.Time{Time: at(hour)}
	}
	w := newWorld("update", requestctx.Allowed())
	index, err := protectedattr.New(protectedattr.Config{Protections: []protectedattr.Protection{{Name: "tier", Key: "tier", Namespace: "hammer",
		Role: protectedattr.Role{Kind: protectedattr.KindPolicyRole, Namespace: "hammer", Name: "keepers"}}}})
	if err != nil {
		t.Fatal(err)
	}
	w.snap.Protect = index
	w.snap.Rules = ruleset.Build(ruleset.Input{MasterNamespace: "master",
		Policies: []*policyv1alpha1.Policy{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{"keepers": {}}}},
		PolicyBindings: []*policyv1alpha1.PolicyBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "hammer"}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{
			"minnie": {RoleName: "keepers", UserNames: []string{"minnie"}, NotBefore: until(8), NotAfter: until(16)}}}},
	})
	for _, c := range []struct {
		now, from, to int
		passes        bool
	}{{10, 0, 16, true}, {10, 0, 12, true}, {10, 0, 17, false}, {10, 0, 0, false}, {10, 11, 12, true}, {7, 0, 12, false}, {7, 9, 12, true}, {10, 17, 18, false}} {
		chain := &oneAnswer{}
		ctx := requestctx.At(w.context(t), w.snap, at(c.now))
		bind := bindingWrite(&authz.RoleBinding{RoleRef: authz.RoleRef{Name: "keepers"}, NotBefore: until(c.from), NotAfter: until(c.to)}, authz.SchemeGroupVersion, "RoleBinding", "rolebindings", "hammer")
		err := (&ProtectedAttributes{Chain: chain}).Validate(ctx, as(bind, minnie), admission.NewObjectInterfacesFromScheme(policycodec.Scheme))
		if (err == nil) != c.passes || c.passes == (chain.asked != "") || err != nil && !apierrors.IsForbidden(unruled(err)) {
			t.Errorf("at %d, from %d to %d: %v, asked %q", c.now, c.from, c.to, err, chain.asked)
		}
	}
	// Without an instant only those count who are members at all times.
	bind := bindingWrite(&authz.RoleBinding{RoleRef: authz.RoleRef{Name: "keepers"}, NotBefore: until(9), NotAfter: until(12)}, authz.SchemeGroupVersion, "RoleBinding", "rolebindings", "hammer")
	if err := (&ProtectedAttributes{Chain: &oneAnswer{}}).Validate(w.context(t), as(bind, minnie), admission.NewObjectInterfacesFromScheme(policycodec.Scheme)); err != nil {
		t.Errorf("within the time of the member: %v", err)
	}
}

func unruled(err error) error {
	_, err = byGuard(err)
	return err
}

// PA-12: the chain is asked a question about the role as it is named, and about a resource.
func TestBindIsAskedAsAResource(t *testing.T) {
	for kind, want := range map[string]string{protectedattr.KindClusterRole: "rbac.authorization.k8s.io clusterroles", protectedattr.KindRole: "rbac.authorization.k8s.io roles", protectedattr.KindPolicyRole: authz.GroupName + " roles"} {
		got := bindVerb(minnie, protectedattr.Role{Kind: kind, Namespace: "hammer", Name: "keepers"}, "hammer")
		if got.APIGroup+" "+got.Resource != want || !got.ResourceRequest || got.Verb != "bind" || got.Name != "keepers" || got.Namespace != "hammer" {
			t.Errorf("%s: %+v", kind, got)
		}
	}
}

// PA-13: a revision is compared with what it was; what its data takes away counts.
func TestProtectedAttributesOfRevisions(t *testing.T) {
	w := protectedWorld(t)
	revision := func(labels map[string]string, data string) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ControllerRevision"}, ObjectMeta: metav1.ObjectMeta{Labels: labels}, Data: runtime.RawExtension{Raw: []byte(data)}}
	}
	const plain, carrying = `{"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`, `{"spec":{"template":{"metadata":{"labels":{"tier":"a"}}}}}`
	for _, c := range []struct {
		name     string
		old, new runtime.Object
		want     string
	}{
		{"data that loses it", revision(nil, carrying), revision(nil, plain), "tier"},
		{"the revision loses it", revision(map[string]string{"tier": "a"}, plain), revision(nil, plain), "tier"},
		{"the revision keeps it", revision(map[string]string{"tier": "a"}, plain), revision(map[string]string{"tier": "a"}, plain), ""},
		{"created with it", nil, revision(map[string]string{"tier": "a"}, plain), "tier"},
		{"created without it", nil, revision(nil, plain), ""},
	} {
		op := admission.Update
		if c.old == nil {
			op = admission.Create
		}
		attrs := admission.NewAttributesRecord(c.new, c.old, appsv1.SchemeGroupVersion.WithKind("ControllerRevision"), "hammer", "r", appsv1.SchemeGroupVersion.WithResource("controllerrevisions"), "", op, nil, false, edgar)
		wants(t, c.name, w.guard(t, &ProtectedAttributes{}, attrs), c.want)
	}
}

// FP-16, PA-13: a Binding is pinned to its pod for the sake of labels that something guards, and for nothing else.
func TestPinsAreForAReason(t *testing.T) {
	for _, c := range []struct {
		name   string
		fields bool
		pass   requestctx.Pass
		labels map[string]string
		want   bool
	}{
		{"a protected label", false, requestctx.Allowed(), map[string]string{"tier": "a"}, true}, {"another label", false, requestctx.Allowed(), map[string]string{"x": "y"}, false},
		{"another label, under a condition", false, conditional(allow), map[string]string{"x": "y"}, false}, {"any label, if fields are guarded", true, requestctx.Allowed(), map[string]string{"x": "y"}, true},
		{"no label", true, conditional(allow), nil, false},
	} {
		w := protectedWorld(t)
		w.slots[requestctx.Request] = c.pass
		if c.fields {
			w.snap.Fields, w.snap.Protect = labelTable(t), nil
		}
		if got := comparesPod(requestctx.From(w.context(t)), bindingOf("", c.labels), c.labels, nil); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		if got := comparesPod(requestctx.From(w.context(t)), bindingOf("", nil), nil, c.labels); c.labels != nil && c.labels["tier"] == "" && got != c.want {
			t.Errorf("%s, as an annotation: %v", c.name, got)
		}
	}
	w := newWorld("create", requestctx.Allowed())
	unguarded := admission.NewAttributesRecord(widget(nil), nil, schema.GroupVersionKind{}, "hammer", "w", schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}, "", admission.Create, nil, false, nil)
	w.snap.Fields = labelTable(t)
	if comparesPod(requestctx.From(w.context(t)), unguarded, map[string]string{"x": "y"}, nil) {
		t.Error("a resource of which no field is exclusive is compared")
	}
	if err := (&Pin{}).Admit(w.context(t), admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "hammer", "p", pods.GroupVersionResource, "binding", admission.Create, nil, false, nil), nil); err != nil {
		t.Errorf("a Binding without a body: %v", err)
	}
}

// PO-20: a deny within a namespace keeps the namespace, from whom it reaches and nobody else.
func TestDeniedWithin(t *testing.T) {
	w := usual(t)
	for _, c := range []struct {
		name string
		u    user.Info
		in   string
		want bool
	}{
		{"denied", userOf("edgar"), "hammer", true}, {"elsewhere", userOf("edgar"), "anvil", false}, {"nothing denied", userOf("free"), "hammer", false},
		{"a master", &user.DefaultInfo{Name: "edgar", Groups: []string{user.SystemPrivilegedGroup}}, "hammer", false}, {"nobody", nil, "hammer", false},
	} {
		if got := DeniedWithin(t.Context(), w.effects.Denials, w.snap, c.u, c.in); (got != nil) != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	w.snap.Rules = nil
	if got := DeniedWithin(t.Context(), w.effects.Denials, w.snap, userOf("edgar"), "hammer"); got != nil {
		t.Errorf("no rules: %+v", got)
	}
}

// SV-8, TR-6: what each check looks at.
func TestWhatChecksHandle(t *testing.T) {
	for op, want := range map[admission.Operation][2]bool{admission.Create: {true, true}, admission.Update: {true, true}, admission.Delete: {true, false}, admission.Connect: {false, false}} {
		if got := [2]bool{(OurGroups{}).Handles(op), (Knowing{}).Handles(op)}; got != want {
			t.Errorf("%s: %v, want %v", op, got, want)
		}
	}
}

// TR-6: where no system looks at fields, none are written, whatever an earlier check noted.
func TestWrittenWithoutFields(t *testing.T) {
	w, _ := withFields(t, "update", requestctx.Allowed(), tierVerb)
	told := &watcher{}
	w.plugin.cfg.Observer = told
	ctx := w.context(t)
	if err := w.plugin.Validate(ctx, writeOf(admission.Update, "", tier("a"), tier("b")), admission.NewObjectInterfacesFromScheme(scheme.Scheme)); err != nil || len(told.seen) != 1 {
		t.Fatalf("%v, told %d times", err, len(told.seen))
	}
	if _, looked := told.seen[0].Written(); !looked {
		t.Error("fields were looked at")
	}
	w.plugin.cfg.Fields = nil
	if _, looked := told.seen[0].Written(); looked {
		t.Error("nothing looks at fields")
	}
}

// FP-6: nobody is granular without the system or its table, whatever authorization has answered.
func TestNoFieldsWithoutATable(t *testing.T) {
	for name, spoil := range map[string]func(*world){"the system is off": func(w *world) { w.plugin.cfg.Fields = nil }, "there is no table": func(w *world) { w.snap.Fields = nil }} {
		w, _ := withFields(t, "update", requestctx.Granular(nil).Answered(resolved(allow)), fieldperm.Verb, specVerb)
		spoil(w)
		holder := requestctx.From(w.context(t))
		known := w.factsOf(t, writeOf(admission.Update, "", sized("1"), sized("2")))
		if out := w.plugin.cfg.Fields.reach(t.Context(), holder, resolved(allow), known); out.Decision != authorizer.DecisionNoOpinion {
			t.Errorf("%s: %+v", name, out)
		}
		if by, err := w.plugin.cfg.Fields.check(t.Context(), holder, 0, known, nil); err != nil {
			t.Errorf("%s: %+v, %v", name, by, err)
		}
	}
}
