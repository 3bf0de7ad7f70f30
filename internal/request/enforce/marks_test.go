package enforce

import (
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"proviso.dev/proviso/internal/request/requestctx"
)

// PO-20: callers to whom a rule denies the delete cannot set a label or an annotation that has a controller delete it.
func TestMarks(t *testing.T) {
	kinds := []string{"secrets", "apiservices", "leases", "flowschemas", "ipaddresses"}
	w := newEffectsWorld(t, map[string][]rule{
		"edgar": {everything, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: kinds, Where: `resource.metadata.name == "kept"`}},
		"free":  {everything, {Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"nodes"}}},
	}, nil)
	const invalid, auto, server, spec, managed = "kubernetes.io/legacy-token-invalid-since", "kube-aggregator.kubernetes.io/automanaged",
		"apiserver.kubernetes.io/identity", "apf.kubernetes.io/autoupdate-spec", "ipaddress.kubernetes.io/managed-by"
	labels := func(o *unstructured.Unstructured, key string) { o.SetLabels(map[string]string{key: "true"}) }
	annotations := func(o *unstructured.Unstructured, key string) { o.SetAnnotations(map[string]string{key: "true"}) }
	for _, c := range []struct {
		name, version, kind, namespace, key string
		was, is                             func(o *unstructured.Unstructured, key string)
		refused                             bool
	}{
		{"an invalid token", "v1", "Secret", "hammer", invalid, nil, labels, true},
		{"a token that is valid again", "v1", "Secret", "hammer", invalid, labels, nil, true},
		{"another change of a token", "v1", "Secret", "hammer", invalid, labels, labels, false},
		{"another label", "v1", "Secret", "hammer", "note", nil, labels, false},
		{"the label as an annotation", "v1", "Secret", "hammer", invalid, nil, annotations, false},
		{"an API service", "apiregistration.k8s.io/v1", "APIService", "", auto, nil, labels, true},
		{"a lease of a server", "coordination.k8s.io/v1", "Lease", "kube-system", server, nil, labels, true},
		{"a lease that expires", "coordination.k8s.io/v1", "Lease", "kube-system", server, labels, labels, true},
		{"a lease of nobody", "coordination.k8s.io/v1", "Lease", "kube-system", server, nil, nil, false},
		{"a lease elsewhere", "coordination.k8s.io/v1", "Lease", "hammer", server, nil, labels, false},
		{"a flow schema", "flowcontrol.apiserver.k8s.io/v1", "FlowSchema", "", spec, nil, annotations, true},
		{"an address", "networking.k8s.io/v1", "IPAddress", "", managed, labels, labels, true},
		{"an address of nobody", "networking.k8s.io/v1", "IPAddress", "", managed, nil, nil, false},
	} {
		for _, object := range []string{"kept", "plain"} {
			was, is := thing(c.version, c.kind, c.namespace, object, nil), thing(c.version, c.kind, c.namespace, object, nil)
			if c.was != nil {
				c.was(was, c.key)
			}
			if c.is != nil {
				c.is(is, c.key)
			}
			for _, who := range []string{"edgar", "free"} {
				refused := c.refused && who == "edgar" && object == "kept"
				if err := w.ask(request{who: who, operation: admission.Update, old: was, new: is}); apierrors.IsForbidden(err) != refused || err != nil && !refused {
					t.Errorf("%s, %s, by %s: %v, want refused %v", c.name, object, who, err, refused)
				}
			}
		}
	}
}

// PO-20: dependents that stay only because of a finalizer of their owner are deleted without it, or if the owner is
// deleted because of its own owner.
func TestFinalizersThatOrphan(t *testing.T) {
	w := usual(t)
	top := w.put("v1", "Pod", "hammer", "top", nil)
	owner := w.put("v1", "Secret", "hammer", "owner", nil)
	w.put("v1", "ConfigMap", "hammer", "kept", labelled, owner)
	with := func(below *unstructured.Unstructured, finalizers ...string) *unstructured.Unstructured {
		o := owner.DeepCopy()
		if below != nil {
			o = thing("v1", "Secret", "hammer", "owner", nil, below)
		}
		o.SetFinalizers(finalizers)
		return o
	}
	const orphans, foreground = metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents
	for name, c := range map[string]struct {
		old, new *unstructured.Unstructured
		refused  bool
	}{
		"no longer orphan":         {with(nil, orphans, "a"), with(nil, "a"), true},
		"orphan from now on":       {with(nil, "a"), with(nil, orphans, "a"), false},
		"delete in the foreground": {with(nil), with(nil, foreground), true},
		"no longer":                {with(nil, foreground), with(nil), false},
		"another finalizer":        {with(nil, orphans, "a"), with(nil, orphans), false},
		"an owner, orphaning":      {with(nil, orphans), with(top, orphans), true},
	} {
		for _, who := range []string{"edgar", "free"} {
			w.expect(name, c.refused && who == "edgar", request{who: who, operation: admission.Update, old: c.old, new: c.new})
		}
	}
}

// PO-20: deleting a definition does not orphan what it owns, although the request asks for it.
func TestDefinitionsDoNotOrphan(t *testing.T) {
	w := newEffectsWorld(t, map[string][]rule{"edgar": {everything, protectedMaps}, "free": {everything}}, nil)
	definition := w.put("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "widgets.example.com", nil)
	w.put("v1", "ConfigMap", "hammer", "c", labelled, definition)
	w.expect("a definition", true, request{who: "edgar", operation: admission.Delete, old: definition, options: orphan()})
	w.expect("a definition", false, request{who: "free", operation: admission.Delete, old: definition, options: orphan()})
	definition.SetFinalizers([]string{metav1.FinalizerOrphanDependents})
	w.expect("one that orphans already", false, request{who: "edgar", operation: admission.Delete, old: definition, options: orphan()})
	w.expect("one that orphans no more", true, request{who: "edgar", operation: admission.Delete, old: definition, options: background()})
}

// PO-20: a status that says a definition is not served has its objects taken for gone, like a version less.
func TestUnservingByStatus(t *testing.T) {
	w := newEffectsWorld(t, map[string][]rule{"edgar": {everything, protectedMaps}, "free": {everything}}, nil)
	w.put("v1", "ConfigMap", "hammer", "c", labelled, w.put("example.com/v1", "Widget", "hammer", "w", nil))
	served := func() *apiextensions.CustomResourceDefinition {
		d := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"}}
		d.Spec.Group, d.Spec.Names.Plural = "example.com", "widgets"
		d.Spec.Versions = []apiextensions.CustomResourceDefinitionVersion{{Name: "v1", Served: true}}
		d.Status.AcceptedNames = apiextensions.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"}
		for _, condition := range []apiextensions.CustomResourceDefinitionConditionType{apiextensions.Established, apiextensions.NamesAccepted} {
			d.Status.Conditions = append(d.Status.Conditions, apiextensions.CustomResourceDefinitionCondition{Type: condition, Status: apiextensions.ConditionTrue})
		}
		return d
	}
	for name, c := range map[string]struct {
		change  func(*apiextensions.CustomResourceDefinitionStatus)
		refused bool
	}{
		"no conditions": {func(s *apiextensions.CustomResourceDefinitionStatus) { s.Conditions = nil }, true},
		"not established": {func(s *apiextensions.CustomResourceDefinitionStatus) {
			s.Conditions[0].Status = apiextensions.ConditionFalse
		}, true},
		"other names":  {func(s *apiextensions.CustomResourceDefinitionStatus) { s.AcceptedNames.Plural = "gadgets" }, true},
		"another kind": {func(s *apiextensions.CustomResourceDefinitionStatus) { s.AcceptedNames.Kind = "Gadget" }, true},
		"a short name": {func(s *apiextensions.CustomResourceDefinitionStatus) { s.AcceptedNames.ShortNames = []string{"w"} }, false},
		"a message":    {func(s *apiextensions.CustomResourceDefinitionStatus) { s.Conditions[0].Message = "m" }, false},
	} {
		old, now := served(), served()
		c.change(&now.Status)
		for who, refused := range map[string]bool{"edgar": c.refused, "free": false} {
			attrs := admission.NewAttributesRecord(now, old, schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, "", old.Name,
				definitionResource.WithVersion("v1"), "status", admission.Update, nil, false, userOf(who))
			ctx := w.context()
			_, err := w.effects.check(ctx, requestctx.From(ctx), New(Config{}).facts(requestctx.From(ctx), attrs, nil), nil)
			if apierrors.IsForbidden(err) != refused || err != nil && !refused {
				t.Errorf("%s by %s: %v, want refused %v", name, who, err, refused)
			}
		}
	}
}
