package enforce

import (
	"context"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes/scheme"

	"proviso.dev/proviso/internal/engine/protectedattr"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/requestctx"
)

// protectedWorld protects the label tier, by a ClusterRole everywhere and by a Role in hammer. Minnie is a member of
// both, and of clerks.
func protectedWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld("update", requestctx.Allowed())
	index, err := protectedattr.New(protectedattr.Config{Protections: []protectedattr.Protection{
		{Name: "tier", Key: "tier", Role: protectedattr.Role{Kind: protectedattr.KindClusterRole, Name: "keepers"}},
		{Name: "shelf", Namespace: "hammer", Key: "shelf", Role: protectedattr.Role{Kind: protectedattr.KindRole, Namespace: "hammer", Name: "clerks"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	w.snap.Protect = index
	minnie := []rbacv1.Subject{{Kind: "User", Name: "minnie"}}
	w.snap.Rules = ruleset.Build(ruleset.Input{MasterNamespace: "master",
		ClusterRoles:        []*rbacv1.ClusterRole{{ObjectMeta: metav1.ObjectMeta{Name: "keepers"}}},
		ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{{ObjectMeta: metav1.ObjectMeta{Name: "keepers"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "keepers"}, Subjects: minnie}},
		Roles:               []*rbacv1.Role{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "clerks"}}},
		RoleBindings:        []*rbacv1.RoleBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "clerks"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "clerks"}, Subjects: minnie}},
	})
	return w
}

// as gives an admission another caller.
func as(attrs admission.Attributes, who user.Info) admission.Attributes { return caller{attrs, who} }

type caller struct {
	admission.Attributes
	who user.Info
}

func (c caller) GetUserInfo() user.Info { return c.who }

var (
	edgar  = &user.DefaultInfo{Name: "edgar"}
	minnie = &user.DefaultInfo{Name: "minnie"}
	master = &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}
)

func (w *world) guard(t *testing.T, p *ProtectedAttributes, attrs admission.Attributes) error {
	t.Helper()
	return p.Validate(w.context(t), attrs, admission.NewObjectInterfacesFromScheme(scheme.Scheme))
}

// PA-2, PA-3, PA-5: who is no member of the role neither sets nor changes nor removes a protected label.
func TestProtectedAttributesNeedMembership(t *testing.T) {
	w := protectedWorld(t)
	p := &ProtectedAttributes{}
	for name, c := range map[string]struct {
		who  user.Info
		a, b map[string]string
		want string
	}{
		"set":            {edgar, nil, map[string]string{"tier": "a"}, "tier"},
		"change":         {edgar, map[string]string{"tier": "a"}, map[string]string{"tier": "b"}, "tier"},
		"remove":         {edgar, map[string]string{"tier": "a"}, nil, "tier"},
		"leave":          {edgar, map[string]string{"tier": "a"}, map[string]string{"tier": "a", "x": "y"}, ""},
		"member":         {minnie, map[string]string{"tier": "a"}, map[string]string{"tier": "b"}, ""},
		"system:masters": {master, map[string]string{"tier": "a"}, nil, ""},
		"nobody":         {nil, map[string]string{"tier": "a"}, nil, "tier"},
		"of a Role":      {edgar, nil, map[string]string{"shelf": "a"}, "shelf"},
		"its member":     {minnie, nil, map[string]string{"shelf": "a"}, ""},
	} {
		err := w.guard(t, p, as(writeOf(admission.Update, "", widget(c.a), widget(c.b)), c.who))
		wants(t, name, err, c.want)
		if by, _ := byGuard(err); c.want != "" && (len(by.Rules) == 0 || !strings.Contains(by.Rules[0], "ProtectedAttribute ")) { // OP-7
			t.Errorf("%s: the refusal names %v", name, by.Rules)
		}
	}
	w.snap.Rules = nil
	wants(t, "no rules, no members", w.guard(t, p, as(writeOf(admission.Update, "", widget(nil), tier("a")), minnie)), "tier")
	w.snap.Synced = false
	wants(t, "before the sync", w.guard(t, p, as(writeOf(admission.Update, "", widget(nil), tier("a")), edgar)), "")
	w.snap.Synced, w.snap.Protect = true, nil
	wants(t, "nothing is protected", w.guard(t, p, as(writeOf(admission.Update, "", widget(nil), tier("a")), edgar)), "")
	wants(t, "no holder", p.Validate(t.Context(), writeOf(admission.Update, "", widget(nil), tier("a")), nil), "has no authorization decision")
}

// PA-13: what the body does not show is looked at where it is written, and what cannot be looked at is refused to
// everybody who is not exempt.
func TestProtectedAttributesBehindARequest(t *testing.T) {
	w := protectedWorld(t)
	labels := map[string]string{"tier": "a"}
	for name, c := range map[string]struct {
		behind Behind
		labels map[string]string
		who    user.Info
		want   string
	}{
		"set by a Binding":       {knownBehind{pod: podWith(nil, nil)}, labels, edgar, "tier"},
		"changed by a Binding":   {knownBehind{pod: podWith(map[string]string{"tier": "b"}, nil)}, labels, edgar, "tier"},
		"as the pod has it":      {knownBehind{pod: podWith(labels, nil)}, labels, edgar, ""},
		"another label":          {nil, map[string]string{"x": "y"}, edgar, ""},
		"by a member":            {knownBehind{pod: podWith(nil, nil)}, labels, minnie, ""},
		"the pod is unknown":     {nil, labels, edgar, "could not be examined"},
		"unknown to masters":     {nil, labels, master, ""},
		"the pod is not there":   {knownBehind{pod: podWith(nil, apierrors.NewNotFound(corev1.Resource("pods"), "p"))}, labels, master, "not found"},
		"the pod cannot be read": {knownBehind{pod: podWith(nil, errors.New("etcd is away"))}, labels, edgar, "could not be examined"},
	} {
		wants(t, name, w.guard(t, &ProtectedAttributes{Behind: c.behind}, as(bindingOf("7", c.labels), c.who)), c.want)
	}
	revision := func(data string) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ControllerRevision"}, Data: runtime.RawExtension{Raw: []byte(data)}}
	}
	const plain, carrying = `{"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`, `{"spec":{"template":{"metadata":{"labels":{"tier":"a"}}}}}`
	write := func(old, new runtime.Object) admission.Attributes {
		op := admission.Update
		if old == nil {
			op = admission.Create
		}
		return as(admission.NewAttributesRecord(new, old, appsv1.SchemeGroupVersion.WithKind("ControllerRevision"), "hammer", "r", appsv1.SchemeGroupVersion.WithResource("controllerrevisions"), "", op, nil, false, nil), edgar)
	}
	p := &ProtectedAttributes{}
	wants(t, "a revision that carries it", w.guard(t, p, write(nil, revision(carrying))), "tier")
	wants(t, "a revision that does not", w.guard(t, p, write(nil, revision(plain))), "")
	wants(t, "one that comes to carry it", w.guard(t, p, write(revision(plain), revision(carrying))), "tier")
	wants(t, "one that has always", w.guard(t, p, write(revision(carrying), revision(carrying))), "")
	wants(t, "one that cannot be read", w.guard(t, p, write(nil, revision(`{"spec":[]}`))), "could not be examined")
	wants(t, "one that is something else", w.guard(t, p, write(nil, widget(nil))), "could not be examined")
	wants(t, "one that was something else", w.guard(t, p, write(widget(nil), revision(plain))), "could not be examined")
}

// PA-13: what a conversion to another version adds or takes away, the write does.
func TestProtectedAttributesInOtherVersions(t *testing.T) {
	w := protectedWorld(t)
	p := &ProtectedAttributes{Behind: knownBehind{versions: func(schema.GroupKind) (string, []string) { return "v1", []string{"v1", "v7"} }}}
	write := writeOf(admission.Update, "", widget(nil), widget(nil))
	wants(t, "a version that cannot be had", w.guard(t, p, as(write, edgar)), "version v7")
	wants(t, "for masters", w.guard(t, p, as(write, master)), "")
	kinds := runtime.NewScheme()
	kinds.AddKnownTypeWithName(schema.GroupVersionKind{Group: "example.com", Version: "v7", Kind: "Widget"}, widget(nil))
	objects := adds{admission.NewObjectInterfacesFromScheme(kinds)}
	wants(t, "a label that a conversion adds", p.Validate(w.context(t), as(write, edgar), objects), "converted to version v7")
	wants(t, "by a member", p.Validate(w.context(t), as(write, minnie), objects), "")
}

// PA-12: binding a role that guards something needs bind on it by name, or membership at the same or a wider scope.
func TestBindingAGuardedRole(t *testing.T) {
	w := protectedWorld(t)
	bind := func(kind, namespace, roleKind, role string) admission.Attributes {
		ref := rbacv1.RoleRef{Kind: roleKind, Name: role}
		var o runtime.Object = &rbacv1.RoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: kind}, RoleRef: ref}
		resource := "rolebindings"
		if kind == "ClusterRoleBinding" {
			o, resource = &rbacv1.ClusterRoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: kind}, RoleRef: ref}, "clusterrolebindings"
		}
		return admission.NewAttributesRecord(o, nil, rbacv1.SchemeGroupVersion.WithKind(kind), namespace, "b", rbacv1.SchemeGroupVersion.WithResource(resource), "", admission.Create, nil, false, nil)
	}
	const guards = "guards protected attributes"
	for name, c := range map[string]struct {
		attrs admission.Attributes
		who   user.Info
		chain authorizer.Decision
		err   error
		want  string
		asked string
	}{
		"a role that guards nothing":       {bind("RoleBinding", "hammer", "Role", "others"), edgar, authorizer.DecisionNoOpinion, nil, "", ""},
		"a role elsewhere":                 {bind("RoleBinding", "anvil", "Role", "clerks"), edgar, authorizer.DecisionNoOpinion, nil, "", ""},
		"a role":                           {bind("RoleBinding", "hammer", "Role", "clerks"), edgar, authorizer.DecisionNoOpinion, nil, guards, "bind roles hammer clerks"},
		"a role, denied":                   {bind("RoleBinding", "hammer", "Role", "clerks"), edgar, authorizer.DecisionDeny, nil, guards, "bind roles hammer clerks"},
		"a role, impossible":               {bind("RoleBinding", "hammer", "Role", "clerks"), edgar, 99, nil, guards, "bind roles hammer clerks"},
		"a role, with bind":                {bind("RoleBinding", "hammer", "Role", "clerks"), edgar, authorizer.DecisionAllow, nil, "", "bind roles hammer clerks"},
		"a role, and the chain fails":      {bind("RoleBinding", "hammer", "Role", "clerks"), edgar, authorizer.DecisionNoOpinion, errors.New("boom"), "boom", "bind roles hammer clerks"},
		"a role, by a member":              {bind("RoleBinding", "hammer", "Role", "clerks"), minnie, authorizer.DecisionNoOpinion, nil, "", ""},
		"a cluster role":                   {bind("ClusterRoleBinding", "", "ClusterRole", "keepers"), edgar, authorizer.DecisionNoOpinion, nil, guards, "bind clusterroles  keepers"},
		"a cluster role in a namespace":    {bind("RoleBinding", "anvil", "ClusterRole", "keepers"), edgar, authorizer.DecisionNoOpinion, nil, guards, "bind clusterroles anvil keepers"},
		"a cluster role, by a member":      {bind("ClusterRoleBinding", "", "ClusterRole", "keepers"), minnie, authorizer.DecisionNoOpinion, nil, "", ""},
		"by nobody":                        {bind("RoleBinding", "hammer", "Role", "clerks"), nil, authorizer.DecisionAllow, nil, "the caller is not known", ""},
		"something else where bindings go": {admission.NewAttributesRecord(thing(rbacv1.SchemeGroupVersion.String(), "RoleBinding", "hammer", "b", nil), nil, rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), "hammer", "b", rbacv1.SchemeGroupVersion.WithResource("rolebindings"), "", admission.Create, nil, false, nil), edgar, authorizer.DecisionAllow, nil, "cannot be read", ""},
	} {
		chain := &oneAnswer{decision: c.chain, err: c.err}
		err := w.guard(t, &ProtectedAttributes{Chain: chain}, as(c.attrs, c.who))
		wants(t, name, err, c.want)
		if by, _ := byGuard(err); c.want == guards && (len(by.Rules) != 1 || by.Ask == nil || by.Ask.Attributes.GetVerb() != "bind") { // OP-7, TR-12
			t.Errorf("%s: the refusal is by %+v", name, by)
		}
		if chain.asked != c.asked {
			t.Errorf("%s: the chain was asked %q, want %q", name, chain.asked, c.asked)
		}
	}
	w.snap.Rules = nil
	wants(t, "no rules, no members", w.guard(t, &ProtectedAttributes{Chain: &oneAnswer{}}, as(bind("RoleBinding", "hammer", "Role", "clerks"), minnie)), guards)
}

// oneAnswer is a chain with one answer.
type oneAnswer struct {
	decision authorizer.Decision
	err      error
	asked    string
}

func (o *oneAnswer) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	o.asked = strings.Join([]string{a.GetVerb(), a.GetResource(), a.GetNamespace(), a.GetName()}, " ")
	return o.decision, "", o.err
}

// PO-6: the namespace whose policy holds everywhere is not deleted, by nobody; every other one is.
func TestImmortalNamespace(t *testing.T) {
	check := Immortal{Namespace: "master"}
	at := func(group, resource, sub, name string) admission.Attributes {
		return admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, name, name, schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}, sub, admission.Delete, nil, false, master)
	}
	wants(t, "master", check.Validate(t.Context(), at("", "namespaces", "", "master"), nil), "cannot be deleted")
	for name, attrs := range map[string]admission.Attributes{"another": at("", "namespaces", "", "hammer"), "another kind": at("", "configmaps", "", "master"), "another group": at("x", "namespaces", "", "master"), "a subresource": at("", "namespaces", "status", "master")} {
		wants(t, name, check.Validate(t.Context(), attrs, nil), "")
	}
	for op, want := range map[admission.Operation]bool{admission.Delete: true, admission.Create: false, admission.Update: false, admission.Connect: false} {
		if check.Handles(op) != want {
			t.Errorf("%s: handled %v", op, !want)
		}
	}
}

// PA-3: a review and an admission ask the same question.
func TestProtectRequest(t *testing.T) {
	w := protectedWorld(t)
	review := ProtectRequest(w.snap, minnie, authorizer.AttributesRecord{APIGroup: "g", Resource: "r", Subresource: "s", Namespace: "hammer", Name: "n"})
	admitted := ProtectRequest(w.snap, minnie, admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "hammer", "n", schema.GroupVersionResource{Group: "g", Resource: "r"}, "s", admission.Create, nil, false, nil))
	for _, req := range []*protectedattr.Request{review, admitted} {
		if req.Group != "g" || req.Resource != "r" || req.Subresource != "s" || req.Namespace != "hammer" || req.Name != "n" || req.User != "minnie" {
			t.Errorf("%+v", req)
		}
		keepers, clerks := protectedattr.Role{Kind: protectedattr.KindClusterRole, Name: "keepers"}, protectedattr.Role{Kind: protectedattr.KindRole, Namespace: "hammer", Name: "clerks"}
		if !req.Member("anvil", keepers) || !req.Member("hammer", clerks) || req.Member("hammer", protectedattr.Role{Kind: protectedattr.KindClusterRole, Name: "clerks"}) {
			t.Error("members are told wrongly")
		}
	}
	if req := ProtectRequest(w.snap, nil, authorizer.AttributesRecord{}); req.Member != nil || req.User != "" {
		t.Errorf("nobody is a member: %+v", req)
	}
}
