package readfilter

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/sharding"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/warning"
	featuregatetesting "k8s.io/component-base/featuregate/testing"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/selectors"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// shard is a selector of shards that takes some names.
type shard struct {
	names string
	err   error
}

func (s shard) Matches(o runtime.Object) (bool, error) {
	return strings.Contains(s.names, o.(*corev1.ConfigMap).Name), s.err //nolint:forcetypeassert // config maps
}
func (shard) Empty() bool    { return false }
func (shard) String() string { return "of names" }
func (shard) Requirements() []sharding.ShardRangeRequirement {
	return []sharding.ShardRangeRequirement{{}}
}
func (s shard) DeepCopySelector() sharding.Selector { return s }

// placed tells by the name alone, of some names.
type placed struct {
	asking
	shown, known string
}

func (p *placed) At(_, name string) (shown, known bool) {
	return strings.Contains(p.shown, name), strings.Contains(p.known, name)
}

// RD-10: an object is shown if it is seen and in the shard that the caller has asked for, whatever tells that it is
// seen: its name, what is remembered, or the conditions. A shard that cannot be told shows nothing.
func TestShardsOfWhatIsSeen(t *testing.T) {
	object := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("u-" + name), ResourceVersion: "1"}}
	}
	for name, c := range map[string]struct {
		each  func() requestctx.Each
		shard sharding.Selector
		want  string
		asked int
	}{
		"by the conditions":                 {func() requestctx.Each { return &asking{shows: "a"} }, nil, "a", 3},
		"in a shard":                        {func() requestctx.Each { return &asking{shows: "a"} }, shard{"ab", nil}, "a", 2},
		"in another shard":                  {func() requestctx.Each { return &asking{shows: "a"} }, shard{"bc", nil}, "", 2},
		"in one that cannot be told":        {func() requestctx.Each { return &asking{shows: "a"} }, shard{"a", errors.New("x")}, "", 0},
		"by its name":                       {func() requestctx.Each { return &placed{shown: "a", known: "abc"} }, nil, "a", 0},
		"by its name, in a shard":           {func() requestctx.Each { return &placed{shown: "a", known: "abc"} }, shard{"a", nil}, "a", 0},
		"by its name, in another shard":     {func() requestctx.Each { return &placed{shown: "a", known: "abc"} }, shard{"b", nil}, "", 0},
		"by its name, one that is not told": {func() requestctx.Each { return &placed{shown: "a", known: "abc"} }, shard{"a", errors.New("x")}, "", 0},
		"by its name or by the conditions":  {func() requestctx.Each { return &placed{asking: asking{shows: "b"}, shown: "a", known: "a"} }, nil, "ab", 2},
	} {
		_, r := arrive(t, "list", requestctx.Narrowed(&requestctx.Narrowing{}), true)
		r.holder.Snapshot = &snapshot.Snapshot{}
		each := c.each()
		m := &matcher{ctx: t.Context(), store: newStore(&shelf{}), r: r, each: each, selects: storage.SelectionPredicate{ShardSelector: c.shard}, known: newMemory().of(digestOf("x"), requestctx.View{1})}
		asked := func() int {
			switch e := each.(type) {
			case *asking:
				return e.asked
			case *placed:
				return e.asked
			}
			return 0
		}
		for again := range 2 {
			got := ""
			for _, name := range []string{"a", "b", "c"} {
				if shown, err := m.Matches(object(name)); shown && err == nil {
					got += name
				}
			}
			if got != c.want {
				t.Errorf("%s, time %d: shown %q, want %q", name, again, got, c.want)
			}
			if n := asked(); n != c.asked && c.shard == nil {
				t.Errorf("%s, time %d: the conditions are asked %d times, want %d", name, again, n, c.asked)
			}
		}
		if m.Empty() || m.DeepCopySelector() != sharding.Selector(m) || (m.String() == "") != (c.shard == nil) || (len(m.Requirements()) == 0) != (c.shard == nil) {
			t.Errorf("%s: as a selector it is %q, %v", name, m.String(), m.Requirements())
		}
		// What is known of a state counts in the shard as well.
		m.selects.ShardSelector = shard{"", nil}
		if shown, _ := m.Matches(object("a")); shown {
			t.Errorf("%s: shown in a shard that has nothing", name)
		}
	}
}

// RD-10: which lists and watches are asked about with a memory: those of which one state is one state.
func TestWhatIsRemembered(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.ShardedListAndWatch, true)
	for name, c := range map[string]struct {
		place, cached, watches bool
		want                   bool
	}{
		"a list": {false, false, false, true}, "a watch of the cache": {false, true, true, true}, "a watch of etcd": {false, false, true, false}, "a list of the cache": {false, true, false, true},
		"a list by places": {true, true, false, false}, "a watch by places": {true, true, true, false},
	} {
		_, r := arrive(t, "list", requestctx.Narrowed(&requestctx.Narrowing{Each: &asking{place: c.place}}), true)
		s := newStore(&shelf{})
		s.cached, s.stores.cfg.Followed = c.cached, true
		opts := storage.ListOptions{}
		m, err := s.ask(t.Context(), r, &opts, c.watches)
		if err != nil || m == nil || (m.known != nil) != c.want || opts.Predicate.ShardSelector != sharding.Selector(m) {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
	_, r := arrive(t, "list", requestctx.Narrowed(&requestctx.Narrowing{}), true)
	opts := storage.ListOptions{}
	if m, err := newStore(&shelf{}).ask(t.Context(), r, &opts, false); m != nil || err != nil || opts.Predicate.ShardSelector != nil {
		t.Errorf("by selectors alone: %v, %v", m, err)
	}
	// A watch asks with its own options, and a list with its own: only a watch of etcd is told apart by nothing.
	for verb, watches := range map[string]bool{"list": false, "watch": true} {
		each := &asking{shows: "a"}
		ctx, r := arrive(t, verb, requestctx.Narrowed(&requestctx.Narrowing{Each: each}), true)
		c := newCrowd(t)
		r.holder.Snapshot = c.stores.cfg.Store.Current()
		c.stores.memory, c.stores.places = newMemory(), newPlaces(nil)
		inner := &keeping{}
		s := &store{Interface: inner, stores: c.stores, resource: schema.GroupResource{Resource: "configmaps"}, keyOf: newStore(inner).keyOf}
		options := storage.ListOptions{ResourceVersion: "0", Predicate: storage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything()}}
		if watches {
			w, err := s.Watch(ctx, "/configmaps/default", options)
			if err != nil {
				t.Fatal(err)
			}
			w.Stop()
		} else if err := s.GetList(ctx, "/configmaps/default", options, &corev1.ConfigMapList{}); err != nil {
			t.Fatal(err)
		}
		if m, ok := inner.last.Predicate.ShardSelector.(*matcher); !ok || (m.known == nil) != watches {
			t.Errorf("%s: %v", verb, inner.last.Predicate.ShardSelector)
		}
	}
}

// RD-10: what a storage has made of a list is checked before it leaves.
func TestListsAreSettled(t *testing.T) {
	over, end := context.WithCancel(t.Context())
	end()
	for name, c := range map[string]struct {
		ctx     context.Context
		asked   int64
		objects int
		shard   sharding.Selector
		fails   bool
	}{"all asked": {t.Context(), 2, 2, nil, false}, "more asked": {t.Context(), 3, 2, nil, false}, "one not asked": {t.Context(), 1, 2, nil, true}, "nobody waits": {over, 2, 2, nil, true}, "in a shard": {t.Context(), 2, 2, shard{}, false}} {
		m := &matcher{ctx: c.ctx, selects: storage.SelectionPredicate{ShardSelector: c.shard}}
		m.asked.Store(c.asked)
		list := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{ShardInfo: &metav1.ShardInfo{}}, Items: make([]corev1.ConfigMap, c.objects)}
		if err := m.settle(list); (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
		if !c.fails && (list.ShardInfo != nil) != (c.shard != nil) {
			t.Errorf("%s: it says of shards %v", name, list.ShardInfo)
		}
	}
	var none *matcher
	if none.settle(&corev1.ConfigMapList{Items: make([]corev1.ConfigMap, 2)}) != nil || !none.vouches() {
		t.Error("a list by selectors alone is not settled")
	}
	for _, on := range []bool{true, false} {
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.ShardedListAndWatch, on)
		for asked, want := range map[int64]bool{0: false, 1: on, 2: on} {
			m := &matcher{ctx: t.Context()}
			m.asked.Store(asked)
			if m.vouches() != want {
				t.Errorf("asked %d times, gate %v: vouches %v", asked, on, !want)
			}
		}
	}
}

// recorder keeps warnings.
type recorder []string

func (r *recorder) AddWarning(_, text string) { *r = append(*r, text) }

// RD-1, RD-8: a caller is told what was added to a list, and by which rules; nothing if nothing was.
func TestWhatWasAdded(t *testing.T) {
	team := selectors.Box{}.With(selectors.Key{Label: true, Name: "team"}, selectors.Of("a"))
	for name, c := range map[string]struct {
		n    *requestctx.Narrowing
		want string
	}{
		"nothing":              {&requestctx.Narrowing{Rules: []string{"r1"}}, ""},
		"a selector":           {&requestctx.Narrowing{Box: team, Rules: []string{"r1", "r2"}}, "only what you may see is shown: labelSelector team=a was added by condition r1, r2"},
		"what selects nothing": {&requestctx.Narrowing{Box: selectors.Nothing(), Rules: []string{"r1"}}, "no results: your access (condition r1) does not include the objects you selected"},
		"a question":           {&requestctx.Narrowing{Each: &asking{}, Rules: []string{"r1"}}, "only what you may see is shown: each object is checked by condition r1"},
		"both":                 {&requestctx.Narrowing{Box: team, Each: &asking{}, Rules: []string{"r1"}}, "only what you may see is shown: each object is checked by condition r1"},
		"a union":              {&requestctx.Narrowing{Each: &asking{}, Union: &requestctx.Union{Namespaces: []string{"a", "b"}}}, "only what you may see is shown: 2 namespaces"},
	} {
		var said recorder
		req := under(httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/default/configmaps", nil), "list", requestctx.Narrowed(c.n))
		Filter(testCodecs, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) })).ServeHTTP(httptest.NewRecorder(), req.WithContext(warning.WithWarningRecorder(req.Context(), &said)))
		if got := strings.Join(said, "; "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	// Parameters that say nothing any more are taken out.
	var query string
	req := under(httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/default/configmaps?labelSelector=&limit=3&fieldSelector=", nil), "list", requestctx.Narrowed(&requestctx.Narrowing{}))
	Filter(testCodecs, http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { query = req.URL.RawQuery })).ServeHTTP(httptest.NewRecorder(), req)
	if query != "limit=3" {
		t.Errorf("the query is %q", query)
	}
}

// RD-1: which requests are reads that are still to be decided.
func TestWhichReadsAreConditional(t *testing.T) {
	list := authorizer.AttributesRecord{Verb: "list", APIVersion: "v1", Resource: "configmaps", ResourceRequest: true}
	write, exec := list, list
	write.Verb = "update"
	exec.Verb, exec.Resource, exec.Subresource = "get", "pods", "exec"
	pending := requestctx.Conditional(resolves(authorizer.DecisionAllow))
	for name, c := range map[string]struct {
		attrs authorizer.Attributes
		pass  requestctx.Pass
		want  bool
	}{
		"narrowed": {list, requestctx.Narrowed(&requestctx.Narrowing{}), true}, "pending": {list, pending, true}, "allowed": {list, requestctx.Allowed(), false}, "a write": {write, pending, false},
		"a connection": {exec, pending, false}, "nothing that was decided": {nil, pending, false}, "no pass": {list, requestctx.Pass{}, false},
	} {
		holder := &requestctx.State{}
		holder.Put(requestctx.Request, c.attrs, c.pass)
		if attrs, got := conditional(holder); got != c.want || got && attrs.GetVerb() != c.attrs.GetVerb() {
			t.Errorf("%s: %v", name, got)
		}
	}
	if _, got := conditional(nil); got {
		t.Error("a request without a state is conditional")
	}
	ctx, r := arrive(t, "list", requestctx.Narrowed(&requestctx.Narrowing{}), true)
	for resource, want := range map[string]*reading{"configmaps": r, "secrets": nil} {
		if got, err := of(ctx, schema.GroupResource{Resource: resource}); got != want || err != nil {
			t.Errorf("%s: %v, %v", resource, got, err)
		}
	}
	if r.IsDecided() {
		t.Error("it is decided")
	}
}

// CA-5, FP-16: a state that another object takes the place of is certain only where nobody has looked at that one.
func TestCertainFacts(t *testing.T) {
	served := snapshot.Sources{Local: []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "configmaps", Kind: "ConfigMap"}}}}}.Served()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	facts := func(operation authorizer.AdmissionOperation, changes bool) authorizer.ConditionsData {
		return Facts(t.Context(), State{Holder: &requestctx.State{Snapshot: &snapshot.Snapshot{Served: served}}, Operation: operation, Object: object, Changes: changes, Convert: keeps{},
			Attributes: authorizer.AttributesRecord{Verb: "update", APIVersion: "v1", Resource: "configmaps", Namespace: "n", Name: "x", Subresource: "s", ResourceRequest: true}})
	}
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	program, issues := cel.Compile(`object.metadata.name == "x"`, expr.Options{Kind: expr.When})
	if issues != nil {
		t.Fatal(issues)
	}
	old, issues := cel.Compile(`oldObject.metadata.name == "x"`, expr.Options{Kind: expr.When})
	if issues != nil {
		t.Fatal(issues)
	}
	for name, c := range map[string]struct {
		changes bool
		look    func(authorizer.ConditionsData)
		certain bool
		object  bool
	}{
		"a state":                      {false, func(authorizer.ConditionsData) {}, true, true},
		"a change, not looked at":      {true, func(authorizer.ConditionsData) {}, true, false},
		"a change that others look at": {true, func(d authorizer.ConditionsData) { d.GetObject() }, false, false},
		"a state that others look at":  {false, func(d authorizer.ConditionsData) { d.GetObject() }, true, true},
		"a change that a rule asks for": {true, func(d authorizer.ConditionsData) {
			_, _ = program.Evaluate(context.Background(), &expr.Request{}, expr.Allow, authorize.FactsOf(context.Background(), d))
		}, false, false},
		"a rule that asks for the old one": {true, func(d authorizer.ConditionsData) {
			_, _ = old.Evaluate(context.Background(), &expr.Request{}, expr.Allow, authorize.FactsOf(context.Background(), d))
		}, true, false},
	} {
		d := facts("UPDATE", c.changes)
		if c.look(d); Certain(d) != c.certain {
			t.Errorf("%s: certain %v", name, !c.certain)
		}
		if (d.GetObject() != nil) != c.object || d.GetOldObject() == nil {
			t.Errorf("%s: the objects are %v and %v", name, d.GetObject(), d.GetOldObject())
		}
	}
	if Certain(nil) {
		t.Error("what is not ours is certain")
	}
	gone := facts(admission.Delete, false)
	if gone.GetObject() != nil || gone.GetOldObject() == nil || gone.IsDryRun() || gone.GetName() != "x" || gone.GetNamespace() != "n" || gone.GetSubresource() != "s" || gone.GetResource().Resource != "configmaps" || gone.GetKind().Kind != "ConfigMap" {
		t.Errorf("a deletion: %v, %v", gone.GetObject(), gone.GetOldObject())
	}
	// A condition about an object is about the resource's own kind, where that is known.
	for _, known := range []bool{true, false} {
		s := State{Holder: &requestctx.State{Snapshot: &snapshot.Snapshot{Served: served}}, Operation: Operation, Object: object, Attributes: authorizer.AttributesRecord{APIVersion: "v1", Resource: map[bool]string{true: "configmaps", false: "gadgets"}[known]}}
		if got := newFacts(s, nil).data.OwnKind(); got != known {
			t.Errorf("its own kind is known %v: %v", known, got)
		}
	}
}

// keeps converts to what is there.
type keeps struct{}

func (keeps) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

// UnsafeConvertToVersion is the same without a copy.
func (keeps) UnsafeConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, errors.New("not copied")
}

type copies struct{}

func (copies) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in.DeepCopyObject(), nil
}

// keeping is a storage that keeps what it is asked.
type keeping struct {
	shelf
	last storage.ListOptions
}

func (k *keeping) GetList(_ context.Context, _ string, opts storage.ListOptions, out runtime.Object) error {
	k.last = opts
	*out.(*corev1.ConfigMapList) = corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}} //nolint:forcetypeassert // config maps
	return nil
}

func (k *keeping) Watch(_ context.Context, _ string, opts storage.ListOptions) (watch.Interface, error) {
	k.last = opts
	return watch.NewFake(), nil
}

// RD-10: requests that are served elsewhere, or are about no resource, keep their parameters; all of them are served.
func TestShardsOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		query string
		info  *request.RequestInfo
		want  string
	}{
		"no parameter": {"limit=5", &request.RequestInfo{IsResourceRequest: true}, "limit=5"}, "ours": {"shardSelector=x", &request.RequestInfo{IsResourceRequest: true}, ""}, "no resource": {"shardSelector=x", &request.RequestInfo{}, "shardSelector=x"},
		"elsewhere": {"shardSelector=x", &request.RequestInfo{IsResourceRequest: true, APIGroup: "g"}, "shardSelector=x"}, "nothing known": {"shardSelector=x", nil, "shardSelector=x"},
	} {
		served := 0
		req := httptest.NewRequest(http.MethodGet, "/x?"+c.query, nil)
		if c.info != nil {
			req = req.WithContext(request.WithRequestInfo(req.Context(), c.info))
		}
		Unsharded(authorize.LocalFunc(func(group, _ string) bool { return group == "" }), http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
			if served++; req.URL.RawQuery != c.want {
				t.Errorf("%s: %q", name, req.URL.RawQuery)
			}
		})).ServeHTTP(httptest.NewRecorder(), req)
		if served != 1 {
			t.Errorf("%s: served %d times", name, served)
		}
	}
}
