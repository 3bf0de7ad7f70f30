package enforce

import (
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"proviso.dev/proviso/internal/request/requestctx"
)

// PO-20: a deny that names a kind is not evaded by calling the kind something else, in the spec or in the status of its
// definition.
func TestRenamingAKind(t *testing.T) {
	w := newEffectsWorld(t, map[string][]rule{
		"una":  {everything, {Deny: true, Verbs: []string{"update"}, ResourceKinds: []string{"Widget"}}},
		"ada":  {everything, {Deny: true, Verbs: []string{"update"}, ResourceKinds: []string{"secrets"}}},
		"free": {everything},
	}, nil)
	definition := func(kind, accepted string) *apiextensions.CustomResourceDefinition {
		d := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"}}
		d.Spec.Group, d.Spec.Names = "example.com", apiextensions.CustomResourceDefinitionNames{Plural: "widgets", Kind: kind}
		d.Status.AcceptedNames.Kind = accepted
		d.Spec.Version, d.Spec.Versions = "v1", []apiextensions.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}}
		return d
	}
	for name, c := range map[string]struct {
		old, new *apiextensions.CustomResourceDefinition
		sub      string
		refused  bool
	}{
		"in the spec":             {definition("Widget", "Widget"), definition("Gadget", "Widget"), "", true},
		"in the status":           {definition("Widget", "Widget"), definition("Widget", "Gadget"), "status", true},
		"in a spec that is new":   {definition("Widget", ""), definition("Gadget", ""), "", true},
		"the same":                {definition("Widget", "Widget"), definition("Widget", "Widget"), "", false},
		"a status that is new":    {definition("Widget", ""), definition("Widget", "Widget"), "status", false},
		"a status without a kind": {definition("Widget", "Widget"), definition("Widget", ""), "status", false},
	} {
		for _, who := range []string{"una", "ada", "free"} {
			attrs := admission.NewAttributesRecord(c.new, c.old, schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, "", c.old.Name,
				definitionResource.WithVersion("v1"), c.sub, admission.Update, nil, false, userOf(who))
			ctx := w.context()
			_, err := w.effects.check(ctx, requestctx.From(ctx), New(Config{}).facts(requestctx.From(ctx), attrs, nil), nil)
			refused := c.refused && who == "una"
			if apierrors.IsForbidden(err) != refused || err != nil && !refused || refused && !strings.Contains(err.Error(), "the kind Widget would be hidden from rules") {
				t.Errorf("%s by %s: %v, want refused %v", name, who, err, refused)
			}
		}
	}
}
