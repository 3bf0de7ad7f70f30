package errorfilter

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/kubernetes/scheme"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

const secret = "what-is-stored"

var resource = schema.GroupResource{Resource: "configmaps"}

// world is a filter, the storage behind it, and rules by which ann may get, patch and delete what is labelled team=a,
// and wes may patch and delete the same and get nothing.
type world struct {
	filter *Filter
	store  *store
	stored *states
	snap   *snapshot.Snapshot
	gate   *authorize.Gate
	query  string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rule := func(verbs ...string) policyv1alpha1.PolicyRule {
		return policyv1alpha1.PolicyRule{Verbs: verbs, ResourceKinds: []string{"configmaps"}, Where: `resource.metadata.labels.team == "a"`}
	}
	index := ruleset.Build(ruleset.Input{MasterNamespace: "master", CompileRule: (&rulecondition.Compiler{CEL: cel}).CompileRule,
		Kinds: ruleset.NewKinds([]ruleset.Served{{Resource: "configmaps", Kind: "ConfigMap", Builtin: true}}),
		Policies: []*policyv1alpha1.Policy{{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: "master"},
			Roles: map[string]policyv1alpha1.PolicyRole{
				"all":   {Rules: []policyv1alpha1.PolicyRule{rule("get", "create", "patch", "delete", "deletecollection")}},
				"write": {Rules: []policyv1alpha1.PolicyRule{rule("create", "patch", "delete", "deletecollection")}}}}},
		PolicyBindings: []*policyv1alpha1.PolicyBinding{{ObjectMeta: metav1.ObjectMeta{Name: "master", Namespace: "master"},
			RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"all": {RoleName: "all", UserNames: []string{"ann"}}, "write": {RoleName: "write", UserNames: []string{"wes"}}}}}})
	chain, err := authorize.NewChain(authorize.Link{Name: "policy-master", Authorizer: authorize.NewPolicyMaster(snapshot.NewStore())})
	if err != nil {
		t.Fatal(err)
	}
	served := snapshot.Sources{Local: []*metav1.APIResourceList{{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "configmaps", Kind: "ConfigMap", Namespaced: true}}}}}.Served()
	gate := authorize.NewGate(authorize.GateConfig{Chain: chain, Conditional: true, Reads: authorize.ReadsFunc(func(authorizer.Attributes) error { return nil }), Local: authorize.LocalFunc(func(string, string) bool { return true })})
	w := &world{gate: gate, stored: &states{}, snap: &snapshot.Snapshot{Rules: index, Served: served}, filter: New(Config{Gate: gate, Codecs: scheme.Codecs})}
	w.filter.convertsBy(resource, scheme.Scheme)
	w.store = &store{Interface: w.stored, resource: resource}
	return w
}

// send has a caller send a request, which the handler answers.
func (w *world) send(t *testing.T, who, verb, name string, handle http.HandlerFunc) (int, http.Header, string) {
	t.Helper()
	attrs := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: who}, Verb: verb, APIVersion: "v1", Resource: "configmaps", Namespace: "default", Name: name, ResourceRequest: true}
	ctx := requestctx.WithNotes(requestctx.With(t.Context(), w.snap))
	verdict := w.gate.Decide(ctx, attrs)
	requestctx.From(ctx).Put(requestctx.Request, attrs, verdict.Pass)
	recorded := httptest.NewRecorder()
	ctx = warning.WithWarningRecorder(ctx, recorder{recorded})
	w.filter.Wrap(handle).ServeHTTP(recorded, httptest.NewRequest(http.MethodPost, "/"+w.query, nil).WithContext(ctx))
	return recorded.Code, recorded.Header(), recorded.Body.String()
}

type recorder struct{ w http.ResponseWriter }

func (r recorder) AddWarning(_, text string) { r.w.Header().Add("Warning", text) }

func reply(w http.ResponseWriter, r *http.Request, err error) {
	w.Header().Set("ETag", secret)
	warning.AddWarning(r.Context(), "", "a warning about "+secret)
	if err != nil {
		responsewriters.ErrorNegotiated(err, scheme.Codecs, schema.GroupVersion{Version: "v1"}, w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"data": secret})
}

// states is a storage that tries a change on one state after the other, as after a conflict. The last failure counts.
type states struct {
	storage.Interface
	all []*corev1.ConfigMap
	// own is what the storage says itself in the end, of a state that is not tried.
	own error
}

func (s *states) Get(_ context.Context, _ string, _ storage.GetOptions, out runtime.Object) error {
	if len(s.all) == 0 {
		return storage.NewKeyNotFoundError("x", 0)
	}
	s.all[0].DeepCopyInto(out.(*corev1.ConfigMap))
	return s.own
}

func (s *states) Create(context.Context, string, runtime.Object, runtime.Object, uint64) error {
	return storage.NewKeyExistsError("/x", 0)
}

func (s *states) GetList(_ context.Context, _ string, _ storage.ListOptions, out runtime.Object) error {
	list, remaining := out.(*corev1.ConfigMapList), int64(7)
	list.RemainingItemCount = &remaining
	for _, o := range s.all {
		list.Items = append(list.Items, *o)
	}
	return s.own
}

func (s *states) GuaranteedUpdate(_ context.Context, _ string, _ runtime.Object, _ bool, _ *storage.Preconditions, try storage.UpdateFunc, _ runtime.Object) (err error) {
	for _, o := range s.all {
		_, _, err = try(o.DeepCopy(), storage.ResponseMeta{})
	}
	if s.own != nil {
		return s.own
	}
	return err
}

func (s *states) Delete(ctx context.Context, _ string, _ runtime.Object, _ *storage.Preconditions, validate storage.ValidateObjectFunc, _ runtime.Object, _ storage.DeleteOptions) (err error) {
	for _, o := range s.all {
		err = validate(ctx, o.DeepCopy())
	}
	if s.own != nil {
		return s.own
	}
	return err
}

func object(name, team, version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), ResourceVersion: version, Labels: map[string]string{"team": team}}}
}

// NI-3: of a change that was not admitted, the response leaves if the caller may get the state that it was last tried
// on (RD-4), and loses everything otherwise.
func TestAChangeIsToldByTheStateItWasTriedOn(t *testing.T) {
	hers, theirs := object("x", "a", "1"), object("x", "b", "2")
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, secret, nil)
	for _, tc := range []struct {
		name, user string
		states     []*corev1.ConfigMap
		err, own   error
		// admit is the state that the enforcer lets pass, if any.
		admit *corev1.ConfigMap
		want  int
		told  bool
	}{
		{name: "a state that may be seen", states: []*corev1.ConfigMap{hers}, err: invalid, want: 422, told: true},
		{name: "a state that may not", states: []*corev1.ConfigMap{theirs}, err: invalid, want: 403},
		{name: "it may be seen no more", states: []*corev1.ConfigMap{hers, theirs}, err: invalid, want: 403},
		{name: "it may be seen now", states: []*corev1.ConfigMap{theirs, hers}, err: invalid, want: 422, told: true},
		{name: "nothing is there yet", states: []*corev1.ConfigMap{{}}, err: invalid, want: 422, told: true},
		{name: "the storage refuses the next state", states: []*corev1.ConfigMap{hers}, own: apierrors.NewConflict(resource, secret, errors.New(secret)), want: 409},
		{name: "another object", states: []*corev1.ConfigMap{object("y", "a", "1")}, err: invalid, want: 422},
		{name: "who may see none", user: "wes", states: []*corev1.ConfigMap{hers}, err: invalid, want: 422},
		{name: "a bad request about it", states: []*corev1.ConfigMap{theirs}, err: apierrors.NewBadRequest(secret), want: 403},
		{name: "an internal error about it", states: []*corev1.ConfigMap{theirs}, err: apierrors.NewInternalError(errors.New(secret)), want: 403},
		{name: "a conflict with it", states: []*corev1.ConfigMap{theirs}, err: apierrors.NewConflict(resource, "x", errors.New(secret)), want: 403},
		{name: "the storage is away", states: nil, own: apierrors.NewServiceUnavailable(secret), want: 503, told: true},
		{name: "success that nobody admitted", states: []*corev1.ConfigMap{theirs}, want: 403},
		{name: "success without a look", states: nil, want: 403},
		{name: "success that is admitted", user: "wes", states: []*corev1.ConfigMap{theirs}, admit: theirs, want: 200, told: true},
		{name: "success, another state admitted", user: "wes", states: []*corev1.ConfigMap{hers, theirs}, admit: hers, want: 403},
		{name: "admitted, then invalid", user: "wes", states: []*corev1.ConfigMap{theirs}, admit: theirs, err: invalid, want: 422, told: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.stored.all, w.stored.own = tc.states, tc.own
			who := tc.user
			if who == "" {
				who = "ann"
			}
			code, header, body := w.send(t, who, "patch", "x", func(out http.ResponseWriter, r *http.Request) {
				err := w.store.GuaranteedUpdate(r.Context(), "/configmaps/default/x", &corev1.ConfigMap{}, true, nil, func(input runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
					before := input.DeepCopyObject().(*corev1.ConfigMap)
					input.(*corev1.ConfigMap).Labels = map[string]string{"team": "a"} // what a change does to it does not count
					if tc.admit != nil && tc.admit.ResourceVersion == before.ResourceVersion {
						requestctx.NotesOf(r.Context()).Ledger().Admit(before)
					}
					return input, nil, tc.err
				}, nil)
				reply(out, r, err)
			})
			told := strings.Contains(body, secret)
			if code != tc.want || told != tc.told || (header.Get("ETag") != "") != tc.told || (header.Get("Warning") != "") != tc.told {
				t.Errorf("%d %v %s", code, header, body)
			}
			// What fails on a state of which no change is allowed is refused as the enforcer would.
			if theirsAlone := len(tc.states) == 1 && tc.states[0] == theirs && tc.err != nil && tc.admit == nil && who == "ann"; theirsAlone && !strings.Contains(body, "was not met") {
				t.Errorf("the refusal tells what is stored: %s", body)
			}
			if !told && code != http.StatusOK && !strings.Contains(body, " is not shown") && !strings.Contains(body, "was not met") {
				t.Errorf("the answer says neither that something is not shown, nor why it is refused: %s", body)
			}
		})
	}
}

// NI-3: upstream answers the deletion of what is being deleted without asking admission. The caller sees what they may
// get or delete, and is refused like the enforcer refuses otherwise.
func TestDeletesThatNeverArrive(t *testing.T) {
	for _, tc := range []struct {
		name, user string
		state      *corev1.ConfigMap
		own        error
		want       int
	}{
		{"theirs", "ann", object("x", "b", "1"), nil, 403},
		{"hers, by who may get it", "ann", object("x", "a", "1"), nil, 200},
		{"hers, by who may only delete it", "wes", object("x", "a", "1"), nil, 200},
		{"theirs, by who may get none", "wes", object("x", "b", "1"), nil, 403},
		{"unreadable", "ann", object("x", "a", "1"), errors.New(secret), 403},
	} {
		w := newWorld(t)
		w.stored.all, w.stored.own = []*corev1.ConfigMap{tc.state}, tc.own
		code, header, body := w.send(t, tc.user, "delete", "x", func(out http.ResponseWriter, r *http.Request) {
			var got corev1.ConfigMap
			err := w.store.Get(r.Context(), "x", storage.GetOptions{}, &got)
			got.Labels["team"] = "a" // a deletion changes what it has read
			reply(out, r, err)
		})
		if code != tc.want || strings.Contains(body, secret) != (code == 200) || (header.Get("Warning") != "") != (code == 200) {
			t.Errorf("%s: %d %v %s", tc.name, code, header, body)
		}
		if tc.own == nil && code == 403 && !strings.Contains(body, "was not met") {
			t.Errorf("%s: not refused as the enforcer does: %s", tc.name, body)
		}
	}
	w := newWorld(t)
	w.stored.all = []*corev1.ConfigMap{object("x", "b", "1")}
	code, _, body := w.send(t, "wes", "delete", "x", func(out http.ResponseWriter, r *http.Request) {
		reply(out, r, w.store.Delete(r.Context(), "x", &corev1.ConfigMap{}, nil, func(ctx context.Context, _ runtime.Object) error {
			requestctx.NotesOf(ctx).Ledger().Refuse()
			return apierrors.NewForbidden(resource, "x", errors.New("the enforcer says no"))
		}, nil, storage.DeleteOptions{}))
	})
	if code != 403 || !strings.Contains(body, "the enforcer says no") {
		t.Errorf("a refusal by the enforcer: %d %s", code, body)
	}
	// What fails for another reason, and a change that nobody has admitted, are not refused by conditions on deletions.
	for verb, err := range map[string]error{"delete": apierrors.NewInternalError(errors.New(secret)), "patch": nil} {
		code, _, body := w.send(t, "wes", verb, "x", func(out http.ResponseWriter, r *http.Request) {
			if got := w.store.Get(r.Context(), "x", storage.GetOptions{}, &corev1.ConfigMap{}); got != nil {
				t.Error(got)
			}
			reply(out, r, err)
		})
		if code != 403 || !strings.Contains(body, "the request ended before that was decided") {
			t.Errorf("%s: %d %s", verb, code, body)
		}
	}
}

// NI-3: of a collection, every object of the response counts, in the state in which it is listed, and no count tells of
// others.
func TestCollections(t *testing.T) {
	for _, tc := range []struct {
		name  string
		all   []*corev1.ConfigMap
		admit []*corev1.ConfigMap
		want  int
	}{
		{"nothing", nil, nil, 200},
		{"all admitted", []*corev1.ConfigMap{object("x", "b", "1"), object("y", "b", "1")}, []*corev1.ConfigMap{object("x", "b", "1"), object("y", "b", "1")}, 200},
		{"one is not", []*corev1.ConfigMap{object("x", "b", "1"), object("y", "b", "1")}, []*corev1.ConfigMap{object("x", "b", "1")}, 403},
		{"one in another state", []*corev1.ConfigMap{object("x", "b", "1")}, []*corev1.ConfigMap{object("x", "b", "2")}, 403},
		{"one that may be deleted", []*corev1.ConfigMap{object("x", "b", "1"), object("y", "a", "1")}, []*corev1.ConfigMap{object("x", "b", "1")}, 200},
	} {
		w := newWorld(t)
		w.stored.all = tc.all
		code, _, body := w.send(t, "wes", "deletecollection", "", func(out http.ResponseWriter, r *http.Request) {
			var list corev1.ConfigMapList
			err := w.store.GetList(r.Context(), "x", storage.ListOptions{}, &list)
			if list.RemainingItemCount != nil {
				t.Errorf("%s: a count of others", tc.name)
			}
			for _, one := range tc.admit {
				requestctx.NotesOf(r.Context()).Ledger().Admit(one)
			}
			reply(out, r, err)
		})
		if code != tc.want || strings.Contains(body, secret) != (code == 200) {
			t.Errorf("%s: %d %s", tc.name, code, body)
		}
	}
}

// NI-3: a create is about no stored object: its errors leave, and its success once it is admitted. Too long a response
// does not.
func TestCreates(t *testing.T) {
	for _, tc := range []struct {
		name  string
		admit bool
		err   error
		want  int
	}{
		{"admitted", true, nil, 200},
		{"not admitted", false, nil, 403},
		{"invalid", false, apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, secret, nil), 422},
	} {
		w := newWorld(t)
		code, _, body := w.send(t, "wes", "create", "", func(out http.ResponseWriter, r *http.Request) {
			if tc.admit {
				requestctx.NotesOf(r.Context()).Ledger().AdmitWhole(false)
			}
			reply(out, r, tc.err)
		})
		if code != tc.want || strings.Contains(body, secret) != (tc.want != 403) {
			t.Errorf("%s: %d %s", tc.name, code, body)
		}
	}
	w := newWorld(t)
	code, _, body := w.send(t, "wes", "create", "", func(out http.ResponseWriter, r *http.Request) {
		requestctx.NotesOf(r.Context()).Ledger().AdmitWhole(false)
		for range 17 {
			_, _ = out.Write(make([]byte, 1<<20))
		}
	})
	if code != 403 || !strings.Contains(body, "too long") {
		t.Errorf("a long response: %d %.200s", code, body)
	}
}

// NI-1: a create that finds its name taken says of the object that it is there, and to callers who may see it that it
// is being deleted, with and without a dry run.
func TestTakenNames(t *testing.T) {
	for _, tc := range []struct {
		user, team, query string
		told              bool
	}{
		{"ann", "a", "", true}, {"ann", "b", "", false}, {"wes", "a", "", false},
		{"ann", "a", "?dryRun=All", true}, {"ann", "b", "?dryRun=All", false}, {"ann", "b", "?dry%52un=All", false},
	} {
		w := newWorld(t)
		w.store.filter, w.stored.all = w.filter, []*corev1.ConfigMap{object("x", tc.team, "1")}
		w.query = tc.query
		told := false
		w.send(t, tc.user, "create", "", func(_ http.ResponseWriter, r *http.Request) {
			var first, again corev1.ConfigMap
			if tc.query == "" {
				if err := w.store.Create(r.Context(), "/x", &first, &first, 0); !storage.IsExist(err) {
					t.Error(err)
				}
			} else if err := w.store.Get(r.Context(), "/x", storage.GetOptions{}, &first); err != nil || first.Name != "x" {
				t.Errorf("the dry run: %v", err)
			}
			err := w.store.Get(r.Context(), "/x", storage.GetOptions{}, &again)
			told = err == nil && again.Name == "x"
			if !told && !storage.IsNotFound(errors.Unwrap(err)) && !strings.Contains(err.Error(), "not found") {
				t.Errorf("%+v: %v", tc, err)
			}
		})
		if told != tc.told {
			t.Errorf("%+v: told %v", tc, told)
		}
	}
}

// NI-3: what cannot be told is not shown: no state of a request, no attributes, another namespace, no name, no policy.
func TestSightFailsClosed(t *testing.T) {
	w := newWorld(t)
	ctx := requestctx.WithNotes(requestctx.With(t.Context(), w.snap))
	holder := requestctx.From(ctx)
	hers := object("x", "a", "1")
	if w.filter.maySee(ctx, nil, hers) || w.filter.maySee(ctx, holder, hers) {
		t.Error("somebody without a request sees something")
	}
	attrs := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "ann"}, Verb: "delete", APIVersion: "v1", Resource: "configmaps", Namespace: "default", Name: "x", ResourceRequest: true}
	holder.Put(requestctx.Request, attrs, requestctx.Pass{})
	if !w.filter.maySee(ctx, holder, hers) {
		t.Error("ann does not see what is hers")
	}
	if out := w.filter.deletion(ctx, holder, hers); out.Decision == authorizer.DecisionAllow {
		t.Error("a request that waits for nothing may delete")
	}
	holder.Put(requestctx.Request, attrs, requestctx.Conditional(always(authorizer.DecisionAllow)))
	elsewhere, nameless := object("x", "a", "1"), object("", "a", "1")
	elsewhere.Namespace = "other"
	for name, state := range map[string]runtime.Object{"another namespace": elsewhere, "another name": object("y", "a", "1"), "no name": nameless, "no metadata": &corev1.ConfigMapList{}} {
		if w.filter.maySee(ctx, holder, state) || w.filter.deletion(ctx, holder, state).Decision == authorizer.DecisionAllow {
			t.Errorf("%s: seen", name)
		}
	}
	if !w.filter.maySee(ctx, holder, &corev1.ConfigMap{}) || w.filter.deletion(ctx, holder, &corev1.ConfigMap{}).Decision == authorizer.DecisionAllow {
		t.Error("nothing is stored yet, and nothing can be deleted")
	}
	holder.Snapshot = &snapshot.Snapshot{}
	if w.filter.maySee(ctx, holder, hers) {
		t.Error("seen without knowing what is served")
	}
}

// always is a condition that always gives the same.
type always authorizer.Decision

func (a always) Resolve(context.Context, authorizer.ConditionsData) requestctx.Outcome {
	return requestctx.Outcome{Decision: authorizer.Decision(a)}
}

// NI-3: an error of the storage may be about any object of a collection, unless it is about the request.
func TestErrorsOfLists(t *testing.T) {
	for own, want := range map[error]int{errors.New(secret): 403, apierrors.NewResourceExpired(secret): 410} {
		w := newWorld(t)
		w.stored.own = own
		code, _, body := w.send(t, "wes", "deletecollection", "", func(out http.ResponseWriter, r *http.Request) {
			reply(out, r, w.store.GetList(r.Context(), "x", storage.ListOptions{}, &corev1.ConfigMapList{}))
		})
		if code != want || strings.Contains(body, secret) != (want == 410) {
			t.Errorf("%v: %d %s", own, code, body)
		}
	}
}
