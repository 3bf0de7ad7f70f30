package readfilter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"proviso.dev/proviso/internal/request/requestctx"
)

// shelves is a storage with the config maps of several namespaces. Between any two reads somebody writes: a read of the
// latest state is of another revision each time, and shows another version of every object.
type shelves struct {
	storage.Interface
	keys     []string
	revision int64
	reads    []string
	broken   error
}

func (s *shelves) Versioner() storage.Versioner { return storage.APIObjectVersioner{} }

func (s *shelves) GetCurrentResourceVersion(context.Context) (uint64, error) {
	return uint64(s.revision), s.broken
}

func (s *shelves) GetList(_ context.Context, key string, opts storage.ListOptions, out runtime.Object) error {
	s.reads = append(s.reads, key)
	if s.broken != nil {
		return s.broken
	}
	s.revision++
	prefix, from, at := strings.TrimSuffix(key, "/")+"/", "", s.revision
	if opts.Predicate.Continue != "" {
		var err error
		var rv int64
		if from, rv, err = storage.DecodeContinue(opts.Predicate.Continue, prefix); err != nil {
			return err
		}
		if rv > 0 {
			at = rv
		}
	}
	if opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact {
		rv, err := strconv.ParseInt(opts.ResourceVersion, 10, 64)
		if err != nil {
			return err
		}
		at = rv
	} else if opts.ResourceVersion != "" && opts.Predicate.Continue != "" {
		return apierrors.NewBadRequest("a token and a revision")
	}
	list, ok := out.(*corev1.ConfigMapList)
	if !ok {
		return errors.New("no list of config maps")
	}
	if len(list.Items) > 0 {
		return errors.New("the list is not empty")
	}
	list.ResourceVersion = strconv.FormatInt(at, 10)
	for _, k := range s.keys {
		if !strings.HasPrefix(k, prefix) || k < from {
			continue
		}
		if limit := opts.Predicate.Limit; limit > 0 && int64(len(list.Items)) == limit {
			list.Continue = "more"
			break
		}
		ns, name, _ := strings.Cut(strings.TrimPrefix(k, "/configmaps/"), "/")
		list.Items = append(list.Items, corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, ResourceVersion: strconv.FormatInt(at, 10)}})
	}
	return nil
}

func shelvesStore(inner storage.Interface) *store {
	s := newStore(inner)
	s.keyOf = func(o runtime.Object) (string, error) {
		m, ok := o.(*corev1.ConfigMap)
		if !ok {
			return "", errors.New("no config map")
		}
		return "/configmaps/" + m.Namespace + "/" + m.Name, nil
	}
	return s
}

func unionOf(namespaces ...string) requestctx.Pass {
	return requestctx.Narrowed(&requestctx.Narrowing{Union: &requestctx.Union{Namespaces: namespaces}})
}

// TestGatheredIsTheList: RD-11, RD-14. A union of namespaces, read one by one, is what a list of everything would show
// of them: in that order, in pages of any size, all of it at one revision, and nothing else is read.
func TestGatheredIsTheList(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 8))
	for round := range 300 {
		places := []string{"a-b", "a", "b", "c.d", "c"}
		var keys, want []string
		var union []string
		for _, place := range places {
			if random.IntN(2) == 0 || place == "c" && len(union) == 0 {
				union = append(union, place)
			}
		}
		slices.SortFunc(union, func(a, b string) int { return strings.Compare(a+"/", b+"/") })
		for _, place := range places {
			for i := range random.IntN(4) {
				keys = append(keys, fmt.Sprintf("/configmaps/%s/o%d", place, i))
			}
		}
		slices.Sort(keys)
		for _, k := range keys {
			ns, _, _ := strings.Cut(strings.TrimPrefix(k, "/configmaps/"), "/")
			if slices.Contains(union, ns) {
				want = append(want, k)
			}
		}
		limit := []int64{0, 1, 2, 3, 5, math.MaxInt64}[random.IntN(6)]
		inner := &shelves{keys: keys, revision: 10}
		s := shelvesStore(inner)
		ctx, _ := arrive(t, "list", unionOf(union...), true)
		ctx = request.WithNamespace(ctx, "")
		var got, at []string
		token, pages := "", 0
		for ; pages == 0 || token != ""; pages++ {
			out := &corev1.ConfigMapList{}
			opts := storage.ListOptions{Recursive: true, Predicate: storage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything(), Limit: limit, Continue: token}}
			if err := s.GetList(ctx, "/configmaps", opts, out); err != nil {
				t.Fatal(err)
			}
			if limit > 0 && int64(len(out.Items)) > limit || pages > 0 && len(out.Items) == 0 || pages > len(want) {
				t.Fatalf("round %d: page %d of %d has %d objects", round, pages, limit, len(out.Items))
			}
			at = append(at, out.ResourceVersion)
			for _, o := range out.Items {
				got = append(got, "/configmaps/"+o.Namespace+"/"+o.Name)
				at = append(at, o.ResourceVersion)
			}
			if out.Items == nil {
				t.Fatalf("round %d: the items are null", round)
			}
			token = out.Continue
		}
		if !slices.Equal(got, want) {
			t.Fatalf("round %d, union of %v, by %d: %v, want %v", round, union, limit, got, want)
		}
		if len(slices.Compact(at)) > 1 {
			t.Fatalf("round %d: read at several revisions: %v", round, at)
		}
		for _, read := range inner.reads {
			if ns := strings.TrimPrefix(read, "/configmaps/"); !slices.Contains(union, ns) {
				t.Fatalf("round %d: %s is read, and the union is of %v", round, read, union)
			}
		}
		if limit == 1 && len(want) > 0 && len(inner.reads) > 2*len(want)+len(union) {
			t.Fatalf("round %d: %d reads for %d objects", round, len(inner.reads), len(want))
		}
	}
}

// RD-14: which lists are read namespace by namespace; everything else looks at all objects.
func TestWhichUnionsAreReadApart(t *testing.T) {
	many := make([]string, maxApart+1)
	for i := range many {
		many[i] = fmt.Sprint("n", i)
	}
	recursive := storage.ListOptions{Recursive: true, Predicate: storage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything()}}
	one, byField := recursive, recursive
	one.Recursive = false
	byField.Predicate.Field = fields.OneTermEqualSelector("metadata.namespace", "a")
	for name, c := range map[string]struct {
		union *requestctx.Union
		in    string
		opts  storage.ListOptions
		want  int
	}{
		"no union": {nil, "", recursive, 0}, "two": {&requestctx.Union{Namespaces: many[:2]}, "", recursive, 2}, "as many as can be": {&requestctx.Union{Namespaces: many[:maxApart]}, "", recursive, maxApart},
		"one more": {&requestctx.Union{Namespaces: many}, "", recursive, 0}, "and elsewhere": {&requestctx.Union{Namespaces: many[:2], Elsewhere: true}, "", recursive, 0}, "namespaces": {&requestctx.Union{Namespaces: many[:2], Themselves: true}, "", recursive, 0},
		"one object": {&requestctx.Union{Namespaces: many[:2]}, "", one, 0}, "in a namespace": {&requestctx.Union{Namespaces: many[:2]}, "a", recursive, 0}, "by a field": {&requestctx.Union{Namespaces: many[:2]}, "", byField, 0},
	} {
		if got := apart(request.WithNamespace(t.Context(), c.in), &requestctx.Narrowing{Union: c.union}, c.opts); len(got) != c.want {
			t.Errorf("%s: %d namespaces", name, len(got))
		}
	}
}

// RD-11: what a gathered list cannot be made of is an error, and no token leads into a single namespace.
func TestGatherFails(t *testing.T) {
	ctx, _ := arrive(t, "list", unionOf("a"), true)
	ctx = request.WithNamespace(ctx, "")
	opts := storage.ListOptions{Recursive: true, Predicate: storage.SelectionPredicate{Label: labels.Everything(), Field: fields.Everything()}}
	wrong := opts
	wrong.ResourceVersion = "x"
	spoiled := opts
	spoiled.Predicate.Continue = "x"
	inner := &shelves{keys: []string{"/configmaps/a/o"}, revision: 1}
	for name, try := range map[string]func() error{
		"a revision that is none": func() error {
			return shelvesStore(inner).gather(ctx, []string{"a"}, "/configmaps", wrong, &corev1.ConfigMapList{})
		},
		"a token that is none": func() error {
			return shelvesStore(inner).gather(ctx, []string{"a"}, "/configmaps", spoiled, &corev1.ConfigMapList{})
		},
		"no list": func() error {
			return shelvesStore(inner).gather(ctx, []string{"a"}, "/configmaps", opts, &corev1.ConfigMap{})
		},
		"a storage that fails": func() error {
			return shelvesStore(&shelves{broken: errors.New("boom")}).gather(ctx, []string{"a"}, "/configmaps", opts, &corev1.ConfigMapList{})
		},
		"no revision of now": func() error {
			return shelvesStore(&shelves{broken: errors.New("boom")}).gather(ctx, nil, "/configmaps", opts, &corev1.ConfigMapList{})
		},
		"a list without a revision": func() error {
			return shelvesStore(undated{inner}).gather(ctx, []string{"a"}, "/configmaps", opts, &corev1.ConfigMapList{})
		},
	} {
		if err := try(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	out := &corev1.ConfigMapList{ListMeta: metav1.ListMeta{Continue: "left over"}}
	if err := shelvesStore(&shelves{revision: 7}).gather(ctx, nil, "/configmaps", opts, out); err != nil || out.ResourceVersion != "7" || out.Continue != "" || out.Items == nil {
		t.Errorf("a union of nothing: %+v, %v", out, err)
	}
	exact := opts
	exact.ResourceVersion, exact.ResourceVersionMatch = "5", metav1.ResourceVersionMatchExact
	out = &corev1.ConfigMapList{}
	if err := shelvesStore(&shelves{revision: 7, keys: []string{"/configmaps/a/o"}}).gather(ctx, []string{"a", "b"}, "/configmaps", exact, out); err != nil || out.ResourceVersion != "5" {
		t.Errorf("as of a revision: %+v, %v", out.ListMeta, err)
	}
	expired := apierrors.NewResourceExpired("too old")
	expired.ErrStatus.Continue = "of one namespace"
	plain := apierrors.NewBadRequest("x")
	for _, c := range []struct{ err, want error }{{errors.New("boom"), nil}, {plain, nil}, {expired, apierrors.NewResourceExpired("too old")}} {
		got := withoutToken(c.err)
		if status := (&apierrors.StatusError{}); errors.As(got, &status) && status.ErrStatus.Continue != "" || c.want == nil && got != c.err { //nolint:errorlint // the same
			t.Errorf("%v became %v", c.err, got)
		}
	}
	if expired.ErrStatus.Continue == "" {
		t.Error("the error of the storage was changed")
	}
	if _, err := revisionOf(&corev1.ConfigMap{}); err == nil {
		t.Error("an object has the revision of a list")
	}
	items, err := itemsOf(&corev1.ConfigMapList{})
	if err != nil || items.IsNil() || items.Kind() != reflect.Slice {
		t.Errorf("the items of an empty list: %v, %v", items, err)
	}
}

// undated is a storage whose lists have no revision.
type undated struct{ *shelves }

func (u undated) GetList(ctx context.Context, key string, opts storage.ListOptions, out runtime.Object) error {
	err := u.shelves.GetList(ctx, key, opts, out)
	if list, ok := out.(*corev1.ConfigMapList); ok {
		list.ResourceVersion = ""
	}
	return err
}

// pods is a storage of pods, which can fail.
type podShelf struct {
	storage.Interface
	broken error
	asked  []string
}

func (p *podShelf) Get(_ context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	p.asked = append(p.asked, key+"@"+opts.ResourceVersion)
	switch {
	case p.broken != nil:
		return p.broken
	case key != "/pods/hammer/p":
		return storage.NewKeyNotFoundError(key, 7)
	}
	*out.(*corev1.Pod) = corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "hammer", Name: "p", Labels: map[string]string{"a": "b"}}} //nolint:forcetypeassert // of pods
	return nil
}

func podStore(inner storage.Interface, resource string) *store {
	return &store{Interface: inner, stores: New(Config{}), resource: schema.GroupResource{Resource: resource}, keyOf: func(o runtime.Object) (string, error) {
		pod, ok := o.(*corev1.Pod)
		if !ok || pod.Name == "bad" {
			return "", errors.New("no key")
		}
		return "/pods/" + pod.Namespace + "/" + pod.Name, nil
	}}
}

// CA-26: what a connection goes to is read from the store of its resource, if that is one that connections go to.
func TestTargetsOfConnections(t *testing.T) {
	s := New(Config{})
	pods := schema.GroupResource{Resource: "pods"}
	if _, err := s.Target(t.Context(), pods, "hammer", "p"); err == nil {
		t.Error("a target that nobody stores")
	}
	for _, resource := range []string{"configmaps", "pods", "services", "nodes"} {
		inner := &podShelf{}
		s.targets.put(podStore(inner, resource), &corev1.Pod{})
	}
	s.targets.put(&store{resource: schema.GroupResource{Group: "example.com", Resource: "pods"}}, &corev1.Pod{})
	for _, resource := range []schema.GroupResource{{Resource: "configmaps"}, {Group: "example.com", Resource: "pods"}} {
		if _, err := s.Target(t.Context(), resource, "hammer", "p"); err == nil {
			t.Errorf("nothing connects to %s", resource)
		}
	}
	for _, resource := range []string{"pods", "services", "nodes"} {
		got, err := s.Target(t.Context(), schema.GroupResource{Resource: resource}, "hammer", "p")
		if pod, ok := got.(*corev1.Pod); err != nil || !ok || pod.Labels["a"] != "b" {
			t.Errorf("%s: %v, %v", resource, got, err)
		}
		if _, err := s.Target(t.Context(), schema.GroupResource{Resource: resource}, "hammer", "nosuch"); !storage.IsNotFound(err) {
			t.Errorf("%s that is not there: %v", resource, err)
		}
		if _, err := s.Target(t.Context(), schema.GroupResource{Resource: resource}, "hammer", "bad"); err == nil || storage.IsNotFound(err) {
			t.Errorf("%s without a key: %v", resource, err)
		}
	}
	s.targets.put(podStore(&podShelf{}, "pods"), &metav1.Status{})
	if _, err := s.Target(t.Context(), pods, "hammer", "p"); err == nil {
		t.Error("an object without metadata is a target")
	}
}

// connecting decides a connection by a label of its target.
type connecting struct {
	resource string
	seen     []runtime.Object
	err      error
}

func (c *connecting) Resource() schema.GroupResource {
	return schema.GroupResource{Resource: c.resource}
}
func (c *connecting) Decide(_ context.Context, target runtime.Object) error {
	c.seen = append(c.seen, target)
	return c.err
}

// CA-26: the state that the handler reads is decided once more. What does not meet the conditions and what cannot be
// read answers like a name that does not exist; audit knows better.
func TestConnectionsAreDecidedWhereTheyAreRead(t *testing.T) {
	const found = "/pods/hammer/p"
	for name, c := range map[string]struct {
		key     string
		broken  error
		refused error
		about   string
		found   bool
		asked   int
		audited string
	}{
		"met": {found, nil, nil, "pods", true, 1, ""}, "not met": {found, nil, errors.New("no"), "pods", false, 1, ""}, "not there": {"/pods/hammer/q", nil, nil, "pods", false, 0, ""},
		"unreadable": {found, errors.New("cannot decode"), nil, "pods", false, 0, "cannot decode"}, "to something else": {found, nil, errors.New("no"), "services", true, 0, ""},
	} {
		ctx, _ := arrive(t, "create", requestctx.Allowed(), true)
		waits := &connecting{resource: c.about, err: c.refused}
		requestctx.From(ctx).Connects(waits)
		out := &corev1.Pod{}
		err := podStore(&podShelf{broken: c.broken}, "pods").Get(ctx, c.key, storage.GetOptions{ResourceVersion: "7"}, out)
		if (err == nil) != c.found || err != nil && (!storage.IsNotFound(err) || out.Name != "" || strings.Contains(err.Error(), "decode")) {
			t.Errorf("%s: %v, %v", name, out, err)
		}
		if len(waits.seen) != c.asked || c.asked > 0 && waits.seen[0] == runtime.Object(out) {
			t.Errorf("%s: decided %d times", name, len(waits.seen))
		}
		if got := noted(ctx, "authorization.proviso.dev/detail"); got != c.audited {
			t.Errorf("%s: the detail in audit is %q", name, got)
		}
		if got := noted(ctx, "authorization.proviso.dev/outcome"); (got == "NoOpinion") != (c.audited != "") {
			t.Errorf("%s: the outcome in audit is %q", name, got)
		}
	}
	ctx, _ := arrive(t, "create", requestctx.Allowed(), true)
	requestctx.From(ctx).Connects(&connecting{resource: "pods", err: errors.New("no")})
	if err := podStore(&podShelf{}, "pods").Get(ctx, found, storage.GetOptions{IgnoreNotFound: true}, &corev1.Pod{}); err != nil {
		t.Errorf("what need not be there: %v", err)
	}
}

func noted(ctx context.Context, key string) string {
	value, _ := audit.AuditContextFrom(ctx).GetEventAnnotation(key)
	return value
}
