package server

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

// held is what a client holds at a revision: the revision of each object by its name.
type held struct {
	from, revision string
	objects        map[string]string
}

// folding is a reader whose watches are folded while others write.
type folding struct {
	namespace, user, where string
	of                     schema.GroupVersionResource
	// everywhere reads all namespaces.
	everywhere bool
	// others are more namespaces that are written to, and grant gives the right if where is empty.
	others []string
	grant  func()
	meets  func(o *unstructured.Unstructured) bool
}

// foldedWatchIsTheList: RD-9, RD-15. While others write, a watch under a condition is folded: at every event and at
// every bookmark it is the list of that revision, by brute force over what an admin lists at exactly that revision. So
// is every narrowed list.
func foldedWatchIsTheList(t *testing.T, s *instance, admin dynamic.Interface, f folding) {
	t.Helper()
	ctx := t.Context()
	for _, ns := range append([]string{f.namespace}, f.others...) {
		if _, err := kubernetes.NewForConfigOrDie(s.admin).CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if f.where == "" {
		f.grant()
	} else {
		grantReads(t, admin, "see-"+f.namespace, f.user, readRule(f.where, f.of.Resource))
	}
	var all, reads dynamic.ResourceInterface = admin.Resource(f.of), dynamic.NewForConfigOrDie(s.as(f.user)).Resource(f.of)
	if !f.everywhere {
		all, reads = admin.Resource(f.of).Namespace(f.namespace), dynamic.NewForConfigOrDie(s.as(f.user)).Resource(f.of).Namespace(f.namespace)
	}
	s.await("the right to list", func() (bool, error) {
		_, err := reads.List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})

	writing, done := context.WithCancel(ctx)
	var readers sync.WaitGroup
	var mu sync.Mutex
	var seen []held
	bookmarks := 0
	for _, follow := range []func() ([]held, int, error){
		func() ([]held, int, error) { return followList(ctx, reads) }, func() ([]held, int, error) { return followList(ctx, reads) },
		func() ([]held, int, error) { return followInitial(ctx, reads) }, func() ([]held, int, error) { return followInitial(ctx, reads) },
	} {
		readers.Go(func() {
			for last := false; !last; {
				last = writing.Err() != nil // one more, after the last write
				some, n, err := follow()
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				seen, bookmarks = append(seen, some...), bookmarks+n
				mu.Unlock()
			}
		})
	}
	enough := func() bool { // to prove something, however slow the readers are
		mu.Lock()
		defer mu.Unlock()
		revisions, shown := map[string]bool{}, 0
		for _, h := range seen {
			revisions[h.revision], shown = true, shown+len(h.objects)
		}
		return len(revisions) >= 20 && (bookmarks >= 4 || f.of == events) && shown >= 100
	}
	for round := uint64(0); round == 0 || round < 20 && !enough(); round++ {
		var writers sync.WaitGroup
		for w := range uint64(3) {
			for _, ns := range append([]string{f.namespace}, f.others...) {
				in := f
				in.namespace = ns
				writers.Go(func() { writeAtRandom(t, admin, in, rand.New(rand.NewPCG(7+round, w))) })
			}
		}
		writers.Wait()
	}
	done()
	readers.Wait()

	exact := map[string]map[string]string{}
	shown := 0
	for _, h := range seen {
		if exact[h.revision] == nil {
			list, err := all.List(ctx, metav1.ListOptions{ResourceVersion: h.revision, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
			if err != nil {
				t.Fatal(err)
			}
			exact[h.revision] = map[string]string{}
			for i := range list.Items {
				if f.meets(&list.Items[i]) {
					exact[h.revision][placeOf(&list.Items[i])] = list.Items[i].GetResourceVersion()
				}
			}
		}
		shown += len(h.objects)
		if !maps.Equal(h.objects, exact[h.revision]) {
			t.Errorf("%s at %s: %v, the list has %v", h.from, h.revision, h.objects, exact[h.revision])
		}
	}
	t.Logf("%d states at %d revisions, %d bookmarks, %d objects", len(seen), len(exact), bookmarks, shown)
	if !enough() {
		t.Errorf("only %d revisions, %d bookmarks and %d objects: that proves little", len(exact), bookmarks, shown)
	}
}

var events = schema.GroupVersionResource{Version: "v1", Resource: "events"}

func writeAtRandom(t *testing.T, admin dynamic.Interface, f folding, random *rand.Rand) {
	in := admin.Resource(f.of).Namespace(f.namespace)
	for range 60 {
		name := fmt.Sprintf("f%d", random.IntN(8))
		var err error
		if random.IntN(5) == 0 {
			err = in.Delete(t.Context(), name, metav1.DeleteOptions{})
		} else {
			labels := map[string]any{"n": fmt.Sprint(random.IntN(100))}
			if team := random.IntN(4); team < 3 {
				labels["team"] = []string{"f", "g", "h"}[team]
			}
			if tier := random.IntN(4); tier < 3 {
				labels["tier"] = []string{"web", "db", "x"}[tier]
			}
			o := teamObject("ConfigMap", "v1", f.namespace, name, labels)
			if f.of == events {
				o.SetKind("Event")
				o.Object["involvedObject"] = map[string]any{"namespace": f.namespace, "name": "x", "kind": "Pod"}
				o.Object["reason"] = fmt.Sprint(random.IntN(100))
			} else {
				o.Object["data"] = map[string]any{"n": fmt.Sprint(random.IntN(100))}
			}
			_, err = in.Apply(t.Context(), name, o, metav1.ApplyOptions{FieldManager: "fold", Force: true})
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			t.Error(err)
		}
	}
}

var seconds = int64(3)

// followList lists, and watches from there until the watch times out.
func followList(ctx context.Context, flo dynamic.ResourceInterface) ([]held, int, error) {
	list, err := flo.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, 0, err
	}
	objects := map[string]string{}
	for _, o := range list.Items {
		objects[placeOf(&o)] = o.GetResourceVersion()
	}
	w, err := flo.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), AllowWatchBookmarks: true, TimeoutSeconds: &seconds})
	if err != nil {
		return nil, 0, err
	}
	more, bookmarks, err := fold(w, maps.Clone(objects), true)
	return append([]held{{"a list", list.GetResourceVersion(), objects}}, more...), bookmarks, err
}

// followInitial lets the watch send what is there first.
func followInitial(ctx context.Context, flo dynamic.ResourceInterface) ([]held, int, error) {
	yes := true
	w, err := flo.Watch(ctx, metav1.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true, TimeoutSeconds: &seconds})
	if err != nil {
		return nil, 0, err
	}
	return fold(w, map[string]string{}, false)
}

// placeOf tells objects apart.
func placeOf(o *unstructured.Unstructured) string { return o.GetNamespace() + "/" + o.GetName() }

// fold is what is held after each event; until all of the beginning is there, it is no state.
func fold(w watch.Interface, objects map[string]string, complete bool) (states []held, bookmarks int, err error) {
	defer w.Stop()
	for e := range w.ResultChan() {
		o, ok := e.Object.(*unstructured.Unstructured)
		if !ok || e.Type == watch.Error {
			return states, bookmarks, apierrors.FromObject(e.Object)
		}
		switch e.Type {
		case watch.Added:
			if _, known := objects[placeOf(o)]; known && complete {
				return states, bookmarks, fmt.Errorf("%s was added and is there", placeOf(o))
			}
			objects[placeOf(o)] = o.GetResourceVersion()
		case watch.Modified:
			objects[placeOf(o)] = o.GetResourceVersion()
		case watch.Deleted:
			delete(objects, placeOf(o))
		case watch.Bookmark:
			complete = true
			bookmarks++
		}
		if complete {
			states = append(states, held{"a watch after " + string(e.Type), o.GetResourceVersion(), maps.Clone(objects)})
		}
	}
	return states, bookmarks, nil
}
