package enforce

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
)

const rbacV1 = "rbac.authorization.k8s.io/v1"

func clusterRole(name, label string) *unstructured.Unstructured {
	var labels map[string]string
	if label != "" {
		labels = map[string]string{label: "true"}
	}
	return thing(rbacV1, "ClusterRole", "", name, labels)
}

// gatheringWorld has admin, which gathers what is labelled to-admin, and view, which gathers what is labelled to-view
// and is labelled to-admin.
func gatheringWorld(t *testing.T) *effectsWorld {
	roles := []string{"clusterroles"}
	w := newEffectsWorld(t, map[string][]rule{
		"greta": {everything, {Deny: true, Verbs: []string{"update", "patch"}, ResourceKinds: roles, ResourceNames: []string{"admin"}, Description: "admin stays"}},
		"patty": {everything, {Deny: true, Verbs: []string{"patch"}, ResourceKinds: roles, Where: `resource.metadata.name == "admin"`}},
		"vera":  {everything, {Deny: true, Verbs: []string{"update"}, ResourceKinds: roles, ResourceNames: []string{"view"}}},
		"odd":   {everything, {Deny: true, Verbs: []string{"update"}, ResourceKinds: roles, ResourceNames: []string{"other"}}},
		"dora":  {everything, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: roles}},
	}, nil)
	gathers := func(name, by, label string) {
		w.put(rbacV1, "ClusterRole", "", name, clusterRole(name, label).GetLabels()).Object["aggregationRule"] = map[string]any{
			"clusterRoleSelectors": []any{map[string]any{"matchLabels": map[string]any{by: "true"}}}}
	}
	gathers("admin", "to-admin", "")
	gathers("view", "to-view", "to-admin")
	w.put(rbacV1, "ClusterRole", "", "plain", nil)
	return w
}

// NI-4: the aggregation controller changes the roles that gather the one that is written, directly and by way of a
// third. A caller who is denied one of those changes is refused, and the log names the rule.
func TestRolesThatAreGathered(t *testing.T) {
	w := gatheringWorld(t)
	for _, c := range []struct {
		name string
		r    request
		// refused is to whom it is refused.
		refused string
	}{
		{"a new role", request{operation: admission.Create, new: clusterRole("new", "to-admin")}, "greta patty"},
		{"a new role of a third", request{operation: admission.Create, new: clusterRole("new", "to-view")}, "greta patty vera"},
		{"one that nothing gathers", request{operation: admission.Create, new: clusterRole("new", "to-nobody")}, ""},
		{"one without labels", request{operation: admission.Create, new: clusterRole("new", "")}, ""},
		{"a label more", request{operation: admission.Update, old: clusterRole("plain", ""), new: clusterRole("plain", "to-admin")}, "greta patty"},
		{"a label less", request{operation: admission.Update, old: clusterRole("plain", "to-admin"), new: clusterRole("plain", "")}, "greta patty"},
		{"a delete", request{operation: admission.Delete, old: clusterRole("plain", "to-admin"), options: &metav1.DeleteOptions{}}, "greta patty"},
		{"the role itself", request{operation: admission.Update, old: clusterRole("view", ""), new: clusterRole("view", "to-view")}, ""},
		{"another kind", request{operation: admission.Create, new: thing("v1", "Node", "", "new", map[string]string{"to-admin": "true"})}, ""},
	} {
		for _, who := range []string{"greta", "patty", "vera", "odd", "dora", "clark"} {
			c.r.who = who
			refused := strings.Contains(c.refused, who)
			err := w.ask(c.r)
			if apierrors.IsForbidden(err) != refused || err != nil && !refused {
				t.Errorf("%s by %s: %v, want refused %v", c.name, who, err, refused)
				continue
			}
			if refused && (!strings.Contains(err.Error(), "another cluster role gathers this one") || len(w.by.Rules) == 0 || w.by.Ask == nil || w.by.Ask.Attributes.GetName() != "") {
				t.Errorf("%s by %s: %v; %+v", c.name, who, err, w.by)
			}
		}
	}
}

// NI-4: what cannot be read may gather the role. A caller who is denied no change of a role is not held up.
func TestRolesThatCannotBeRead(t *testing.T) {
	odd := map[string]any{"clusterRoleSelectors": []any{map[string]any{"matchExpressions": []any{map[string]any{"key": "a", "operator": "Perhaps"}}}}}
	for name, spoil := range map[string]func(*effectsWorld){
		"an error":       func(w *effectsWorld) { w.broken = errors.New("etcd is away") },
		"too many":       func(w *effectsWorld) { w.more = true },
		"a bad selector": func(w *effectsWorld) { w.objects["ClusterRole//plain"].Object["aggregationRule"] = odd },
		"no role":        func(w *effectsWorld) { w.objects["ClusterRole//plain"].Object["rules"] = "none" },
	} {
		w := gatheringWorld(t)
		spoil(w)
		for who, refused := range map[string]bool{"greta": true, "odd": true, "dora": false, "clark": false} {
			err := w.ask(request{who: who, operation: admission.Create, new: clusterRole("new", "to-nobody")})
			if apierrors.IsForbidden(err) != refused || refused && !strings.Contains(err.Error(), "the server cannot tell which of them gather this one") {
				t.Errorf("%s: %s: %v, want refused %v", name, who, err, refused)
			}
		}
	}
}

// NI-4: a token secret that is given to another service account is deleted by the token controller.
func TestTokensThatAreGivenAway(t *testing.T) {
	w := newEffectsWorld(t, nil, map[string][]rule{
		"edgar": {everything, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"secrets"}, Where: `resource.metadata.name == "kept"`}},
		"free":  {everything, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"pods"}}},
	})
	token := func(kind, namespace, name string, annotations map[string]string) *unstructured.Unstructured {
		o := thing("v1", kind, namespace, name, nil)
		o.SetAnnotations(annotations)
		return o
	}
	one, two := map[string]string{corev1.ServiceAccountNameKey: "one"}, map[string]string{corev1.ServiceAccountNameKey: "two"}
	uid, empty := map[string]string{corev1.ServiceAccountNameKey: "one", corev1.ServiceAccountUIDKey: "u"}, map[string]string{corev1.ServiceAccountNameKey: ""}
	other := map[string]string{corev1.ServiceAccountNameKey: "one", "note": "x"}
	for _, c := range []struct {
		name, kind, namespace, object string
		was, is                       map[string]string
		refused                       bool
	}{
		{"to another account", "Secret", "hammer", "kept", one, two, true},
		{"to nobody", "Secret", "hammer", "kept", one, nil, true},
		{"to the empty name", "Secret", "hammer", "kept", nil, empty, true},
		{"to another account of that name", "Secret", "hammer", "kept", one, uid, true},
		{"another annotation", "Secret", "hammer", "kept", one, other, false},
		{"the same", "Secret", "hammer", "kept", uid, uid, false},
		{"another secret", "Secret", "hammer", "mine", one, two, false},
		{"another kind", "ConfigMap", "hammer", "kept", one, two, false},
		{"elsewhere", "Secret", "anvil", "kept", one, two, false},
	} {
		for who, denied := range map[string]bool{"edgar": true, "free": false} {
			err := w.ask(request{who: who, operation: admission.Update, old: token(c.kind, c.namespace, c.object, c.was), new: token(c.kind, c.namespace, c.object, c.is)})
			if refused := denied && c.refused; apierrors.IsForbidden(err) != refused || refused && !strings.Contains(err.Error(), "has the token controller delete the secret") {
				t.Errorf("%s by %s: %v, want refused %v", c.name, who, err, refused)
			}
		}
	}
}
