package readfilter

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// asking shows the objects that are called so, and counts the questions.
type asking struct {
	shows string
	place bool
	err   error
	asked int
}

func (a *asking) Shows(_ context.Context, data authorizer.ConditionsData) (bool, error) {
	a.asked++
	return data.GetObject().(*corev1.ConfigMap).Name == a.shows, a.err
}
func (a *asking) View() requestctx.View         { return requestctx.View{1} }
func (a *asking) At(string, string) (_, _ bool) { return false, false }
func (a *asking) LooksAtNamespace() bool        { return a.place }

// filtering is a shelf whose lists ask the selector of shards, as Kubernetes does if its gate is on.
type filtering struct{ shelf }

func (f *filtering) GetList(ctx context.Context, key string, opts storage.ListOptions, out runtime.Object) error {
	if err := f.shelf.GetList(ctx, key, opts, out); err != nil {
		return err
	}
	list := out.(*corev1.ConfigMapList)
	list.ShardInfo = &metav1.ShardInfo{Selector: opts.Predicate.ShardSelector.String()}
	var kept []corev1.ConfigMap
	for i := range list.Items {
		list.Items[i].UID, list.Items[i].ResourceVersion = types.UID("u-"+list.Items[i].Name), "7"
		if ok, err := opts.Predicate.ShardSelector.Matches(&list.Items[i]); ok && err == nil {
			kept = append(kept, list.Items[i])
		}
	}
	list.Items = kept
	return nil
}

func listing(t *testing.T, inner storage.Interface, each requestctx.Each) (*corev1.ConfigMapList, error) {
	t.Helper()
	ctx, r := arrive(t, "list", requestctx.Narrowed(&requestctx.Narrowing{Each: each}), true)
	if r == nil {
		t.Fatal("the read has not come through the filter")
	}
	r.holder.Snapshot = &snapshot.Snapshot{}
	list := &corev1.ConfigMapList{}
	err := newStore(inner).GetList(ctx, "/configmaps/default", storage.ListOptions{Predicate: storage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything()}}, list)
	return list, err
}

// RD-10: a list shows what is asked about and found to be seen. A storage that does not ask, a gate that is off and a
// namespace that nobody follows refuse it: nothing is shown unfiltered.
func TestNothingIsShownUnasked(t *testing.T) {
	shelf := func() *filtering { return &filtering{shelf{names: []string{"a", "b", "c"}}} }
	on := func(t *testing.T, on bool) {
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.ShardedListAndWatch, on)
	}
	t.Run("asked", func(t *testing.T) {
		on(t, true)
		each := &asking{shows: "b"}
		list, err := listing(t, shelf(), each)
		if err != nil || len(list.Items) != 1 || list.Items[0].Name != "b" || each.asked != 3 || list.ShardInfo != nil {
			t.Errorf("%v %v, %d questions", list, err, each.asked)
		}
	})
	t.Run("failing", func(t *testing.T) {
		on(t, true)
		if list, err := listing(t, shelf(), &asking{shows: "none", err: errors.New("unknown")}); err != nil || len(list.Items) != 0 {
			t.Errorf("%v %v", list, err)
		}
	})
	for name, inner := range map[string]storage.Interface{"off": shelf(), "not asked": &shelf().shelf} {
		t.Run(name, func(t *testing.T) {
			on(t, name != "off")
			_, err := listing(t, inner, &asking{shows: "b"})
			if !apierrors.IsForbidden(err) && !apierrors.IsInternalError(err) {
				t.Errorf("it is not refused: %v", err)
			}
		})
	}
	t.Run("by a namespace that nobody follows", func(t *testing.T) {
		on(t, true)
		if _, err := listing(t, shelf(), &asking{shows: "b", place: true}); !apierrors.IsForbidden(err) {
			t.Errorf("it is not refused: %v", err)
		}
	})
}

// RD-14, NI-6: a state of an object is asked about once for each right. What is remembered is bounded, and a user who
// brings ever other rights takes nothing from others.
func TestAnswersAreRemembered(t *testing.T) {
	m := newMemory()
	ann, eve := digestOf("ann"), digestOf("eve")
	state := func(uid, version string) metav1.Object {
		return &metav1.ObjectMeta{UID: types.UID(uid), ResourceVersion: version}
	}
	mine := m.of(ann, requestctx.View{1})
	mine.remember(mine.at(state("x", "1")), true)
	for i := range 10 * maxViews {
		a := m.of(eve, requestctx.View{2, byte(i), byte(i >> 8)})
		a.remember(a.at(state("x", "1")), false)
	}
	if len(m.views) > maxViewsOfUser+1 {
		t.Errorf("%d rights are remembered", len(m.views))
	}
	if shown, ok := m.of(ann, requestctx.View{1}).recall(mine.at(state("x", "1"))); !ok || !shown {
		t.Error("what eve asks makes the server forget what ann asked")
	}
	for _, other := range []metav1.Object{state("x", "2"), state("y", "1"), state("", "1"), state("x", ""), state("x", "0"), state("x\x00", "1")} {
		if _, ok := mine.recall(mine.at(other)); ok {
			t.Errorf("%v is taken for another state", other)
		}
	}
	for i := range 5 * maxAnswers {
		mine.remember(mine.at(state("x", fmt.Sprint(i+10))), true)
	}
	if n := len(mine.young) + len(mine.old); n > 2*maxAnswers {
		t.Errorf("%d answers are remembered", n)
	}
	var none *answers
	if key := none.at(state("x", "1")); key != (stateKey{}) {
		t.Error("nothing remembers")
	}
	for i := range 3 * maxViews {
		m.of(digestOf(fmt.Sprint("user", i)), requestctx.View{3, byte(i)})
	}
	if len(m.views) > maxViews {
		t.Errorf("%d rights are remembered", len(m.views))
	}
}

// RD-13: a namespace that changes ends the watches that look at it, and one that was missed when it comes.
func TestPlacesEndWatches(t *testing.T) {
	p := newPlaces(nil)
	watcher := func() *watching { return &watching{expired: make(chan struct{})} }
	ended := func(w *watching) bool {
		select {
		case <-w.expired:
			return true
		default:
			return false
		}
	}
	here, there, all := watcher(), watcher(), watcher()
	p.add(here, "here", 0)
	leave := p.add(there, "there", 0)
	p.add(all, "", 0)
	p.Added("here")
	if ended(here) || ended(all) || p.count() != 0 {
		t.Error("a namespace that nobody looked for ends a watch")
	}
	p.Changed("here")
	if !ended(here) || ended(there) || !ended(all) {
		t.Error("it ends others than those that look at it")
	}
	leave()
	p.Changed("there")
	if ended(there) {
		t.Error("a watch that has left is ended")
	}
	late := watcher()
	if p.add(late, "here", 0); !ended(late) {
		t.Error("what changed before the watch was there is forgotten")
	}
	missing := watcher()
	p.add(missing, "new", p.count())
	p.namespaces = missingPlaces{}
	if _, err := p.Namespace("new"); err == nil {
		t.Fatal("it is there")
	}
	if p.Added("new"); !ended(missing) {
		t.Error("a namespace that was missed has come")
	}
	for i := range 2 * maxMissed {
		_, _ = p.Namespace(fmt.Sprint("n", i))
	}
	last := watcher()
	if p.add(last, "n1999", p.count()); len(p.missed) > maxMissed {
		t.Errorf("%d missed namespaces are remembered", len(p.missed))
	}
	if p.Added("n1999"); !ended(last) {
		t.Error("what is not remembered is taken for what was not missed")
	}
}

type missingPlaces struct{}

func (missingPlaces) Namespace(string) (runtime.Object, error) { return nil, errors.New("not there") }
