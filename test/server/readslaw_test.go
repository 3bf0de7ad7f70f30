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
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// held is what a client holds at a revision: the revision of each object by its name.
type held struct {
	from, revision string
	objects        map[string]string
}

// foldedWatchIsTheList: RD-9. While others write, a watch under a condition is folded: at every event and at every
// bookmark it is the list of that revision, by brute force over what an admin lists at exactly that revision. So is
// every narrowed list.
func foldedWatchIsTheList(t *testing.T, s *instance, admin dynamic.Interface) {
	t.Helper()
	ctx := t.Context()
	if _, err := kubernetes.NewForConfigOrDie(s.admin).CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fold"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	grantReads(t, admin, "see-fold", "flo", readRule(`resource.metadata.labels.team in ["f", "g"] && resource.metadata.labels.tier != "x"`, "configmaps"))
	all, flo := kubernetes.NewForConfigOrDie(s.admin).CoreV1().ConfigMaps("fold"), kubernetes.NewForConfigOrDie(s.as("flo")).CoreV1().ConfigMaps("fold")
	s.await("the right to list", func() (bool, error) {
		_, err := flo.List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
	meets := func(o *corev1.ConfigMap) bool {
		tier, ok := o.Labels["tier"]
		return (o.Labels["team"] == "f" || o.Labels["team"] == "g") && ok && tier != "x"
	}

	writing, done := context.WithCancel(ctx)
	var writers, readers sync.WaitGroup
	for w := range 3 {
		writers.Go(func() { writeAtRandom(t, admin, rand.New(rand.NewPCG(7, uint64(w)))) })
	}
	var mu sync.Mutex
	var seen []held
	bookmarks := 0
	for _, follow := range []func() ([]held, int, error){
		func() ([]held, int, error) { return followList(ctx, flo) }, func() ([]held, int, error) { return followList(ctx, flo) },
		func() ([]held, int, error) { return followInitial(ctx, flo) }, func() ([]held, int, error) { return followInitial(ctx, flo) },
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
	writers.Wait()
	done()
	readers.Wait()

	exact := map[string]map[string]string{}
	for _, h := range seen {
		if exact[h.revision] == nil {
			list, err := all.List(ctx, metav1.ListOptions{ResourceVersion: h.revision, ResourceVersionMatch: metav1.ResourceVersionMatchExact})
			if err != nil {
				t.Fatal(err)
			}
			exact[h.revision] = map[string]string{}
			for i := range list.Items {
				if meets(&list.Items[i]) {
					exact[h.revision][list.Items[i].Name] = list.Items[i].ResourceVersion
				}
			}
		}
		if !maps.Equal(h.objects, exact[h.revision]) {
			t.Errorf("%s at %s: %v, the list has %v", h.from, h.revision, h.objects, exact[h.revision])
		}
	}
	t.Logf("%d states at %d revisions, %d bookmarks", len(seen), len(exact), bookmarks)
	if len(exact) < 20 || bookmarks < 4 {
		t.Errorf("only %d revisions and %d bookmarks: that proves little", len(exact), bookmarks)
	}
}

func writeAtRandom(t *testing.T, admin dynamic.Interface, random *rand.Rand) {
	in := admin.Resource(configmaps).Namespace("fold")
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
			_, err = in.Apply(t.Context(), name, teamObject("ConfigMap", "v1", "fold", name, labels), metav1.ApplyOptions{FieldManager: "fold", Force: true})
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			t.Error(err)
		}
	}
}

var seconds = int64(3)

// followList lists, and watches from there until the watch times out.
func followList(ctx context.Context, flo typedcorev1.ConfigMapInterface) ([]held, int, error) {
	list, err := flo.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, 0, err
	}
	objects := map[string]string{}
	for _, o := range list.Items {
		objects[o.Name] = o.ResourceVersion
	}
	w, err := flo.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion, AllowWatchBookmarks: true, TimeoutSeconds: &seconds})
	if err != nil {
		return nil, 0, err
	}
	more, bookmarks, err := fold(w, maps.Clone(objects), true)
	return append([]held{{"a list", list.ResourceVersion, objects}}, more...), bookmarks, err
}

// followInitial lets the watch send what is there first.
func followInitial(ctx context.Context, flo typedcorev1.ConfigMapInterface) ([]held, int, error) {
	yes := true
	w, err := flo.Watch(ctx, metav1.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true, TimeoutSeconds: &seconds})
	if err != nil {
		return nil, 0, err
	}
	return fold(w, map[string]string{}, false)
}

// fold is what is held after each event; until all of the beginning is there, it is no state.
func fold(w watch.Interface, objects map[string]string, complete bool) (states []held, bookmarks int, err error) {
	defer w.Stop()
	for e := range w.ResultChan() {
		o, ok := e.Object.(*corev1.ConfigMap)
		if !ok {
			return states, bookmarks, apierrors.FromObject(e.Object)
		}
		switch e.Type {
		case watch.Added:
			if _, known := objects[o.Name]; known && complete {
				return states, bookmarks, fmt.Errorf("%s was added and is there", o.Name)
			}
			objects[o.Name] = o.ResourceVersion
		case watch.Modified:
			objects[o.Name] = o.ResourceVersion
		case watch.Deleted:
			delete(objects, o.Name)
		case watch.Bookmark:
			complete = true
			bookmarks++
		}
		if complete {
			states = append(states, held{"a watch after " + string(e.Type), o.ResourceVersion, maps.Clone(objects)})
		}
	}
	return states, bookmarks, nil
}
