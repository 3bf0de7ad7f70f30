package enforce

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/denial"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/selfclient"
)

// counted sums the samples of a metric whose labels have all of these values.
func counted(t *testing.T, name string, values ...string) (sum float64) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	samples:
		for _, m := range f.GetMetric() {
			for i, want := range values {
				if m.GetLabel()[i].GetValue() != want {
					continue samples
				}
			}
			sum += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// OP-7, CA-19: what refuses a request is counted, and what was admitted is in the record of what may be answered.
func TestRefusalsAreRecorded(t *testing.T) {
	conditions := func() float64 { return counted(t, "proviso_refusals_total") }
	before := conditions()
	w := newWorld("update", conditional(deny))
	wants(t, "refused", w.admit(t, writeOf(admission.Update, "", widget(nil), widget(nil))), "a rule says no")
	if got := conditions() - before; got != 1 {
		t.Errorf("%v refusals are counted, want 1", got)
	}
	w = newWorld("update", requestctx.Allowed())
	wants(t, "admitted", w.admit(t, writeOf(admission.Update, "", widget(nil), widget(nil))), "")
	if got := conditions() - before; got != 1 {
		t.Errorf("%v refusals are counted after what was admitted, want 1", got)
	}
	for _, c := range []struct {
		verb          string
		op            admission.Operation
		whole, stream bool
	}{
		{"update", admission.Update, false, false}, {"delete", admission.Delete, false, false}, {"create", admission.Connect, true, true}, {"get", admission.Connect, true, true},
		{"", admission.Update, true, false}, {"get", admission.Update, true, false},
	} {
		w := newWorld(c.verb, requestctx.Allowed())
		old := widget(nil)
		wants(t, c.verb, w.admit(t, writeOf(c.op, "", old, widget(nil))), "")
		// Another state of the object, which nobody had looked at yet, may be shown only by what is whole.
		other := old.DeepCopy()
		other.SetResourceVersion("later")
		w.ledger.Look(other)
		open, _ := w.ledger.Open()
		if (len(open) == 0) != c.whole || w.ledger.Streams() != c.stream {
			t.Errorf("%q, %s: %d states are left, streams %v", c.verb, c.op, len(open), w.ledger.Streams())
		}
	}
}

// RC-3: the audit event has the final decision in the shape of KEP-6001, where nothing else has made it.
func TestDecisionOfTheEnforcerIsAudited(t *testing.T) {
	said := func(w *world) string {
		return audit.AuditContextFrom(w.ctx).GetEventAnnotations()[authorize.AnnotationAuthorizationDecision]
	}
	for _, c := range []struct {
		name string
		pass requestctx.Pass
		want string
	}{
		{"nothing is pending", requestctx.Allowed(), ""}, {"a condition that does not hold", conditional(noOpinion), `{"decision":"deny"`},
		{"a condition that denies", conditional(deny), ""}, {"a condition that holds", conditional(allow), ""},
	} {
		w := newWorld("update", c.pass)
		_ = w.admit(t, writeOf(admission.Update, "", widget(nil), widget(nil)))
		if got := said(w); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	w, _ := withFields(t, "update", requestctx.Granular(nil), fieldperm.Verb, specVerb)
	wants(t, "by fields", w.admit(t, writeOf(admission.Update, "", sized("1"), sized("2"))), "")
	if got := said(w); !strings.HasPrefix(got, `{"decision":"allow"`) {
		t.Errorf("by fields: %q", got)
	}
}

// CA-22: the caller learns that a condition failed, and the log why.
func TestFailuresAreLogged(t *testing.T) {
	logged := func(w *world, write admission.Attributes) string {
		var lines bytes.Buffer
		ctx := klog.NewContext(w.context(t), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&lines), textlogger.Verbosity(2))))
		_ = w.plugin.Validate(ctx, write, admission.NewObjectInterfacesFromScheme(runtime.NewScheme()))
		return lines.String()
	}
	failed := deny
	failed.Detail = errors.New("the detail")
	for _, c := range []struct {
		out  requestctx.Outcome
		want string
	}{{failed, "the detail"}, {deny, ""}, {allow, ""}} {
		if got := logged(newWorld("update", conditional(c.out)), writeOf(admission.Update, "", widget(nil), widget(nil))); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%v: logged %q, want %q", c.out, got, c.want)
		}
	}
	w, _ := withFields(t, "update", requestctx.Allowed(), tierVerb)
	w.plugin.cfg.Fields.Schemas = noSchema("the schema is lost")
	if got := logged(w, writeOf(admission.Update, "", tier("a"), tier("b"))); !strings.Contains(got, "the schema is lost") {
		t.Errorf("fields that cannot be compared: logged %q", got)
	}
}

// FP-12, SV-10: decisions on fields are counted by mode and decision.
func TestFieldMetrics(t *testing.T) {
	RegisterMetrics()
	RegisterMetrics() // again
	for _, c := range []struct {
		pass     requestctx.Pass
		held     []string
		mode     string
		decision string
	}{
		{requestctx.Allowed(), []string{tierVerb}, "general", "allow"}, {requestctx.Allowed(), nil, "general", "forbid"},
		{requestctx.Granular(nil), []string{fieldperm.Verb, tierVerb}, "granular", "allow"}, {requestctx.Granular(nil), []string{fieldperm.Verb}, "granular", "forbid"},
	} {
		numbers := func() [3]float64 {
			return [3]float64{counted(t, "proviso_field_permissions_decisions_total", c.decision, c.mode), counted(t, "proviso_field_permissions_checks", c.mode), counted(t, "proviso_field_permissions_duration_seconds", c.mode)}
		}
		before := numbers()
		w, _ := withFields(t, "update", c.pass, c.held...)
		_ = w.admit(t, writeOf(admission.Update, "", tier("a"), tier("b")))
		if after := numbers(); after != [3]float64{before[0] + 1, before[1] + 1, before[2] + 1} {
			t.Errorf("%s, %s: %v became %v", c.mode, c.decision, before, after)
		}
	}
}

// CA-22: a condition that reads what the caller may not read says so, whatever else failed.
func TestReasonOfAnOutcome(t *testing.T) {
	away := errors.New("etcd is away")
	for _, c := range []struct {
		out  requestctx.Outcome
		want string
	}{
		{requestctx.Outcome{}, "no condition under which this is allowed is met"},
		{requestctx.Outcome{Detail: selfclient.ErrMayNotRead}, "no condition under which this is allowed is met"},
		{requestctx.Outcome{Reason: "rule 1"}, "rule 1"},
		{requestctx.Outcome{Reason: "rule 1", Detail: away}, "rule 1"},
		{requestctx.Outcome{Reason: "rule 1", Detail: errors.Join(away, selfclient.ErrMayNotRead)}, "rule 1: " + selfclient.ErrMayNotRead.Error()},
	} {
		if got := reasonOf(c.out); got != c.want {
			t.Errorf("%+v: %q, want %q", c.out, got, c.want)
		}
	}
	decided := authorizer.AttributesRecord{Verb: "update", APIGroup: "example.com", Resource: "widgets", Namespace: "hammer", Name: "w", ResourceRequest: true}
	for explain, want := range map[bool]bool{true: true, false: false} {
		err := Refusal(decided, requestctx.Outcome{Reason: "rule 1"}, explain)
		if got := strings.Contains(err.Error(), "proviso explain update widgets.example.com/w"); got != want || !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "rule 1") {
			t.Errorf("explain %v: %v", explain, err)
		}
		// A command that leaves the object out would ask about another request.
		if want && !strings.Contains(err.Error(), "-f") {
			t.Errorf("the question is not about the object: %v", err)
		}
	}
}

// CA-10, FP-6: who has no right to single fields is told of the condition that was not met and, if there was none, what
// was said of the fields.
func TestReasonsOfRefusals(t *testing.T) {
	unmet := requestctx.Outcome{Decision: authorizer.DecisionNoOpinion, Reason: "condition c1 was not met"}
	for name, c := range map[string]struct {
		pass requestctx.Pass
		want string
	}{"a condition": {conditional(unmet), "condition c1 was not met"}, "single fields": {requestctx.Granular(nil), "nothing of single fields"}, "single fields, and a deny that does not hold": {requestctx.Granular(resolved(unmet)), "nothing of single fields"}} {
		w, _ := withFields(t, "update", c.pass)
		w.plugin.cfg.Fields.Asker = askerFunc(func(context.Context, *requestctx.State, string, authorizer.ConditionsData) requestctx.Outcome {
			return requestctx.Outcome{Decision: authorizer.DecisionNoOpinion, Reason: "nothing of single fields"}
		})
		wants(t, name, w.admit(t, writeOf(admission.Update, "", sized("1"), sized("2"))), c.want)
	}
	if orNone(nil) == nil || !errors.Is(orNone(context.Canceled), context.Canceled) {
		t.Error("why an object is not available is told wrongly")
	}
}

// TR-12: the question that is left after a refusal is about what was refused.
func TestWhatToAskNext(t *testing.T) {
	refused := func(w *world, attrs admission.Attributes) denial.By {
		t.Helper()
		ctx := w.context(t)
		by, err := w.plugin.validate(ctx, requestctx.From(ctx), attrs, admission.NewObjectInterfacesFromScheme(runtime.NewScheme()))
		if err == nil {
			t.Error("let pass")
		}
		return by
	}
	update := writeOf(admission.Update, "", tier("a"), tier("b"))
	by := refused(newWorld("update", conditional(deny)), update)
	if by.Stage != denial.Conditions || by.Ask == nil || !by.Ask.Object || by.Ask.Verb != "" || by.Authorizer != deny.Authorizer || strings.Join(by.Rules, " ") != "a b" {
		t.Errorf("a condition: %+v", by)
	}
	w, _ := withFields(t, "update", requestctx.Allowed())
	if by := refused(w, update); by.Stage != denial.Fields || by.Ask == nil || by.Ask.Verb != tierVerb || strings.Join(by.Rules, " ") != tierVerb {
		t.Errorf("a field: %+v", by)
	}
	w, _ = withFields(t, "update", requestctx.Allowed(), tierVerb)
	w.plugin.cfg.Fields.Schemas = noSchema("lost")
	if by := refused(w, update); by.Ask != nil || len(by.Rules) != 0 {
		t.Errorf("what cannot be compared: %+v", by)
	}
	w = newWorld("get", requestctx.Allowed())
	w.plugin.cfg.Connect = connector(deny)
	if by := refused(w, writeOf(admission.Connect, "proxy", nil, nil)); by.Stage != denial.Connection || by.Ask == nil || by.Ask.Verb != "create" {
		t.Errorf("a connection: %+v", by)
	}
	// What no rule of the effects denies says nothing about them.
	e := usual(t)
	w = newWorld("delete", requestctx.Allowed())
	w.snap, w.plugin.cfg.Effects = e.snap, e.effects
	owner := e.put("v1", "Pod", "hammer", "p", nil)
	e.put("v1", "ConfigMap", "hammer", "c", labelled, owner)
	remove := admission.NewAttributesRecord(nil, owner, owner.GroupVersionKind(), "hammer", "p", pods.GroupVersionResource, "", admission.Delete, background(), false, userOf("edgar"))
	if by := refused(w, remove); by.Stage != denial.Effects || by.Ask == nil || len(by.Rules) == 0 {
		t.Errorf("an effect: %+v", by)
	}
}

// FP-12: the rules that a refusal names are the permissions that the caller lacks, each once, without what it quotes of
// the object.
func TestLacking(t *testing.T) {
	result := fieldperm.Result{Checks: []fieldperm.Check{
		{Verb: "granular:scale", Allowed: true}, {Verb: "granular:label:secret"}, {Verb: "granular:label:other"}, {Verb: "granular:image(name)"}, {Verb: "granular:specification", Err: errors.New("boom")},
	}}
	if got := strings.Join(lacking(result), " "); got != "granular:label granular:image granular:specification" {
		t.Errorf("lacking %q", got)
	}
}

// users is told of the grants that are used.
type users struct {
	err  error
	used int
	// as are the states for which it was told.
	as []*requestctx.State
}

func (u *users) Use(ctx context.Context, _ *requestctx.State, _ admission.Attributes) error {
	u.used++
	u.as = append(u.as, requestctx.From(ctx))
	return u.err
}

// again is a second decision.
type again struct {
	pass  requestctx.Pass
	never bool
	asked int
	// by is the link that has allowed it, and made is the state of the decision.
	by   string
	made *requestctx.State
}

func (a *again) Again(ctx context.Context, holder *requestctx.State) (context.Context, *requestctx.State) {
	if a.asked++; a.never {
		return ctx, nil
	}
	then := requestctx.With(ctx, holder.Snapshot)
	later := requestctx.From(then)
	later.Put(requestctx.Request, holder.Attributes(), a.pass)
	if a.made = later; a.by != "" {
		later.NoteBy(requestctx.Request, a.by)
	}
	return then, later
}

// TM-7: a grant is used by what it has allowed, and by nothing else; what cannot be noted is refused.
func TestGrantsAreUsed(t *testing.T) {
	granted := requestctx.Outcome{Decision: authorizer.DecisionAllow, Authorizer: links.Access}
	other := requestctx.Outcome{Decision: authorizer.DecisionAllow, Authorizer: links.RBAC}
	refused := requestctx.Outcome{Decision: authorizer.DecisionDeny, Authorizer: links.Access, Reason: "no"}
	for _, c := range []struct {
		name string
		pass requestctx.Pass
		err  error
		used int
		want string
	}{
		{"by a grant", conditional(granted), nil, 1, ""}, {"that cannot be noted", conditional(granted), errors.New("used up"), 1, "used up"},
		{"by something else", conditional(other), errors.New("used up"), 0, ""}, {"refused", conditional(refused), nil, 0, "no"},
	} {
		w, told := newWorld("update", c.pass), &users{err: c.err}
		w.plugin.cfg.Grants = told
		wants(t, c.name, w.admit(t, writeOf(admission.Update, "", widget(nil), widget(nil))), c.want)
		if told.used != c.used {
			t.Errorf("%s: used %d times", c.name, told.used)
		}
		w.plugin.cfg.Grants = nil
		if c.err == nil {
			wants(t, c.name+", without grants", w.admit(t, writeOf(admission.Update, "", widget(nil), widget(nil))), c.want)
		}
	}
}

// TM-11: a request that arrived by another right, and is stored by a grant, uses the grant.
func TestGrantsThatAreUsedLater(t *testing.T) {
	granted := requestctx.Outcome{Decision: authorizer.DecisionAllow, Authorizer: links.Access}
	other := requestctx.Outcome{Decision: authorizer.DecisionAllow, Authorizer: links.RBAC}
	for _, c := range []struct {
		name  string
		pass  requestctx.Pass
		later *again
		err   error
		used  int
		want  string
	}{
		{"by a grant later", conditional(other), &again{pass: requestctx.Allowed(), by: links.Access}, nil, 1, ""},
		{"by a condition of one", conditional(other), &again{pass: conditional(granted)}, nil, 1, ""},
		{"that is used up", conditional(other), &again{pass: requestctx.Allowed(), by: links.Access}, errors.New("used up"), 1, "used up"},
		{"by grants both times", conditional(granted), &again{pass: requestctx.Allowed(), by: links.Access}, nil, 2, ""},
		{"by a grant at first", conditional(granted), &again{pass: requestctx.Allowed(), by: links.RBAC}, nil, 1, ""},
		{"by no grant", conditional(other), &again{pass: requestctx.Allowed(), by: links.RBAC}, nil, 0, ""},
	} {
		w, told := newWorld("update", c.pass), &users{err: c.err}
		w.plugin.cfg.Grants, w.plugin.cfg.Later = told, c.later
		wants(t, c.name, w.admit(t, writeOf(admission.Update, "", widget(nil), widget(nil))), c.want)
		if told.used != c.used {
			t.Errorf("%s: used %d times", c.name, told.used)
		}
		if last := len(told.as) - 1; c.later.by == links.Access && (last < 0 || told.as[last] != c.later.made) {
			t.Errorf("%s: used as of another time", c.name)
		}
	}
}

// TM-4: a request that was allowed when it arrived is decided once more when it is admitted, if time matters.
func TestDecidedAgain(t *testing.T) {
	for _, c := range []struct {
		name  string
		pass  requestctx.Pass
		later *again
		asked int
		want  string
	}{
		{"still allowed", requestctx.Allowed(), &again{pass: requestctx.Allowed()}, 1, ""},
		{"not any longer", requestctx.Allowed(), &again{pass: conditional(deny)}, 1, "a rule says no"},
		{"never decided again", requestctx.Allowed(), &again{pass: conditional(deny), never: true}, 1, ""},
		{"refused before", conditional(deny), &again{pass: requestctx.Allowed()}, 0, "a rule says no"},
	} {
		w := newWorld("update", c.pass)
		w.plugin.cfg.Later = c.later
		wants(t, c.name, w.admit(t, writeOf(admission.Update, "", widget(nil), widget(nil))), c.want)
		if c.later.asked != c.asked {
			t.Errorf("%s: asked %d times", c.name, c.later.asked)
		}
	}
}

func noSchema(why string) Schemas {
	return schemasFunc(func(schema.GroupVersionKind) (fieldperm.Converter, error) { return nil, errors.New(why) })
}

// CA-26: a connection that depends on what it goes to records the decision on each state, and a state is one by its uid
// and its version.
func TestConnectionsAreRecorded(t *testing.T) {
	objects := admission.NewObjectInterfacesFromScheme(scheme.Scheme)
	attempt := func(targets Targets) (context.Context, *requestctx.Ledger, error) {
		w := newWorld("create", requestctx.Conditional(debugOnly{}))
		w.plugin.cfg.Targets = targets
		ctx, ledger := w.context(t), requestctx.NewLedger(false)
		requestctx.NotesOf(ctx).Hold(ledger)
		return ctx, ledger, w.plugin.Validate(ctx, execOf(), objects)
	}
	refusals := func() float64 { return counted(t, "proviso_refusals_total", "", denial.Conditions) }
	before := refusals()
	ctx, ledger, err := attempt(podReader{pod: podOf("1", "yes")})
	if err != nil || !ledger.Streams() || refusals() != before {
		t.Fatalf("a pod that may be debugged: %v, streams %v", err, ledger.Streams())
	}
	waiting := requestctx.From(ctx).Connection()
	told := &watcher{}
	w := newWorld("create", requestctx.Conditional(debugOnly{}))
	w.plugin = New(Config{Targets: podReader{pod: podOf("1", "yes")}, Observer: told})
	again := w.context(t)
	if err := w.plugin.Validate(again, execOf(), objects); err != nil || len(told.seen) != 1 {
		t.Fatalf("%v, told %d times", err, len(told.seen))
	}
	once := requestctx.From(again).Connection()
	for _, state := range []struct {
		uid, version, debug string
		ok                  bool
	}{{"u", "1", "no", true}, {"v", "1", "no", false}, {"v", "2", "yes", true}, {"v", "2", "no", true}, {"u", "2", "no", false}} {
		pod := podOf(state.version, state.debug)
		pod.UID = types.UID(state.uid)
		if err := waiting.Decide(ctx, pod); (err == nil) != state.ok {
			t.Errorf("state %+v: %v", state, err)
		}
		if err := once.Decide(again, pod); (err == nil) != state.ok {
			t.Errorf("state %+v: %v", state, err)
		}
	}
	if len(told.seen) != 1 {
		t.Errorf("an observer is told %d times of one connection", len(told.seen))
	}
	if got := refusals() - before; got != 4 {
		t.Errorf("%v refusals are counted, want 4", got)
	}
	ctx, ledger, err = attempt(podReader{pod: podOf("1", "yes"), err: errors.New("etcd is away")})
	if got := audit.AuditContextFrom(ctx).GetEventAnnotations(); !apierrors.IsNotFound(err) || !ledger.Admitted() || got[AnnotationDecision] != "forbid" || got[AnnotationDetail] != "etcd is away" {
		t.Errorf("a pod that cannot be read: %v, audited %v", err, got)
	}
	if _, _, err := attempt(podReader{pod: podOf("1", "no")}); !apierrors.IsNotFound(err) || refusals()-before != 5 {
		t.Errorf("a pod that may not be debugged: %v, %v refusals", err, refusals()-before)
	}
	for _, c := range []struct{ a, b runtime.Object }{{podOf("1", ""), &listless{}}, {&listless{}, podOf("1", "")}, {&listless{}, &listless{}}} {
		if same(c.a, c.b) {
			t.Errorf("%T and %T are taken for one state", c.a, c.b)
		}
	}
}

// listless has no metadata.
type listless struct{ runtime.Unknown }

// CA-26: whether a connection may be created is asked before its target is read, if that is a question of its own.
func TestConnectionsForesee(t *testing.T) {
	for verb, want := range map[string]int{"get": 1, "create": 0} {
		w, c := newWorld(verb, requestctx.Allowed()), &foreseeing{}
		w.plugin.cfg.Connect, w.plugin.cfg.Targets = c, podReader{pod: podOf("1", "yes")}
		ctx := w.context(t)
		if err := w.plugin.Validate(ctx, execOf(), admission.NewObjectInterfacesFromScheme(scheme.Scheme)); err != nil || c.foreseen != want {
			t.Errorf("%s: %v, asked %d times", verb, err, c.foreseen)
		}
		if err := w.plugin.Validate(ctx, writeOf(admission.Update, "", widget(nil), widget(nil)), admission.NewObjectInterfacesFromScheme(scheme.Scheme)); err != nil || c.foreseen != want {
			t.Errorf("%s, no connection: %v, asked %d times", verb, err, c.foreseen)
		}
		w.plugin.cfg.Targets = nil
		if err := w.plugin.Validate(ctx, execOf(), admission.NewObjectInterfacesFromScheme(scheme.Scheme)); err != nil || c.foreseen != want {
			t.Errorf("%s, nobody reads: %v, asked %d times", verb, err, c.foreseen)
		}
	}
}

type foreseeing struct{ foreseen int }

func (*foreseeing) Connect(context.Context, *requestctx.State, authorizer.ConditionsData) requestctx.Outcome {
	return allow
}

func (f *foreseeing) Foresee(context.Context, *requestctx.State, authorizer.ConditionsData) {
	f.foreseen++
}
