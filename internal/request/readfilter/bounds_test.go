package readfilter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/storage"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/selectors"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// RD-13: a namespace that has come is not missed any longer, and counts only for those who look at namespaces.
func TestPlacesThatHaveCome(t *testing.T) {
	p := newPlaces(missingPlaces{})
	if _, err := p.Namespace("new"); err == nil {
		t.Fatal("it is there")
	}
	p.Added("new")
	p.Added("new")
	if p.count() != 1 {
		t.Errorf("%d changes by one namespace that was missed", p.count())
	}
	looks, does := &requestctx.Narrowing{Each: &asking{place: true}}, &requestctx.Narrowing{Each: &asking{}}
	before := [3]requestctx.View{p.view(looks), p.view(does), p.view(seen())}
	p.Changed("new")
	if p.view(looks) == before[0] || p.view(does) != before[1] || p.view(seen()) != before[2] {
		t.Error("a change of a namespace is taken for a change of what does not look at it")
	}
}

// NI-6: the bounds of what is remembered of lists.
func TestBoundsOfHistory(t *testing.T) {
	var h history
	who := digestOf("ann")
	for i := range maxAsked {
		h.keep(who, digestOf(fmt.Sprint(i)), era{since: 1})
	}
	if n := len(h.users[who].eras); n != maxAsked || h.kept != maxAsked {
		t.Errorf("%d are remembered, %d counted", n, h.kept)
	}
	if h.keep(who, digestOf("0"), era{since: 2}); len(h.users[who].eras) != maxAsked || h.kept != maxAsked {
		t.Errorf("one that is known: %d are remembered", len(h.users[who].eras))
	}
	if h.keep(who, digestOf("more"), era{since: 2}); len(h.users[who].eras) != 1 || h.kept != 1 {
		t.Errorf("one more: %d are remembered, %d counted", len(h.users[who].eras), h.kept)
	}
	h.kept = maxKept - 1
	if h.keep(digestOf("bob"), digestOf("x"), era{}); len(h.users) != 2 || h.kept != maxKept {
		t.Errorf("the last that is kept: %d users, %d counted", len(h.users), h.kept)
	}
	if h.keep(digestOf("eve"), digestOf("x"), era{}); len(h.users) != 1 || h.kept != 1 {
		t.Errorf("one more: %d users, %d counted", len(h.users), h.kept)
	}
	if digestOf("a", "b") == digestOf("a\x00\x00\x00\x00\x00\x00\x00\x00b") || digestOf("a\x01\x00\x00\x00\x00\x00\x00\x00b") == digestOf("a", "b") {
		t.Error("two texts have the digest of one")
	}
	for rv, want := range map[string]bool{"5": true, "6": false, "7": false, "x": true} {
		for _, v := range []storage.Versioner{storage.APIObjectVersioner{}, unversioned{}} {
			if got := older(v, storage.ListOptions{ResourceVersion: rv}, 6); got != want {
				t.Errorf("%s by %T is older: %v", rv, v, got)
			}
		}
	}
}

// unversioned reads no version.
type unversioned struct{ storage.APIObjectVersioner }

func (unversioned) ParseResourceVersion(string) (uint64, error) { return 0, errors.New("unknown") }

// RD-10: who has left is not told of, and no failure of theirs is counted.
func TestFailuresOfThoseWhoHaveLeft(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	_, r := arrive(t, "list", requestctx.Narrowed(&requestctx.Narrowing{}), true)
	r.holder.Snapshot = &snapshot.Snapshot{}
	m := &matcher{ctx: ctx, store: newStore(&shelf{}), r: r, each: leaving{&asking{shows: "x", err: errors.New("too late")}, leave}}
	before := undecided(t)
	if shown, err := m.Matches(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}); shown || err != nil || undecided(t) != before {
		t.Errorf("%v, %v, counted %v", shown, err, undecided(t)-before)
	}
}

type leaving struct {
	*asking
	leave func()
}

func (l leaving) Shows(context.Context, authorizer.ConditionsData) (bool, error) {
	l.leave()
	return true, l.err
}

// RD-6: what a page says, whatever the storage has said of it, and which limit the storage is given.
func TestPages(t *testing.T) {
	s := newStore(&shelf{})
	list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "7", Continue: "of the storage"}, Items: make([]corev1.ConfigMap, 2)}
	for _, limit := range []int64{0, 2, 5} {
		one := list.DeepCopy()
		if err := s.endPage("/configmaps/default", storage.ListOptions{Predicate: storage.SelectionPredicate{Limit: limit}}, one); err != nil || one.Continue != "" || len(one.Items) != 2 {
			t.Errorf("by %d: %q, %v", limit, one.Continue, err)
		}
	}
	for asked, want := range map[int64]int64{0: 0, 1: 2, math.MaxInt64 - 1: math.MaxInt64, math.MaxInt64: math.MaxInt64} {
		ctx, _ := arrive(t, "list", requestctx.Narrowed(&requestctx.Narrowing{}), true)
		inner := &keeping{}
		if err := newStore(inner).GetList(ctx, "/configmaps/default", storage.ListOptions{Predicate: storage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything(), Limit: asked}}, &corev1.ConfigMapList{}); err != nil || inner.last.Predicate.Limit != want {
			t.Errorf("asked for %d: the storage for %d, %v", asked, inner.last.Predicate.Limit, err)
		}
	}
	// A gathered list keeps its limit whatever revision is asked for; a read of all asks for what it was asked for.
	ctx, _ := arrive(t, "list", unionOf("a", "b"), true)
	for _, rv := range []string{"", "0"} {
		inner := &optioned{shelves: shelves{keys: []string{"/configmaps/a/o1", "/configmaps/a/o2", "/configmaps/b/o1"}, revision: 5}}
		for _, limit := range []int64{0, 1} {
			out := &corev1.ConfigMapList{}
			inner.all = nil
			opts := storage.ListOptions{Recursive: true, ResourceVersion: rv, Predicate: storage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything(), Limit: limit}}
			if err := shelvesStore(inner).GetList(ctx, "/configmaps", opts, out); err != nil || limit > 0 && (len(out.Items) != 1 || out.Continue == "") || limit == 0 && len(out.Items) != 3 {
				t.Errorf("revision %q, by %d: %d objects, %q, %v", rv, limit, len(out.Items), out.Continue, err)
			}
			if first := inner.all[0]; first.ResourceVersion != rv || limit == 0 && first.Predicate.Limit != 0 {
				t.Errorf("revision %q, by %d: the first is read as of %q by %d", rv, limit, first.ResourceVersion, first.Predicate.Limit)
			}
			for _, o := range inner.all {
				if limit == 0 && o.Predicate.Limit != 0 {
					t.Errorf("without a limit one of %d is asked for", o.Predicate.Limit)
				}
			}
		}
	}
	one, err := goOn(storage.ListOptions{}, "/configmaps/a/o1", "/configmaps/a/", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, rv, err := storage.DecodeContinue(one.Predicate.Continue, "/configmaps/a/"); err != nil || rv != -1 {
		t.Errorf("the latest is %d, %v", rv, err)
	}
}

// optioned keeps all that it was asked with.
type optioned struct {
	shelves
	all []storage.ListOptions
}

func (o *optioned) GetList(ctx context.Context, key string, opts storage.ListOptions, out runtime.Object) error {
	o.all = append(o.all, opts)
	return o.shelves.GetList(ctx, key, opts, out)
}

// RD-1: a list is as narrow as it must be if every requirement is there, however it is spelled.
func TestRequirementsThatAreThere(t *testing.T) {
	two := selectors.Box{}.With(selectors.Key{Label: true, Name: "team"}, selectors.Of("a", "b")).With(selectors.Key{Name: "spec.nodeName"}, selectors.Of("n1"))
	_, r := arrive(t, "list", requestctx.Narrowed(&requestctx.Narrowing{Box: two}), true)
	for _, c := range []struct {
		ls, fs string
		narrow bool
	}{
		{"team in (a,b)", "spec.nodeName=n1", true}, {"team in (b,a)", "spec.nodeName=n1", true}, {"team in (a,b),x=y", "spec.nodeName=n1,metadata.name=z", true}, {"team in (a)", "spec.nodeName=n1", false}, {"team in (a,b,c)", "spec.nodeName=n1", false},
		{"team in (a,b)", "spec.nodeName=n2", false}, {"team in (a,b)", "spec.nodeName!=n1", false}, {"team in (a,b)", "metadata.name=n1", false}, {"team notin (a,b)", "spec.nodeName=n1", false},
	} {
		label, err := labels.Parse(c.ls)
		if err != nil {
			t.Fatal(err)
		}
		if err := newStore(&shelf{}).checkNarrow(r, storage.SelectionPredicate{Label: label, Field: fields.ParseSelectorOrDie(c.fs)}); (err == nil) != c.narrow {
			t.Errorf("%s; %s: %v", c.ls, c.fs, err)
		}
	}
	for name, p := range map[string]storage.SelectionPredicate{"no labels": {Field: fields.ParseSelectorOrDie("spec.nodeName=n1")}, "no fields": {Label: labels.Everything()}, "neither": {}} {
		if err := newStore(&shelf{}).checkNarrow(r, p); err == nil {
			t.Errorf("%s: it is narrow", name)
		}
	}
	if err := newStore(&shelf{}).checkNarrow(r, storage.SelectionPredicate{Label: labels.Nothing(), Field: fields.Everything()}); err != nil {
		t.Errorf("what selects nothing: %v", err)
	}
}

// RD-7, TM-3: which watches without a condition are followed: all of them, if that is asked for, and those whose right
// can end by time. One that is not opened is not.
func TestWhichPlainWatchesAreFollowed(t *testing.T) {
	end := metav1.NewTime(time.Unix(2000, 0))
	timed := ruleset.Build(ruleset.Input{MasterNamespace: "master", Policies: []*policyv1alpha1.Policy{{ObjectMeta: metav1.ObjectMeta{Namespace: "master", Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{"r": {Rules: []policyv1alpha1.PolicyRule{{Verbs: []string{"watch"}, ResourceKinds: []string{"*"}}}}}}},
		PolicyBindings: []*policyv1alpha1.PolicyBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "master", Name: "master"}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"b": {RoleName: "r", UserNames: []string{"ann"}, NotAfter: &end}}}}})
	plain := ruleset.Build(ruleset.Input{MasterNamespace: "master"})
	for name, c := range map[string]struct {
		all      bool
		rules    *ruleset.Index
		refused  error
		followed bool
	}{"plain": {false, plain, nil, false}, "all": {true, plain, nil, true}, "a right that ends": {false, timed, nil, true}, "both": {true, timed, nil, true}, "not opened": {true, timed, errors.New("boom"), false}} {
		crowd := newCrowd(t)
		crowd.stores.cfg.RecheckAll = c.all
		ctx := requestctx.At(t.Context(), &snapshot.Snapshot{Rules: c.rules}, time.Unix(1000, 0))
		requestctx.From(ctx).Put(requestctx.Request, authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "ann"}, Verb: "watch", Resource: "configmaps", ResourceRequest: true}, requestctx.Allowed())
		w, err := (&tap{inner: watch.NewFake(), refused: c.refused}).store(crowd).Watch(ctx, "/configmaps/default", storage.ListOptions{})
		_, followed := w.(*watching)
		if !errors.Is(err, c.refused) || followed != c.followed {
			t.Errorf("%s: followed %v, %v", name, followed, err)
		}
		if w != nil {
			w.Stop()
		}
	}
}
