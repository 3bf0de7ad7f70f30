package owners

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/client-go/tools/cache"
)

func owned(owners ...string) *corev1.ConfigMap {
	o := &corev1.ConfigMap{}
	for i, kind := range owners {
		o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{Kind: kind, UID: types.UID(fmt.Sprint("u", i))})
	}
	return o
}

// PO-20, NI-6: the kinds of owners are remembered up to a bound, and beyond it every kind counts.
func TestKindsOfOwners(t *testing.T) {
	k := &kinds{}
	if k.has("Secret") {
		t.Error("nothing was noted")
	}
	k.note(owned())
	k.note(owned("Secret", "Deployment"))
	if !k.has("secret") || !k.has("Deployment") || k.has("Pod") {
		t.Errorf("%v", k.names)
	}
	long := &kinds{}
	long.note(owned(strings.Repeat("x", maxLength)))
	if long.has("Pod") {
		t.Error("a name of the longest length is remembered")
	}
	long.note(owned(strings.Repeat("x", maxLength+1)))
	if !long.has("Pod") || len(long.names) != 1 {
		t.Error("what is too long to remember stands for all kinds")
	}
	for i := range maxKinds {
		k.note(owned(fmt.Sprint("k", i)))
	}
	if !k.has("Pod") || len(k.names) != maxKinds {
		t.Errorf("%d kinds are remembered", len(k.names))
	}
}

// PO-20: the index of a resource has its own entries and ours, which notes the kinds; selectors of ours use it.
func TestIndexers(t *testing.T) {
	s := &indexed{owners: &kinds{}}
	own := cache.Indexers{"f:other": func(any) ([]string, error) { return nil, nil }}
	all := *s.indexers(&own)
	if len(all) != 2 || len(own) != 1 || len(*s.indexers(nil)) != 1 {
		t.Fatalf("%d and %d indexers", len(all), len(own))
	}
	uids, err := all[storage.FieldIndex(field)](owned("Secret", "Pod"))
	if err != nil || !slices.Equal(uids, []string{"u0", "u1"}) || !s.owners.has("Pod") {
		t.Errorf("%v %v", uids, err)
	}
	if _, err := all[storage.FieldIndex(field)]("no object"); err == nil {
		t.Error("what has no metadata is indexed")
	}
	p := storage.SelectionPredicate{Field: byOwner{fields.OneTermEqualSelector(field, "u1")}.DeepCopySelector(), IndexFields: []string{field}}
	if at := p.MatcherIndex(t.Context()); len(at) != 1 || at[0].Value != "u1" || !p.Field.Matches(fields.Set{}) || p.Field.Empty() {
		t.Errorf("%v", at)
	}
}

// PO-20: a resource is known while something stores it, or if it is said to have no owners.
func TestKnows(t *testing.T) {
	var x Index
	widgets := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	if x.Knows(widgets) {
		t.Error("nothing is stored")
	}
	first, second := &indexed{resource: widgets}, &indexed{resource: widgets}
	x.add(first)
	x.add(second)
	if x.remove(first); !x.Knows(widgets) || x.stores[widgets][0] != second {
		t.Error("another version stores it")
	}
	if x.remove(second); x.Knows(widgets) {
		t.Error("nothing stores it any more")
	}
	if x.HasNone(widgets); !x.Knows(widgets) {
		t.Error("it has no owners")
	}
	if once := x.ownersOf(widgets); once != x.ownersOf(widgets) {
		t.Error("versions of a resource do not share what they know")
	}
}

// uncached is a storage without a watch cache: it lists everything, and indexes nothing.
type uncached struct {
	storage.Interface
	stored []corev1.ConfigMap
	err    error
	lists  int
}

// GetList implements storage.Interface.
func (u *uncached) GetList(_ context.Context, _ string, _ storage.ListOptions, list runtime.Object) error {
	u.lists++
	if u.err == nil {
		list.(*corev1.ConfigMapList).Items = u.stored
	}
	return u.err
}

// PO-20: what was stored before the start is found, without a watch cache, too, by a server that is alone; what cannot
// be read is an error, and not nothing.
func TestWhatWasStoredBeforeIsFound(t *testing.T) {
	for _, alone := range []bool{true, false} {
		x := &Index{Alone: alone}
		child := owned("Secret")
		child.Name, child.UID = "child", "c"
		u := &uncached{stored: []corev1.ConfigMap{*owned(), *child}, err: errors.New("the cache is not ready")}
		x.add(&indexed{Interface: u, resource: schema.GroupResource{Resource: "configmaps"}, newList: func() runtime.Object { return &corev1.ConfigMapList{} }, owners: &kinds{}})
		if got, err := x.Owned(t.Context(), "Secret", "u0"); err == nil {
			t.Errorf("alone %v: %v before anything was read", alone, got)
		}
		u.err = nil
		if got, err := x.Owned(t.Context(), "Secret", "u0"); err != nil || len(got) != 1 || got[0].Name != "child" {
			t.Errorf("alone %v: %v %v", alone, got, err)
		}
		u.lists = 0
		if got, err := x.Owned(t.Context(), "Pod", "u0"); err != nil || len(got) != 0 || u.lists != 0 {
			t.Errorf("alone %v: %v %v, %d lists for a kind that owns nothing", alone, got, err, u.lists)
		}
	}
}
