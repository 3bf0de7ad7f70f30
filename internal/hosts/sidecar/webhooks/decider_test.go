package webhooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/apis/accessreview"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/discovery"
	"proviso.dev/proviso/internal/state/snapshot"
)

// judge is a decider whose parts a test sets.
type judge struct {
	*Decider
	link      *linkOf
	interlock *lock
	enforcer  *enforcing
	grants    *handing
	guards    guarding
	observed  *observing
	age       *aged
	cfg       Config
}

// linkOf is an authorizer with answers by verb.
type linkOf map[string]authorizer.ConditionsAwareDecision

func (l *linkOf) of(a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	if d, ok := (*l)[a.GetVerb()]; ok {
		return d
	}
	return authorizer.ConditionsAwareDecisionNoOpinion("", nil)
}

func (l *linkOf) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorize.Parts(l.of(a))
}

func (l *linkOf) ConditionsAwareAuthorize(_ context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return l.of(a)
}

func (*linkOf) EvaluateConditions(ctx context.Context, d authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return d.ConditionsMap().Evaluate(ctx, data, func(context.Context, authorizer.Condition, authorizer.ConditionsData) (bool, error) {
		return false, errors.New("opaque")
	})
}

// onCondition allows if the condition holds.
func onCondition(holds bool) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, []authorizer.Condition{authorizer.GenericCondition{ID: "test.proviso.dev/c", EvaluateFunc: func(context.Context, authorizer.ConditionsData) authorizer.ConditionEvaluationResult {
		return authorizer.ConditionEvaluationResultBoolean(holds)
	}}})
}

type lock struct {
	asked             []string
	unproven, unknown error
}

func (l *lock) Asked(connection, nonce string)           { l.asked = append(l.asked, connection+" "+nonce) }
func (l *lock) Admitted(nonce string) string             { return "admitted " + nonce }
func (l *lock) Proven(_ context.Context, _ string) error { return l.unproven }
func (l *lock) Watched(string) error                     { return l.unknown }

// enforcing notes what it is asked, and looks at the objects if it is told to.
type enforcing struct {
	claims []bool
	looks  bool
	err    error
}

func (*enforcing) Handles(admission.Operation) bool { return true }
func (e *enforcing) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	e.claims = append(e.claims, requestctx.NotesOf(ctx).Claims())
	if e.looks {
		a.GetObject()
		a.GetOldObject()
	}
	return e.err
}

type handing struct {
	reaches bool
	err     error
	asked   []string
	infos   []*request.RequestInfo
	olds    int
}

func (h *handing) Reach(context.Context, user.Info, string) bool { return h.reaches }
func (h *handing) Confirm(ctx context.Context, _ string, _, old runtime.Object) error {
	info, _ := request.RequestInfoFrom(ctx)
	h.asked, h.infos = append(h.asked, info.Name), append(h.infos, info)
	if old != nil {
		h.olds++
	}
	return h.err
}

type guarding struct{ all []accessreview.ChainElement }

func (g *guarding) Before(context.Context, authorizer.Attributes) []accessreview.ChainElement {
	return g.all
}

type observing []authorize.Observation

func (o *observing) Decided(_ context.Context, made authorize.Observation) { *o = append(*o, made) }

type aged string

func (a *aged) Stale() string { return string(*a) }

// ruled is a part of the snapshot.
type ruled struct{ rules *ruleset.Index }

func (ruled) Name() string                    { return "rules" }
func (ruled) HasSynced() bool                 { return true }
func (r ruled) Apply(next *snapshot.Snapshot) { next.Rules = r.rules }

func newJudge(t *testing.T, rules ...policyv1alpha1.PolicyRule) *judge {
	t.Helper()
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	kinds := ruleset.NewKinds([]ruleset.Served{{Resource: "configmaps", Kind: "ConfigMap", Builtin: true}, {Resource: "pods", Kind: "Pod", Builtin: true}})
	store := snapshot.NewStore()
	if err := store.Add(ruled{ruleset.Build(ruleset.Input{MasterNamespace: "master", Kinds: kinds, CompileRule: (&rulecondition.Compiler{CEL: cel}).CompileRule,
		Policies:       []*policyv1alpha1.Policy{{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "default"}, Roles: map[string]policyv1alpha1.PolicyRole{"r": {Rules: rules}}}},
		PolicyBindings: []*policyv1alpha1.PolicyBinding{{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "team"}, RoleBindings: map[string]policyv1alpha1.PolicyRoleBinding{"b": {RoleName: "r", UserNames: []string{"rob"}}}}}})}); err != nil {
		t.Fatal(err)
	}
	store.Publish()
	served := discovery.NewDirectory(discovery.Config{})
	if err := served.Watch(discovery.World{Local: []*metav1.APIResourceList{{GroupVersion: "v1"}, {GroupVersion: "g/v1"}}}); err != nil {
		t.Fatal(err)
	}
	j := &judge{link: &linkOf{}, interlock: &lock{}, enforcer: &enforcing{}, grants: &handing{}, observed: &observing{}, age: new(aged)}
	chain, err := authorize.NewChain(authorize.Link{Name: "test", Authorizer: j.link})
	if err != nil {
		t.Fatal(err)
	}
	local := authorize.LocalFunc(func(string, string) bool { return true })
	j.cfg = Config{Gate: authorize.NewGate(authorize.GateConfig{Chain: chain, Conditional: true, Local: local, Observer: j.observed}), Store: store, Served: served, Enforcer: j.enforcer,
		Objects: &Objects{Definitions: definitions{}}, Interlock: j.interlock, Own: "sidecar", Canary: "canary", Guards: &j.guards, Age: j.age, Grants: j.grants, Granted: NewGranted(time.Now), Home: "home", Ours: []string{"ours.dev"}}
	if j.Decider, err = New(j.cfg); err != nil {
		t.Fatal(err)
	}
	return j
}

// SC-8: a decider without one of its parts is none.
func TestEveryPartIsNeeded(t *testing.T) {
	for name, leave := range map[string]func(*Config){
		"gate": func(c *Config) { c.Gate = nil }, "store": func(c *Config) { c.Store = nil }, "served": func(c *Config) { c.Served = nil }, "enforcer": func(c *Config) { c.Enforcer = nil }, "objects": func(c *Config) { c.Objects = nil },
		"interlock": func(c *Config) { c.Interlock = nil }, "guards": func(c *Config) { c.Guards = nil }, "age": func(c *Config) { c.Age = nil }, "granted": func(c *Config) { c.Granted = nil }, "grants": func(c *Config) { c.Grants = nil },
		"own name": func(c *Config) { c.Own = "" }, "name of the canary": func(c *Config) { c.Canary = "" },
	} {
		cfg := newJudge(t).cfg
		if leave(&cfg); true {
			if d, err := New(cfg); err == nil || d != nil {
				t.Errorf("without its %s: %v", name, err)
			}
		}
	}
	cfg := newJudge(t).cfg
	cfg.Home, cfg.Ours = "", nil
	if _, err := New(cfg); err != nil {
		t.Errorf("without what may be missing: %v", err)
	}
}

func asking(verb, namespace, group, resource string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "rob"}, Verb: verb, Namespace: namespace, APIGroup: group, APIVersion: "v1", Resource: resource, ResourceRequest: true}
}

// SC-18: which requests admission may refuse although authorization allows them.
func TestWhatAdmissionLooksAt(t *testing.T) {
	deny := policyv1alpha1.PolicyRule{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"pods"}}
	status := asking("create", "team", "", "pods")
	status.Subresource = "eviction"
	nobody := asking("update", "team", "", "pods")
	nobody.User = nil
	for name, c := range map[string]struct {
		attrs   authorizer.AttributesRecord
		rules   []policyv1alpha1.PolicyRule
		guarded bool
		reaches bool
		want    bool
	}{
		"nothing": {asking("update", "team", "", "pods"), nil, false, false, false}, "a guard": {asking("update", "team", "", "pods"), nil, true, false, true},
		"namespaces": {asking("update", "", "", "namespaces"), nil, false, false, true}, "namespaces of another group": {asking("update", "", "example.com", "namespaces"), nil, false, false, false}, "API services": {asking("delete", "", "apiregistration.k8s.io", "apiservices"), nil, false, false, true},
		"our service": {asking("update", "home", "", "services"), nil, false, false, true}, "a service elsewhere": {asking("update", "team", "", "services"), nil, false, false, false}, "services everywhere": {asking("deletecollection", "", "", "services"), nil, false, false, false}, "other things at home": {asking("update", "home", "", "pods"), nil, false, false, false},
		"a deny of deletes": {asking("update", "team", "", "configmaps"), []policyv1alpha1.PolicyRule{deny}, false, false, true}, "elsewhere": {asking("update", "other", "", "configmaps"), []policyv1alpha1.PolicyRule{deny}, false, false, false}, "in the whole cluster": {asking("update", "", "", "nodes"), []policyv1alpha1.PolicyRule{deny}, false, false, true},
		"what is made": {asking("create", "team", "", "configmaps"), []policyv1alpha1.PolicyRule{deny}, false, false, false}, "an eviction": {status, []policyv1alpha1.PolicyRule{deny}, false, false, true}, "nobody": {nobody, []policyv1alpha1.PolicyRule{deny}, false, false, false},
		"a role": {asking("create", "team", rbacv1.GroupName, "roles"), nil, false, true, true}, "a role that nothing is denied for": {asking("create", "team", rbacv1.GroupName, "roles"), nil, false, false, false}, "a role that is deleted": {asking("delete", "team", rbacv1.GroupName, "roles"), nil, false, true, false},
		"a role of another group": {asking("create", "team", "authorization.proviso.dev", "roles"), nil, false, true, false}, "another kind of RBAC": {asking("create", "team", rbacv1.GroupName, "others"), nil, false, true, false},
	} {
		j := newJudge(t, c.rules...)
		if j.grants.reaches = c.reaches; c.guarded {
			j.guards.all = []accessreview.ChainElement{{Name: "fields"}}
		}
		if got := j.checked(t.Context(), j.cfg.Store.Current(), c.attrs); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	j := newJudge(t)
	j.grants.reaches = true
	gathers := asking("update", "", rbacv1.GroupName, "clusterroles")
	gathers.User = &user.DefaultInfo{Name: aggregator}
	if j.checked(t.Context(), j.cfg.Store.Current(), gathers) {
		t.Error("the aggregation controller hands out what its authors were checked for")
	}
	cfg := j.cfg
	cfg.Home = ""
	if d, err := New(cfg); err != nil || d.checked(t.Context(), cfg.Store.Current(), asking("deletecollection", "", "", "services")) {
		t.Errorf("no namespace is that of our service: %v", err)
	}
}

// audited is a context with an audit event.
func audited(t *testing.T) context.Context {
	t.Helper()
	ctx := audit.WithAuditContext(t.Context())
	if err := audit.AuditContextFrom(ctx).Init(audit.RequestAuditConfig{Level: auditinternal.LevelMetadata}, nil); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// path is a question about a path, which is served as far as anybody knows.
func path(verb string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "rob"}, Verb: verb, Path: "/x"}
}

// SC-5, SC-7, TR-6: what authorization answers, notes and tells.
func TestAccess(t *testing.T) {
	boom := &authorize.SetError{Err: errors.New("boom")}
	for name, c := range map[string]struct {
		who    string
		verb   string
		answer authorizer.ConditionsAwareDecision
		stale  string
		want   authorizer.Decision
		says   string
		told   int
		asked  int
		failed bool
	}{
		"allowed":          {"rob", "get", authorizer.ConditionsAwareDecisionAllow("yes", nil), "", authorizer.DecisionAllow, "yes", 1, 0, false},
		"denied":           {"rob", "get", authorizer.ConditionsAwareDecisionDeny("no", nil), "", authorizer.DecisionDeny, "no; `proviso explain get /x`", 1, 0, false},
		"no opinion":       {"rob", "get", authorizer.ConditionsAwareDecisionNoOpinion("not me", nil), "", authorizer.DecisionNoOpinion, "test: not me", 1, 0, false},
		"failed":           {"rob", "get", authorizer.ConditionsAwareDecisionDeny("no", boom), "", authorizer.DecisionDeny, "no", 1, 0, true},
		"too old":          {"rob", "get", authorizer.ConditionsAwareDecisionAllow("yes", nil), "too old", authorizer.DecisionDeny, "too old", 0, 0, false},
		"the canary":       {"canary", "get", authorizer.ConditionsAwareDecisionAllow("yes", nil), "too old", authorizer.DecisionNoOpinion, "", 0, 1, false},
		"the sidecar":      {"sidecar", "get", authorizer.ConditionsAwareDecisionAllow("yes", nil), "", authorizer.DecisionAllow, "yes", 1, 0, false},
		"an unsafe delete": {"rob", authorize.VerbUnsafeDelete, authorizer.ConditionsAwareDecisionAllow("yes", nil), "", authorizer.DecisionAllow, "yes", 1, 0, false},
	} {
		j := newJudge(t)
		(*j.link)[c.verb], *j.age = c.answer, aged(c.stale)
		attrs := path(c.verb)
		attrs.User = &user.DefaultInfo{Name: c.who}
		attrs.Name = "nonce"
		ctx := audited(t)
		got, err := j.Access(ctx, "conn", attrs)
		if err != nil || got.Decision != c.want || !strings.HasPrefix(got.Reason, c.says) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if len(*j.observed) != c.told || len(j.interlock.asked) != c.asked || c.asked > 0 && j.interlock.asked[0] != "conn nonce" {
			t.Errorf("%s: told %d times, noted %v", name, len(*j.observed), j.interlock.asked)
		}
		if said, _ := audit.AuditContextFrom(ctx).GetEventAnnotation(authorize.AnnotationFailure); (said != "") != c.failed {
			t.Errorf("%s: the failure in audit is %q", name, said)
		}
	}
	j := newJudge(t)
	sub := path("get")
	sub.User, sub.Subresource = &user.DefaultInfo{Name: "sidecar"}, "status"
	if got, err := j.Access(t.Context(), "conn", sub); err != nil || got.Decision != authorizer.DecisionDeny || got.Reason == "" {
		t.Errorf("a subresource by the sidecar: %+v, %v", got, err)
	}
}

// SC-8: the webhook of authorization, as a server sees it.
func TestServeAccess(t *testing.T) {
	for name, c := range map[string]struct {
		answer  authorizer.ConditionsAwareDecision
		synced  bool
		code    int
		allowed bool
		denied  bool
		reason  string
	}{
		"allowed": {authorizer.ConditionsAwareDecisionAllow("yes", nil), true, 200, true, false, "yes"}, "denied": {authorizer.ConditionsAwareDecisionDeny("no", nil), true, 200, false, true, "no"},
		"no opinion": {authorizer.ConditionsAwareDecisionNoOpinion("not me", nil), true, 200, false, false, "not me"}, "not read yet": {authorizer.ConditionsAwareDecisionAllow("yes", nil), false, 503, false, false, ErrUnsynced.Error()},
	} {
		j := newJudge(t)
		if !c.synced {
			cfg := j.cfg
			cfg.Store = snapshot.NewStore()
			var err error
			if j.Decider, err = New(cfg); err != nil {
				t.Fatal(err)
			}
		}
		(*j.link)["get"] = c.answer
		body, err := json.Marshal(authorizationv1.SubjectAccessReview{TypeMeta: metav1.TypeMeta{Kind: "SubjectAccessReview", APIVersion: "authorization.k8s.io/v1"},
			Spec: authorizationv1.SubjectAccessReviewSpec{User: "rob", NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/x", Verb: "get"}}})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		j.ServeAccess(w, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body)))
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.reason) || (w.Header().Get("Content-Type") == "application/json") != (c.code == 200) {
			t.Errorf("%s: %d %s (%s)", name, w.Code, w.Body, w.Header().Get("Content-Type"))
		}
		var got authorizationv1.SubjectAccessReview
		if c.code != 200 {
			if w.Header().Get("Retry-After") != "" {
				t.Errorf("%s: a server that is told to try again waits", name)
			}
			continue
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || got.Status.Allowed != c.allowed || got.Status.Denied != c.denied || got.Spec.User != "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	// Nothing is answered to what was not asked.
	for _, body := range []string{"{", ""} {
		w := httptest.NewRecorder()
		newJudge(t).ServeAccess(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
		if w.Code != http.StatusBadRequest || strings.Contains(w.Body.String(), "want a") {
			t.Errorf("%q: %d %s", body, w.Code, w.Body)
		}
	}
	w := httptest.NewRecorder()
	newJudge(t).ServeAdmission(w, httptest.NewRequest(http.MethodPut, "/", strings.NewReader("{}")))
	if w.Code != http.StatusMethodNotAllowed || strings.Contains(w.Body.String(), "want an") {
		t.Errorf("a PUT: %d %s", w.Code, w.Body)
	}
	unsynced := newJudge(t).cfg
	unsynced.Store = snapshot.NewStore()
	d, err := New(unsynced)
	if err != nil {
		t.Fatal(err)
	}
	w = httptest.NewRecorder()
	d.ServeAdmission(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u"}}`)))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), ErrUnsynced.Error()) || strings.Contains(w.Body.String(), "uid") {
		t.Errorf("admission before the policy is read: %d %s", w.Code, w.Body)
	}
}
