package readfilter

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"

	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/discovery"
)

// RD-1: every storage that a process makes is one that decides. What cannot be made is not decorated.
func TestStoragesAreDecorated(t *testing.T) {
	inner, boom := &shelf{}, errors.New("boom")
	for name, c := range map[string]struct {
		optsErr, madeErr error
		decorator, keep  bool
	}{"made": {nil, nil, true, true}, "custom": {nil, nil, true, false}, "no options": {boom, nil, true, true}, "no storage": {nil, boom, true, true}, "no decorator": {nil, nil, false, true}} {
		directory := discovery.NewDirectory(discovery.Config{})
		s := New(Config{Served: directory})
		var convert Converter
		if c.keep {
			convert = keeps{}
		}
		opts := generic.RESTOptions{}
		if c.decorator {
			opts.Decorator = func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object, func() runtime.Object, storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
				return inner, func() {}, c.madeErr
			}
		}
		got, err := s.Decorate(optionsOf{opts, c.optsErr}, convert).GetRESTOptions(schema.GroupResource{Resource: "pods"}, &corev1.Pod{})
		if !errors.Is(err, c.optsErr) || (got.Decorator != nil) != c.decorator {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err != nil || got.Decorator == nil {
			continue
		}
		made, _, err := got.Decorator(nil, "/pods", podStore(&podShelf{}, "pods").keyOf, func() runtime.Object { return &corev1.Pod{} }, func() runtime.Object { return &corev1.PodList{} }, nil, nil, nil)
		own, ok := made.(*store)
		if !errors.Is(err, c.madeErr) || ok != (c.madeErr == nil && c.optsErr == nil) {
			t.Errorf("%s: %T, %v", name, made, err)
			continue
		}
		if _, known := s.targets.of(schema.GroupResource{Resource: "pods"}); known != ok {
			t.Errorf("%s: connections find their targets: %v", name, known)
		}
		if kept := directory.Stored(schema.GroupVersionResource{Version: "v1", Resource: "pods"}); kept != (ok && c.keep) {
			t.Errorf("%s: reads are said to be decided here: %v", name, kept)
		}
		if !ok {
			continue
		}
		if own.cached || own.resource.Resource != "pods" || (own.convert == nil) == c.keep {
			t.Errorf("%s: %+v", name, own)
		}
		if c.keep {
			if _, err := own.shared.ConvertToVersion(&corev1.Pod{}, nil); err == nil {
				t.Errorf("%s: what is only looked at is copied", name)
			}
		}
	}
	if got := shared(copies{}); got != Converter(copies{}) {
		t.Errorf("one that copies: %T", got)
	}
}

type optionsOf struct {
	opts generic.RESTOptions
	err  error
}

func (o optionsOf) GetRESTOptions(schema.GroupResource, runtime.Object) (generic.RESTOptions, error) {
	return o.opts, o.err
}

// RD-14, NI-6: of rights, the one that was used least recently is forgotten first: a user's own if there are too many
// of the user, or else that of anybody.
func TestWhichRightsAreForgotten(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 9))
	for range 60 {
		m := newMemory()
		type use struct {
			user string
			view byte
		}
		var model []use // the least recently used first
		for range 600 {
			u := use{user: fmt.Sprint("user", random.IntN(30))}
			u.view = byte(len(u.user)*50) + byte(random.IntN(7)) + byte(random.IntN(10)*7)
			view := requestctx.View{u.view, u.user[len(u.user)-1]}
			m.of(digestOf(u.user), view)
			at := slices.IndexFunc(model, func(o use) bool { return o.view == u.view && o.user[len(o.user)-1] == u.user[len(u.user)-1] })
			if at >= 0 {
				u.user = model[at].user
				model = slices.Delete(model, at, at+1)
			} else {
				own := 0
				first := -1
				for i, o := range model {
					if o.user == u.user {
						if own++; first < 0 {
							first = i
						}
					}
				}
				switch {
				case own >= maxViewsOfUser:
					model = slices.Delete(model, first, first+1)
				case len(model) >= maxViews:
					model = model[1:]
				}
			}
			model = append(model, u)
		}
		if len(m.views) != len(model) {
			t.Fatalf("%d rights are remembered, want %d", len(m.views), len(model))
		}
		for _, u := range model {
			if m.views[requestctx.View{u.view, u.user[len(u.user)-1]}] == nil {
				t.Fatalf("a right of %s is forgotten", u.user)
			}
		}
	}
	a := newMemory().of(digestOf("x"), requestctx.View{1})
	state := func(i int) stateKey { return stateKey{uint64(i) + 1, 1} }
	for i := range maxAnswers {
		a.remember(state(i), true)
	}
	if len(a.young) != maxAnswers || len(a.old) != 0 {
		t.Errorf("%d answers, and %d before them", len(a.young), len(a.old))
	}
	if a.remember(state(maxAnswers), true); len(a.young) != 1 || len(a.old) != maxAnswers {
		t.Errorf("one more: %d answers, and %d before them", len(a.young), len(a.old))
	}
	if shown, ok := a.recall(state(0)); !ok || !shown {
		t.Error("an answer of before is forgotten")
	}
	a.remember(stateKey{}, true)
	if shown, ok := a.recall(stateKey{}); shown || ok {
		t.Error("what has no state has an answer")
	}
}
