package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"proviso.dev/proviso/internal/engine/expr"
)

// strategies remembers how each resource is selected.
type strategies struct {
	generic.RESTOptionsGetter
	mu    *sync.Mutex
	found map[schema.GroupResource]strategy
}

type strategy struct {
	attrs storage.AttrFunc
	new   func() runtime.Object
}

func (s strategies) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := s.RESTOptionsGetter.GetRESTOptions(resource, example)
	inner := opts.Decorator
	opts.Decorator = func(config *storagebackend.ConfigForResource, prefix string, key func(runtime.Object) (string, error), newFunc, newList func() runtime.Object,
		attrs storage.AttrFunc, trigger storage.IndexerFuncs, indexers *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.found[resource] = strategy{attrs, newFunc}
		return inner(config, prefix, key, newFunc, newList, attrs, trigger, indexers)
	}
	return opts, err
}

// leftOut are the fields that a condition cannot name: they stand for more than one, or for none of the object's.
var leftOut = map[schema.GroupResource][]string{
	{Resource: "events"}:                     {"source"},
	{Group: "apps", Resource: "replicasets"}: {"status.replicas"}, // the API does not know it
}

// CA-16: the table of selectable fields has every field of every built-in resource, with the path that it reads.
func TestSelectableFieldsAreThoseOfTheStorage(t *testing.T) {
	plugged.get(t) // before TestNobodyMovesNames defines kinds there
	found := pluggedStorage
	if len(found) < 50 {
		t.Fatalf("only %d resources were seen", len(found))
	}
	text, err := os.ReadFile("../../internal/request/authorize/testdata/selectable.json") // compared with the table there
	if err != nil {
		t.Fatal(err)
	}
	var written map[string][]expr.SelectableField
	if err := json.Unmarshal(text, &written); err != nil {
		t.Fatal(err)
	}
	table := map[schema.GroupResource][]expr.SelectableField{}
	for resource, fields := range written {
		table[schema.ParseGroupResource(resource)] = fields
	}
	for resource, s := range found {
		_, set, err := s.attrs(s.new())
		if err != nil {
			t.Errorf("%s: %v", resource, err)
			continue
		}
		known := []string{"metadata.name", "metadata.namespace", "name"}
		known = append(known, leftOut[resource]...)
		for _, f := range table[resource] {
			known = append(known, f.Key)
		}
		for key := range set {
			if !slices.Contains(known, key) {
				t.Errorf("%s can be selected by %s, which is not in the table", resource, key)
			}
		}
	}
	for _, resource := range slices.SortedFunc(maps.Keys(table), func(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) }) {
		stored := resource
		if resource.Group == "events.k8s.io" {
			stored = schema.GroupResource{Resource: "events"}
		}
		s, ok := found[stored]
		if !ok {
			t.Logf("%s is not served by default", resource)
			continue
		}
		for _, f := range table[resource] {
			probeField(t, resource, f, s)
		}
	}
}

// probeField sets the field in the version that conditions see, and selects by it.
func probeField(t *testing.T, resource schema.GroupResource, f expr.SelectableField, s strategy) {
	t.Helper()
	gvks, _, err := legacyscheme.Scheme.ObjectKinds(s.new())
	if err != nil {
		t.Fatal(err)
	}
	gv := legacyscheme.Scheme.PrioritizedVersionsForGroup(resource.Group)[0]
	path := f.Path
	if path == "" {
		path = f.Key
	}
	steps := strings.Split(path, ".")
	value := any("probe")
	switch f.Type {
	case expr.BoolField:
		value = true
	case expr.IntField:
		value = int64(7)
	}
	versioned, err := legacyscheme.Scheme.New(gv.WithKind(gvks[0].Kind))
	if err != nil {
		t.Fatal(err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(versioned)
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) > 1 {
		if _, ok, _ := unstructured.NestedMap(content, steps[:len(steps)-1]...); !ok {
			t.Errorf("%s: what leads to %s is not always there", resource, path)
		}
	}
	if err := unstructured.SetNestedField(content, value, steps...); err != nil {
		t.Fatal(err)
	}
	if path == "status.podIP" { // the first of podIPs, in every object that is read
		if err := unstructured.SetNestedSlice(content, []any{map[string]any{"ip": value}}, "status", "podIPs"); err != nil {
			t.Fatal(err)
		}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, versioned); err != nil {
		t.Errorf("%s: %s: %v", resource, path, err)
		return
	}
	internal := s.new() // as a decoder does: an event of events.k8s.io becomes one of the core group
	if err := legacyscheme.Scheme.Convert(versioned, internal, nil); err != nil {
		t.Fatal(err)
	}
	_, set, err := s.attrs(internal)
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := legacyscheme.Scheme.ConvertFieldLabel(gv.WithKind(gvks[0].Kind), f.Key, "x")
	if err != nil {
		t.Errorf("%s: %v", resource, err)
		return
	}
	if got := set[key]; got != fmt.Sprint(value) {
		t.Errorf("%s: %s is %q if %s is %v", resource, f.Key, got, path, value)
	}
}
