package discovery

import (
	"testing"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"proviso.dev/proviso/internal/state/snapshot"
)

// followed are objects whose events come when a test says so.
type followed struct {
	cache.Indexer
	handlers []cache.ResourceEventHandler
}

type registered struct {
	cache.ResourceEventHandlerRegistration
}

func (registered) HasSynced() bool { return true }

func (f *followed) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	f.handlers = append(f.handlers, h)
	return registered{}, nil
}

func (f *followed) GetIndexer() cache.Indexer { return f.Indexer }

func (f *followed) tell(obj any) {
	for _, h := range f.handlers {
		h.OnUpdate(obj, obj)
	}
}

func boxes(generation int64, versions ...apiextensions.CustomResourceDefinitionVersion) *apiextensions.CustomResourceDefinition {
	d := &apiextensions.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "boxes.example.com", UID: "u", Generation: generation}}
	d.Spec.Group, d.Spec.Names.Plural, d.Spec.Names.Kind, d.Spec.Versions = "example.com", "boxes", "Box", versions
	return d
}

func boxVersion(name string, storage bool, description string, fields ...string) apiextensions.CustomResourceDefinitionVersion {
	s := &apiextensions.JSONSchemaProps{Type: "object", Description: description, Properties: map[string]apiextensions.JSONSchemaProps{}}
	for _, f := range fields {
		s.Properties[f] = apiextensions.JSONSchemaProps{Type: "string"}
	}
	return apiextensions.CustomResourceDefinitionVersion{Name: name, Served: true, Storage: storage, Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: s}}
}

// NI-5: a request that was decided before a definition got another version, or another schema, is not served by the new
// one: what its rules look at may be missing there.
func TestDecidedBeforeTheShapeChanged(t *testing.T) {
	definitions := &followed{Indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})}
	changes := 0
	d := NewDirectory(Config{Changed: func() { changes++ }})
	set := func(definition *apiextensions.CustomResourceDefinition) {
		if err := definitions.Update(definition); err != nil {
			t.Fatal(err)
		}
	}
	v1 := boxVersion("v1", true, "", "note", "keep")
	set(boxes(1, v1))
	if err := d.Watch(World{Definitions: definitions}); err != nil {
		t.Fatal(err)
	}
	publish := func() *snapshot.Snapshot {
		next := &snapshot.Snapshot{}
		d.Apply(next)
		return next
	}
	check := func(what string, snap *snapshot.Snapshot, version string, want Acquaintance) {
		t.Helper()
		if got := d.Check(snap, schema.GroupVersion{Group: "example.com", Version: version}, "boxes"); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	first := publish()
	check("as it was", first, "v1", Passes)

	described := boxes(2, boxVersion("v1", true, "of boxes", "note", "keep"))
	set(described)
	check("another description, before its event", first, "v1", Passes)
	definitions.tell(described)
	check("another description", first, "v1", Passes)
	if changes != 0 {
		t.Errorf("another description changes what is served %d times", changes)
	}

	scaled := boxes(2, v1)
	scaled.Generation = 3
	scaled.Spec.Versions[0].Subresources = &apiextensions.CustomResourceSubresources{Scale: &apiextensions.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.keep"}}
	set(scaled)
	check("a Scale of a field", first, "v1", New)
	definitions.tell(scaled)
	if first = publish(); changes != 1 {
		t.Errorf("a Scale changes what is served %d times", changes)
	}
	check("a Scale that is known", first, "v1", Passes)

	wider := boxes(4, v1, boxVersion("v2", false, "", "note"))
	set(wider)
	check("a version without the field, before its event", first, "v2", New)
	definitions.tell(wider)
	check("a version without the field", first, "v2", New)
	check("a version without the field, in the other one", first, "v1", New)
	second := publish()
	check("once it is known", second, "v2", Passes)
	if !second.Served.Lost(schema.GroupResource{Group: "example.com", Resource: "boxes"}, "v2", "v1") {
		t.Error("nothing is lost in v2")
	}

	// TR-13: the revision of a snapshot is that of the definitions, whatever events have told.
	narrower := boxes(5, boxVersion("v1", true, "", "note"), boxVersion("v2", false, "", "note"))
	set(narrower)
	third := publish()
	check("before its event", third, "v1", Passes)
	check("before its event, as before", second, "v1", New)
	before := changes
	definitions.tell(wider)
	if changes != before {
		t.Error("an old event has changed something")
	}
	check("after an old event", publish(), "v1", Passes)

	again := boxes(1, v1)
	again.UID = "other"
	set(again)
	definitions.tell(again)
	check("made again", publish(), "v1", Passes)
	check("made again, as before", third, "v1", New)
	if err := definitions.Delete(again); err != nil {
		t.Fatal(err)
	}
	for _, h := range definitions.handlers {
		h.OnDelete(cache.DeletedFinalStateUnknown{Key: again.Name, Obj: again})
	}
	if publish().Served.OwnKind(schema.GroupResource{Group: "example.com", Resource: "boxes"}) != "" {
		t.Error("it is gone, and served")
	}
}
