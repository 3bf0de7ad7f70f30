package readfilter

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/storage"

	"proviso.dev/proviso/internal/engine/selectors"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// resolves is a condition that always gives the same.
type resolves authorizer.Decision

func (r resolves) Resolve(context.Context, authorizer.ConditionsData) requestctx.Outcome {
	return requestctx.Outcome{Decision: authorizer.Decision(r), Authorizer: "policy-master", Conditions: []string{"c"}}
}

// shelf is a storage with one config map, x, which may be unreadable. Its lists have the names that it is given, and
// leave out the one called hidden, as a selector would.
type shelf struct {
	storage.Interface
	broken error
	names  []string
	lists  []storage.ListOptions
	// limited: there is no watch cache, so limits count for lists of any revision, too.
	limited bool
}

func (s *shelf) Get(_ context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	switch {
	case key != "/configmaps/default/x" && opts.IgnoreNotFound:
		return nil
	case key != "/configmaps/default/x":
		return storage.NewKeyNotFoundError(key, 7)
	case s.broken != nil:
		return s.broken
	}
	*out.(*corev1.ConfigMap) = corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Data: map[string]string{"secret": "of x"}}
	return nil
}

func (s *shelf) GetList(_ context.Context, key string, opts storage.ListOptions, out runtime.Object) error {
	s.lists = append(s.lists, opts)
	if s.broken != nil {
		return s.broken
	}
	more, list := int64(9), out.(*corev1.ConfigMapList)
	*list = corev1.ConfigMapList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
	from := ""
	if opts.Predicate.Continue != "" {
		var err error
		if from, _, err = storage.DecodeContinue(opts.Predicate.Continue, key+"/"); err != nil {
			return err
		}
	}
	for i, name := range s.names {
		switch at := key + "/" + name; {
		case at < from:
			continue
		case name == "hidden":
			continue
		default:
			list.Items = append(list.Items, corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		if (s.limited || opts.ResourceVersion != "0") && int64(len(list.Items)) == opts.Predicate.Limit && i < len(s.names)-1 {
			list.Continue, list.RemainingItemCount = "token", &more
			break
		}
	}
	return nil
}

func (s *shelf) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

func (s *shelf) GetCurrentResourceVersion(context.Context) (uint64, error) { return 7, nil }

func newStore(inner storage.Interface) *store {
	return &store{Interface: inner, stores: New(Config{}), resource: schema.GroupResource{Resource: "configmaps"}, keyOf: func(o runtime.Object) (string, error) {
		return "/configmaps/default/" + o.(*corev1.ConfigMap).Name, nil
	}}
}

// arrive is the context in which the storage of a request is called, with its audit event.
func arrive(t *testing.T, verb string, pass requestctx.Pass, through bool) (context.Context, *reading) {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/default/configmaps/x", nil)
	req = under(req.WithContext(audit.WithAuditContext(req.Context())), verb, pass)
	ac := audit.AuditContextFrom(req.Context())
	if err := ac.Init(audit.RequestAuditConfig{Level: auditinternal.LevelMetadata}, nil); err != nil {
		t.Fatal(err)
	}
	if !through {
		return req.Context(), nil
	}
	var r *reading
	var ctx context.Context
	Filter(testCodecs, http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		ctx = req.Context()
		r, _ = requestctx.From(ctx).Reading().(*reading)
	})).ServeHTTP(httptest.NewRecorder(), req)
	return ctx, r
}

// RD-4: a get is decided on the object that it returns. What may not be seen, and what cannot be read, answers like a
// name that does not exist; audit knows better.
func TestAGetIsDecidedInTheStorage(t *testing.T) {
	missing := storage.NewKeyNotFoundError("/configmaps/default/nosuch", 0)
	for _, tc := range []struct {
		name, verb, key string
		pass            requestctx.Pass
		past            bool // not through the filter
		broken          error
		found, decided  bool
		forbidden       bool
		audited         map[string]string
	}{
		{name: "met", verb: "get", pass: requestctx.Conditional(resolves(authorizer.DecisionAllow)), found: true, decided: true, audited: map[string]string{authorize.AnnotationOutcome: "Allow", enforce.AnnotationConditions: "c"}},
		{name: "not met", verb: "get", pass: requestctx.Conditional(resolves(authorizer.DecisionNoOpinion)), audited: map[string]string{authorize.AnnotationOutcome: "NoOpinion", enforce.AnnotationDecision: "forbid"}},
		{name: "denied", verb: "get", pass: requestctx.Conditional(resolves(authorizer.DecisionDeny)), audited: map[string]string{authorize.AnnotationOutcome: "Deny"}},
		{name: "not there", verb: "get", key: "/configmaps/default/nosuch", pass: requestctx.Conditional(resolves(authorizer.DecisionAllow))},
		{name: "cannot be decoded", verb: "get", pass: requestctx.Conditional(resolves(authorizer.DecisionAllow)), broken: errors.New("cannot decode the secret"),
			audited: map[string]string{authorize.AnnotationOutcome: "NoOpinion", enforce.AnnotationDetail: "cannot decode the secret"}},
		{name: "without a condition", verb: "get", pass: requestctx.Allowed(), found: true},
		{name: "past the filter", verb: "get", past: true, pass: requestctx.Conditional(resolves(authorizer.DecisionAllow)), forbidden: true},
		{name: "by a list", verb: "list", pass: requestctx.Narrowed(&requestctx.Narrowing{}), forbidden: true},
		{name: "by a list with a condition", verb: "list", pass: requestctx.Conditional(resolves(authorizer.DecisionAllow)), forbidden: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, r := arrive(t, tc.verb, tc.pass, !tc.past)
			if tc.key == "" {
				tc.key = "/configmaps/default/x"
			}
			out := &corev1.ConfigMap{}
			err := newStore(&shelf{broken: tc.broken}).Get(ctx, tc.key, storage.GetOptions{}, out)
			switch {
			case tc.found:
				if err != nil || out.Data["secret"] == "" {
					t.Errorf("%v %v", out, err)
				}
			case tc.forbidden:
				if !apierrors.IsForbidden(err) || out.Data != nil {
					t.Errorf("%v %v, want it forbidden", out, err)
				}
			default:
				if !storage.IsNotFound(err) || strings.ReplaceAll(err.Error(), tc.key, "/configmaps/default/nosuch") != missing.Error() || out.Data != nil || out.Name != "" {
					t.Errorf("%v %v, want %v", out, err, missing)
				}
			}
			if r != nil && r.decided.Load() != tc.decided {
				t.Errorf("decided: %v", !tc.decided)
			}
			for name, want := range tc.audited {
				if got, _ := audit.AuditContextFrom(ctx).GetEventAnnotation(name); got != want {
					t.Errorf("audit %s = %q, want %q", name, got, want)
				}
			}
		})
	}
	// Who asks for nothing if there is nothing gets nothing, and no answer.
	ctx, r := arrive(t, "get", requestctx.Conditional(resolves(authorizer.DecisionNoOpinion)), true)
	out := &corev1.ConfigMap{}
	if err := newStore(&shelf{}).Get(ctx, "/configmaps/default/x", storage.GetOptions{IgnoreNotFound: true}, out); err != nil || out.Data != nil || r.decided.Load() {
		t.Errorf("%v %v, decided %v", out, err, r.decided.Load())
	}
}

// RD-1, RD-6: a list arrives as narrow as it must be, or is refused, and its page tells nothing of what is hidden.
func TestAListIsAsNarrowAsItMustBe(t *testing.T) {
	box := selectors.Box{}.With(selectors.Key{Label: true, Name: "team"}, selectors.Of("a")).With(selectors.Key{Name: "spec.nodeName"}, selectors.Of("n1"))
	list := func(t *testing.T, ls, fs string, broken error, pass requestctx.Pass) (*corev1.ConfigMapList, *shelf, *reading, error) {
		t.Helper()
		ctx, r := arrive(t, "list", pass, true)
		label, err := labels.Parse(ls)
		if err != nil {
			t.Fatal(err)
		}
		inner, out := &shelf{broken: broken, names: []string{"a", "hidden"}}, &corev1.ConfigMapList{}
		err = newStore(inner).GetList(ctx, "/configmaps/default", storage.ListOptions{Predicate: storage.SelectionPredicate{Label: label, Field: fields.ParseSelectorOrDie(fs), Limit: 1}}, out)
		return out, inner, r, err
	}
	narrowed := requestctx.Narrowed(&requestctx.Narrowing{Box: box})
	for _, wide := range [][2]string{{"", ""}, {"team=a", ""}, {"", "spec.nodeName=n1"}, {"team", "spec.nodeName=n1"}, {"team in (a,b)", "spec.nodeName=n1"}, {"team=a", "spec.nodeName!=n1"}} {
		if _, inner, r, err := list(t, wide[0], wide[1], nil, narrowed); !apierrors.IsForbidden(err) || len(inner.lists) != 0 || r.decided.Load() {
			t.Errorf("%q: %v", wide, err)
		}
	}
	out, inner, r, err := list(t, "team=a,tier=web", "spec.nodeName=n1,metadata.name!=y", nil, narrowed)
	if err != nil || !r.decided.Load() {
		t.Fatalf("%v, decided %v", err, r.decided.Load())
	}
	if out.Continue != "" || out.RemainingItemCount != nil || len(inner.lists) != 1 || len(out.Items) != 1 {
		t.Errorf("the page tells what follows unseen: %+v", out.ListMeta)
	}
	if _, _, r, err := list(t, "team=a", "spec.nodeName=n1", errors.New("cannot decode the secret"), narrowed); err == nil || strings.Contains(err.Error(), "decode") || r.decided.Load() {
		t.Errorf("an error that quotes an object: %v", err)
	}
	if _, _, _, err := list(t, "team=a", "spec.nodeName=n1", nil, requestctx.Conditional(resolves(authorizer.DecisionAllow))); !apierrors.IsForbidden(err) {
		t.Errorf("a condition that is no selector: %v", err)
	}
	ctx, _ := arrive(t, "list", narrowed, false)
	if err := newStore(&shelf{}).GetList(ctx, "/configmaps/default", storage.ListOptions{Predicate: storage.Everything}, &corev1.ConfigMapList{}); !apierrors.IsForbidden(err) {
		t.Errorf("past the filter: %v", err)
	}
}

// RD-6, RD-9: pages together are the list, each is read once, and the last one names no other, wherever hidden objects
// stand.
func TestPagesTogetherAreTheList(t *testing.T) {
	ctx, _ := arrive(t, "list", requestctx.Narrowed(&requestctx.Narrowing{}), true)
	all := []string{"a", "b", "c", "d", "e"}
	for hide := range 1 << len(all) {
		names, want := slices.Clone(all), []string(nil)
		for i := range names {
			if hide>>i&1 == 1 {
				names[i] = "hidden"
			} else {
				want = append(want, names[i])
			}
		}
		for _, limit := range []int64{0, 1, 2, 3, 4, 5, 6, math.MaxInt64} {
			inner, got, token, pages := &shelf{names: names}, []string(nil), "", 0
			for ; pages == 0 || token != ""; pages++ {
				out := &corev1.ConfigMapList{}
				opts := storage.ListOptions{Predicate: storage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything(), Limit: limit, Continue: token}}
				if err := newStore(inner).GetList(ctx, "/configmaps/default", opts, out); err != nil {
					t.Fatal(err)
				}
				if limit > 0 && int64(len(out.Items)) > limit || pages > 0 && len(out.Items) == 0 || out.RemainingItemCount != nil {
					t.Fatalf("%q by %d: page %d has %d, %+v", names, limit, pages, len(out.Items), out.ListMeta)
				}
				for _, o := range out.Items {
					got = append(got, o.Name)
				}
				token = out.Continue
			}
			if !slices.Equal(got, want) || len(inner.lists) != pages {
				t.Fatalf("%q by %d: %q, want %q; %d pages in %d lists", names, limit, got, want, pages, len(inner.lists))
			}
		}
		// Of any revision, the watch cache lists everything, and so do we, unless it is one more than the page. Without
		// a watch cache there are pages. What is hidden makes no difference in either (NI-1).
		for _, limited := range []bool{false, true} {
			for _, limit := range []int64{1, 2, 3} {
				out := &corev1.ConfigMapList{}
				opts := storage.ListOptions{ResourceVersion: "0", Predicate: storage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything(), Limit: limit}}
				listed := int64(len(want))
				more := listed == limit+1 || limited && listed > limit
				if more {
					listed = limit
				}
				if err := newStore(&shelf{names: names, limited: limited}).GetList(ctx, "/configmaps/default", opts, out); err != nil || int64(len(out.Items)) != listed || (out.Continue != "") != more {
					t.Fatalf("%q by %d: %d of %d, want %d, %+v %v", names, limit, len(out.Items), len(want), listed, out.ListMeta, err)
				}
			}
		}
	}
}

// RD-1: the parameters of a list are replaced by narrower ones, however they are spelled.
func TestSelectorsAreReplaced(t *testing.T) {
	label := selectors.Box{}.With(selectors.Key{Label: true, Name: "team"}, selectors.Of("a"))
	field := selectors.Box{}.With(selectors.Key{Name: "spec.nodeName"}, selectors.Of(`n,1\=`))
	for _, tc := range []struct {
		box         selectors.Box
		query, want string
	}{
		{label, "", "labelSelector=team=a"},
		{label, "labelSelector=tier%3Dweb&labelSelector=team%3Db", "labelSelector=tier=web,team=a"},
		{label, "labelSelector=team%3Db", "labelSelector=team=b,team=a"},
		{label, "labelSelector=team%3Db;labelSelector=x&limit=3", "labelSelector=team=a&limit=3"},
		{label, "fieldSelector=metadata.name%3Dx%5C%2Cy", `fieldSelector=metadata.name=x\,y&labelSelector=team=a`},
		{field, "fieldSelector=metadata.name%3Dx&fieldSelector=", `fieldSelector=metadata.name=x,spec.nodeName=n\,1\\\=`},
		{selectors.Nothing(), "labelSelector=a%3Db", "labelSelector=a=b,policy.proviso.dev/none,!policy.proviso.dev/none"},
		{selectors.Box{}, "labelSelector=team%3Da&labelSelector=", "labelSelector=team=a"},
	} {
		var got url.Values
		req := httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/default/configmaps?"+tc.query, nil)
		ctx := requestctx.With(req.Context(), &snapshot.Snapshot{})
		requestctx.From(ctx).Put(requestctx.Request, authorizer.AttributesRecord{Verb: "list", APIVersion: "v1", Resource: "configmaps", Namespace: "default", ResourceRequest: true},
			requestctx.Narrowed(&requestctx.Narrowing{Box: tc.box}))
		Filter(testCodecs, http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { got = req.URL.Query() })).ServeHTTP(httptest.NewRecorder(), req.WithContext(ctx))
		text, err := url.QueryUnescape(got.Encode())
		if err != nil || text != tc.want {
			t.Errorf("%q: %q, want %q (%v)", tc.query, text, tc.want, err)
		}
	}
	for _, query := range []string{"labelSelector=%3D%3D", "fieldSelector=metadata.name"} {
		code := httptest.NewRecorder()
		req := under(httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/default/configmaps?"+query, nil), "list", requestctx.Narrowed(&requestctx.Narrowing{Box: label}))
		Filter(testCodecs, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Errorf("%q passes", query) })).ServeHTTP(code, req)
		if code.Code != http.StatusBadRequest {
			t.Errorf("%q: %d", query, code.Code)
		}
	}
}

// RD-7: who listed by other selectors has to list again.
func TestAWatchFromBeforeAChangeHasToListAgain(t *testing.T) {
	now := uint64(5)
	current := func() (uint64, error) { return now, nil }
	a, b := selectors.Box{}.With(selectors.Key{Label: true, Name: "team"}, selectors.Of("a")), selectors.Box{}.With(selectors.Key{Label: true, Name: "team"}, selectors.Of("b"))
	var h history
	for _, step := range []struct {
		at, want uint64
		who      string
		box      selectors.Box
	}{{5, 6, "ann", a}, {8, 6, "ann", a}, {9, 10, "ann", b}, {12, 10, "ann", b}, {12, 13, "bob", a}, {13, 14, "ann", a}} {
		now = step.at
		if got, err := h.since(digestOf(step.who), digestOf(""), (&requestctx.Narrowing{Box: step.box}).View(), current); err != nil || got != step.want {
			t.Errorf("%+v: since %d (%v)", step, got, err)
		}
	}
	if _, err := (&history{}).since(digestOf("ann"), digestOf(""), (&requestctx.Narrowing{Box: a}).View(), func() (uint64, error) { return 0, errors.New("no quorum") }); err == nil {
		t.Error("an unknown revision is not old enough")
	}
	v, yes := storage.APIObjectVersioner{}, true
	for _, tc := range []struct {
		opts storage.ListOptions
		want bool
	}{
		{storage.ListOptions{ResourceVersion: "4"}, true}, {storage.ListOptions{ResourceVersion: "5"}, false}, {storage.ListOptions{}, false}, {storage.ListOptions{ResourceVersion: "0"}, false},
		{storage.ListOptions{ResourceVersion: "x"}, true}, {storage.ListOptions{ResourceVersion: "4", SendInitialEvents: &yes}, false},
	} {
		if got := older(v, tc.opts, 5); got != tc.want {
			t.Errorf("%+v: %v", tc.opts, got)
		}
	}
}
