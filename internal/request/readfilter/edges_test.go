package readfilter

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/component-base/metrics/legacyregistry"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/selectors"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// tap is a storage whose watches are given to it.
type tap struct {
	shelf
	inner   *watch.FakeWatcher
	opened  int
	refused error
	now     error
	above   *store
}

func (w *tap) Watch(context.Context, string, storage.ListOptions) (watch.Interface, error) {
	w.opened++
	if w.refused != nil {
		return nil, w.refused
	}
	return w.inner, nil
}

func (w *tap) GetCurrentResourceVersion(context.Context) (uint64, error) { return 7, w.now }

func (c *crowd) options(t *testing.T, rv, selector string) storage.ListOptions {
	t.Helper()
	label, err := labels.Parse(selector)
	if err != nil {
		t.Fatal(err)
	}
	return storage.ListOptions{ResourceVersion: rv, Predicate: storage.SelectionPredicate{Label: label, Field: fields.Everything()}}
}

func (w *tap) store(c *crowd) *store {
	if w.above == nil {
		w.above = &store{Interface: w, stores: c.stores, resource: schema.GroupResource{Resource: "configmaps"}}
	}
	return w.above
}

func (c *crowd) list(t *testing.T, inner *tap, pass requestctx.Pass, selector string) {
	t.Helper()
	ctx, _ := arrive(t, "list", pass, true)
	if err := inner.store(c).GetList(ctx, "/configmaps/default", c.options(t, "", selector), &corev1.ConfigMapList{}); err != nil {
		t.Fatal(err)
	}
}

func (c *crowd) open(t *testing.T, inner *tap, pass requestctx.Pass, through bool, rv, selector string) (watch.Interface, *reading, error) {
	t.Helper()
	ctx, r := arrive(t, "watch", pass, through)
	requestctx.From(ctx).Snapshot = c.stores.cfg.Store.Current()
	w, err := inner.store(c).Watch(ctx, "/configmaps/default", c.options(t, rv, selector))
	if w != nil {
		t.Cleanup(w.Stop)
	}
	return w, r, err
}

// RD-1, RD-7: a watch that is narrowed begins where its caller's right does, and only as narrow as that is. What the
// storage says of objects stays there.
func TestAWatchIsAsNarrowAsItMustBe(t *testing.T) {
	narrowed := requestctx.Narrowed(seen())
	selector := "team=a"
	if ls, _, err := seen().Box.Selectors(); err == nil {
		selector = selectors.LabelText(ls)
	}
	for _, c := range []struct {
		name, rv, selector string
		pass               requestctx.Pass
		past               bool
		refused, now       error
		listed             bool
		// opened: the storage is asked. decided: an answer may leave. Neither, and no error, is 410.
		opened, decided bool
		forbidden       bool
	}{
		{name: "from now on", rv: "0", selector: selector, pass: narrowed, opened: true, decided: true},
		{name: "from no revision", selector: selector, pass: narrowed, opened: true, decided: true},
		{name: "from now, without a list", rv: "7", selector: selector, pass: narrowed, decided: true},
		{name: "from now, after a list", rv: "7", selector: selector, pass: narrowed, listed: true, opened: true, decided: true},
		{name: "from before", rv: "6", selector: selector, pass: narrowed, decided: true},
		{name: "from nowhere", rv: "x", selector: selector, pass: narrowed, decided: true},
		{name: "wider", rv: "0", selector: "", pass: narrowed, forbidden: true},
		{name: "past the filter", rv: "0", selector: selector, pass: narrowed, past: true, forbidden: true},
		{name: "with a condition", rv: "0", selector: selector, pass: requestctx.Conditional(resolves(authorizer.DecisionAllow)), forbidden: true},
		{name: "without a condition", rv: "0", selector: "", pass: requestctx.Allowed(), opened: true},
		{name: "of a storage that fails", rv: "0", selector: selector, pass: narrowed, refused: errors.New("cannot decode the secret"), opened: true},
		{name: "at a time that is not known", rv: "0", selector: selector, pass: narrowed, now: errors.New("no quorum")},
	} {
		t.Run(c.name, func(t *testing.T) {
			inner := &tap{inner: watch.NewFake(), refused: c.refused, now: c.now}
			crowd := newCrowd(t)
			if inner.names = []string{"a"}; c.listed {
				crowd.list(t, inner, c.pass, c.selector)
			}
			w, r, err := crowd.open(t, inner, c.pass, !c.past, c.rv, c.selector)
			if (inner.opened == 1) != c.opened || r != nil && r.decided.Load() != c.decided || apierrors.IsForbidden(err) != c.forbidden {
				t.Errorf("opened %d times, decided %v, %v", inner.opened, r != nil && r.decided.Load(), err)
			}
			switch {
			case c.refused != nil:
				if err == nil || strings.Contains(err.Error(), "decode") {
					t.Errorf("what the storage says of objects is told: %v", err)
				}
			case c.now != nil:
				if !errors.Is(err, c.now) {
					t.Errorf("%v, want %v", err, c.now)
				}
			case c.decided && !c.opened:
				ended(t, w)
			case c.opened:
				delivered(t, inner.inner, w)
			}
		})
	}
}

// NI-1: an error that a narrowed watch sends may quote what its caller may not see. One about the request does not.
func TestErrorsInWatches(t *testing.T) {
	quoting := &metav1.Status{Code: http.StatusInternalServerError, Message: "cannot decode the secret"}
	expired := &metav1.Status{Code: http.StatusGone, Message: "too old"}
	for _, c := range []struct {
		pass requestctx.Pass
		says *metav1.Status
		want string
	}{
		{requestctx.Narrowed(&requestctx.Narrowing{}), quoting, "the reason is not shown"},
		{requestctx.Narrowed(&requestctx.Narrowing{}), expired, "too old"},
		{requestctx.Allowed(), quoting, "cannot decode"},
	} {
		inner := &tap{inner: watch.NewFake()}
		w, _, err := newCrowd(t).open(t, inner, c.pass, true, "0", "")
		if err != nil {
			t.Fatal(err)
		}
		go inner.inner.Error(c.says)
		if e := <-w.ResultChan(); e.Type != watch.Error || !strings.Contains(e.Object.(*metav1.Status).Message, c.want) || e.Object.(*metav1.Status).Code != c.says.Code {
			t.Errorf("%v, want %q", e.Object, c.want)
		}
	}
}

// RD-7: with RecheckAll, a watch of a caller ends with the right to it. The server's own watches have no caller.
func TestWhichWatchesAreRechecked(t *testing.T) {
	c := newCrowd(t)
	with := func(verb string, pass requestctx.Pass) context.Context {
		ctx := requestctx.With(t.Context(), c.stores.cfg.Store.Current())
		requestctx.From(ctx).Put(requestctx.Request, authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "ann"}, Verb: verb, Resource: "configmaps"}, pass)
		return ctx
	}
	for name, test := range map[string]struct {
		ctx      context.Context
		followed bool
	}{
		"a caller's":    {with("watch", requestctx.Allowed()), true},
		"a list":        {with("list", requestctx.Allowed()), false},
		"narrowed":      {with("watch", requestctx.Narrowed(&requestctx.Narrowing{})), false},
		"nobody's":      {requestctx.With(t.Context(), c.stores.cfg.Store.Current()), false},
		"of the server": {t.Context(), false},
	} {
		inner := watch.NewFake()
		w := c.stores.recheck(test.ctx, inner)
		if _, followed := w.(*watching); followed != test.followed {
			t.Errorf("%s: followed %v", name, followed)
		}
		w.Stop()
	}
}

// NI-1: errors that are about the request or the storage pass; any other may be about an object.
func TestErrorsAboutTheRequest(t *testing.T) {
	resource := schema.GroupResource{Resource: "configmaps"}
	for _, err := range []error{
		apierrors.NewResourceExpired("x"), apierrors.NewGone("x"), apierrors.NewBadRequest("x"), apierrors.NewTimeoutError("x", 1), apierrors.NewServerTimeout(resource, "list", 1),
		apierrors.NewTooManyRequests("x", 1), apierrors.NewServiceUnavailable("x"), apierrors.NewInvalid(schema.GroupKind{}, "x", nil), storage.NewTooLargeResourceVersionError(9, 7, 1),
		storage.NewUnreachableError("x", 0), context.Canceled, context.DeadlineExceeded,
	} {
		if !AboutRequest(err) || unsaid(err) != err { //nolint:errorlint // the same
			t.Errorf("%v is kept back", err)
		}
	}
	for _, err := range []error{errors.New("x"), apierrors.NewInternalError(errors.New("x")), apierrors.NewConflict(resource, "x", nil), apierrors.NewNotFound(resource, "x"), storage.NewKeyNotFoundError("x", 1)} {
		if AboutRequest(err) || strings.Contains(unsaid(err).Error(), "x\"") {
			t.Errorf("%v is told", err)
		}
	}
}

// undecided is how many states could not be decided, as metrics say.
func undecided(t *testing.T) (sum float64) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "proviso_reads_undecided_total" {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// RD-10: nobody is shown what could not be decided: no answer, no object, nobody who waits. It is counted.
func TestUndecidedIsNotShown(t *testing.T) {
	New(Config{})
	counted := func() float64 { return undecided(t) }
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name   string
		ctx    context.Context
		each   *asking
		object runtime.Object
		shown  bool
		counts float64
	}{
		{"seen", t.Context(), &asking{shows: "x"}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, true, 0},
		{"not seen", t.Context(), &asking{shows: "y"}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, false, 0},
		{"yes with an error", t.Context(), &asking{shows: "x", err: errors.New("x")}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, false, 1},
		{"no object", t.Context(), &asking{shows: "x"}, &metav1.Status{}, false, 1},
		{"nobody waits", canceled, &asking{shows: "x"}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, false, 0},
	} {
		_, r := arrive(t, "list", requestctx.Narrowed(&requestctx.Narrowing{Each: c.each}), true)
		m := &matcher{ctx: c.ctx, store: newStore(&shelf{}), r: r, each: c.each}
		before := counted()
		if shown, err := m.Matches(c.object); shown != c.shown || err != nil || counted()-before != c.counts {
			t.Errorf("%s: %v %v, counted %v", c.name, shown, err, counted()-before)
		}
	}
}

// RD-4, RD-13: a condition on a get, and on each object of a list over all namespaces, sees the namespace of the
// object. That of a namespace is itself.
func TestStatesHaveANamespace(t *testing.T) {
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	inDev, issues := cel.Compile(`namespaceObject.metadata.labels["env"] == "dev"`, expr.Options{Kind: expr.When})
	if issues != nil {
		t.Fatal(issues)
	}
	known := authorize.NamespacesFunc(func(name string) (runtime.Object, error) {
		if name == "bad" {
			return nil, errors.New("not there")
		}
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"env": name}}}, nil
	})
	at := func(namespace, name string) runtime.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	for _, c := range []struct {
		group, resource, asked string
		object                 runtime.Object
		namespaces             authorize.Namespaces
		holds, fails           bool
	}{
		{"", "configmaps", "dev", at("prod", "x"), known, true, false}, // what the request says counts
		{"", "configmaps", "", at("dev", "x"), known, true, false},
		{"", "configmaps", "", at("prod", "dev"), known, false, false},
		{"", "configmaps", "bad", at("dev", "x"), known, false, true},
		{"", "configmaps", "dev", at("dev", "x"), nil, false, true},
		{"", "namespaces", "", at("", "dev"), known, true, false},
		{"", "namespaces", "", at("", "prod"), known, false, false},
		{"example.com", "namespaces", "", at("", "dev"), known, false, true},
		{"", "nodes", "", at("", "dev"), known, false, true},
		{"", "configmaps", "", &metav1.Status{}, known, false, true},
	} {
		served := snapshot.Sources{Local: []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: c.resource, Kind: "Thing"}}}}}.Served()
		s := State{Holder: &requestctx.State{Snapshot: &snapshot.Snapshot{Served: served}}, Operation: Operation, Object: c.object, Namespaces: c.namespaces,
			Attributes: authorizer.AttributesRecord{Verb: "get", APIGroup: c.group, APIVersion: "v1", Resource: c.resource, Namespace: c.asked, ResourceRequest: true}}
		holds, err := inDev.Evaluate(t.Context(), &expr.Request{}, expr.Allow, newFacts(s, nil).data)
		if holds != c.holds || (err != nil) != c.fails {
			t.Errorf("%s %s in %q: %v %v", c.resource, c.object, c.asked, holds, err)
		}
	}
}

// NI-5: a condition sees a custom resource in the version that it is about, or nothing.
func TestStatesInTheVersionOfConditions(t *testing.T) {
	served := snapshot.Sources{Local: []*metav1.APIResourceList{
		{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{{Name: "widgets", Kind: "Widget"}}},
		{GroupVersion: "example.com/v2", APIResources: []metav1.APIResource{{Name: "widgets", Kind: "Widget"}}}}}.Served()
	stored := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "spec": "s"}}
	of := func(object runtime.Object, converted bool) *versions {
		return &versions{object: object, kind: schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, resource: "widgets", served: served, converted: converted}
	}
	for _, c := range []struct {
		version   string
		converted bool
		fails     bool
	}{{"v1", false, false}, {"v2", false, false}, {"v1", true, false}, {"v2", true, true}} {
		got, err := of(stored, c.converted).OldObject(c.version)
		if (err != nil) != c.fails {
			t.Errorf("%s, converted %v: %v", c.version, c.converted, err)
			continue
		}
		if u, _ := got.(*unstructured.Unstructured); !c.fails && (u.GetAPIVersion() != "example.com/"+c.version || u.Object["spec"] != "s" || (c.version == "v1") != (u == stored)) {
			t.Errorf("%s: %v", c.version, got)
		}
	}
	if stored.GetAPIVersion() != "example.com/v1" {
		t.Error("the stored object was changed")
	}
	if _, err := of(&corev1.ConfigMap{}, false).OldObject("v1"); err == nil {
		t.Error("a custom resource that is none")
	}
}

// RD-1: who watches one object by its path names it in a field selector only where another field is added.
func TestOneObjectByItsPath(t *testing.T) {
	label := selectors.Box{}.With(selectors.Key{Label: true, Name: "team"}, selectors.Of("a"))
	field := selectors.Box{}.With(selectors.Key{Name: "spec.nodeName"}, selectors.Of("n"))
	for _, c := range []struct {
		box               selectors.Box
		name, query, want string
	}{
		{label, "x", "", ""},
		{field, "x", "", "metadata.name=x,spec.nodeName=n"},
		{field, "x", "?fieldSelector=metadata.name%3Dx", "metadata.name=x,spec.nodeName=n"},
		{field, "", "", "spec.nodeName=n"},
	} {
		req := httptest.NewRequest(http.MethodGet, "/api/v1/watch/namespaces/default/configmaps/x"+c.query, nil)
		ctx := requestctx.With(req.Context(), &snapshot.Snapshot{})
		requestctx.From(ctx).Put(requestctx.Request, authorizer.AttributesRecord{Verb: "watch", APIVersion: "v1", Resource: "configmaps", Namespace: "default", Name: c.name, ResourceRequest: true},
			requestctx.Narrowed(&requestctx.Narrowing{Box: c.box}))
		got := "not reached"
		Filter(testCodecs, http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { got = req.URL.Query().Get("fieldSelector") })).ServeHTTP(httptest.NewRecorder(), req.WithContext(ctx))
		if got != c.want {
			t.Errorf("%q %q: %q, want %q", c.name, c.query, got, c.want)
		}
	}
}

// RD-2: an error about the request leaves without a decision: the first is 400. What says that it worked does not.
func TestErrorsLeaveUndecided(t *testing.T) {
	for code, want := range map[int]int{200: 403, 302: 403, 399: 403, 400: 400, 404: 404, 503: 503} {
		got, _, _ := serve(t, requestctx.Conditional(resolves(authorizer.DecisionAllow)), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
		if got != want {
			t.Errorf("%d without a decision becomes %d, want %d", code, got, want)
		}
	}
}

// RD-10: an object that the selectors do not select, or whose attributes cannot be had, is not asked about.
func TestOnlyWhatIsSelectedIsAskedAbout(t *testing.T) {
	for name, c := range map[string]struct {
		selector string
		labels   labels.Set
		err      error
		selected bool
	}{
		"everything":    {"", nil, errors.New("not asked"), true},
		"selected":      {"a=b", labels.Set{"a": "b"}, nil, true},
		"not selected":  {"a=b", labels.Set{"a": "c"}, nil, false},
		"no attributes": {"a=b", labels.Set{"a": "b"}, errors.New("no"), false},
	} {
		label, err := labels.Parse(c.selector)
		if err != nil {
			t.Fatal(err)
		}
		m := &matcher{selects: storage.SelectionPredicate{Label: label, Field: fields.Everything(), GetAttrs: func(runtime.Object) (labels.Set, fields.Set, error) { return c.labels, nil, c.err }}}
		if got := m.isSelected(&corev1.ConfigMap{}); got != c.selected {
			t.Errorf("%s: %v", name, got)
		}
	}
}
