package enforce

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// resolved is pending, and resolves to an outcome, whatever the object is.
type resolved requestctx.Outcome

func (r resolved) Resolve(context.Context, authorizer.ConditionsData) requestctx.Outcome {
	return requestctx.Outcome(r)
}

var (
	allow      = requestctx.Outcome{Decision: authorizer.DecisionAllow}
	deny       = requestctx.Outcome{Decision: authorizer.DecisionDeny, Reason: "a rule says no", Authorizer: "policy-master", Conditions: []string{"a", "b"}}
	noOpinion  = requestctx.Outcome{Decision: authorizer.DecisionNoOpinion}
	impossible = requestctx.Outcome{Decision: 99}
)

func conditional(out requestctx.Outcome) requestctx.Pass {
	return requestctx.Conditional(resolved(out))
}

// world is what one admission knows beside its object.
type world struct {
	plugin *Plugin
	snap   *snapshot.Snapshot
	// verb is that of the request; empty leaves its attributes out.
	verb  string
	path  string
	slots map[requestctx.Slot]requestctx.Pass
	// ctx and ledger are those of the last admission.
	ctx    context.Context
	ledger *requestctx.Ledger
}

func newWorld(verb string, request requestctx.Pass) *world {
	lists := []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "pods", Kind: "Pod"}, {Name: "pods/status", Kind: "Pod"}, {Name: "pods/binding", Kind: "Binding"}, {Name: "pods/eviction", Kind: "Eviction", Group: "policy"},
			{Name: "pods/resize2", Kind: "Resize"}, {Name: "bindings", Kind: "Binding"}, {Name: "events", Kind: "Event"}}},
		{GroupVersion: "example.com/v1", APIResources: []metav1.APIResource{{Name: "widgets", Kind: "Widget"}, {Name: "widgets/scale", Kind: "Scale", Group: "autoscaling"}}},
		{GroupVersion: "apps/v1", APIResources: []metav1.APIResource{{Name: "controllerrevisions", Kind: "ControllerRevision"}}},
		{GroupVersion: "events.k8s.io/v1", APIResources: []metav1.APIResource{{Name: "events", Kind: "Event"}}},
	}
	return &world{plugin: New(Config{}), snap: &snapshot.Snapshot{Synced: true, Served: snapshot.Sources{Local: lists}.Served()}, verb: verb,
		slots: map[requestctx.Slot]requestctx.Pass{requestctx.Request: request}}
}

// admit runs the plugin.
func (w *world) admit(t *testing.T, attrs admission.Attributes) error {
	t.Helper()
	w.ctx, w.ledger = w.context(t), requestctx.NewLedger(false)
	requestctx.NotesOf(w.ctx).Hold(w.ledger)
	return w.plugin.Validate(w.ctx, attrs, admission.NewObjectInterfacesFromScheme(runtime.NewScheme()))
}

func (w *world) context(t *testing.T) context.Context {
	t.Helper()
	ctx := requestctx.WithNotes(requestctx.With(audit.WithAuditContext(t.Context()), w.snap))
	if err := audit.AuditContextFrom(ctx).Init(audit.RequestAuditConfig{Level: auditinternal.LevelMetadata}, nil); err != nil {
		t.Fatal(err)
	}
	for slot, d := range w.slots {
		var attrs authorizer.Attributes
		if w.verb != "" {
			attrs = authorizer.AttributesRecord{Verb: w.verb, Path: w.path}
		}
		requestctx.From(ctx).Put(slot, attrs, d)
	}
	return ctx
}

func widget(labels map[string]string) *unstructured.Unstructured {
	return thing("example.com/v1", "Widget", "hammer", "w", labels)
}

// writeOf is a write of a widget.
func writeOf(op admission.Operation, sub string, old, new *unstructured.Unstructured) admission.Attributes {
	var before, after runtime.Object
	if old != nil {
		before = old
	}
	if new != nil {
		after = new
	}
	return admission.NewAttributesRecord(after, before, schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}, "hammer", "w",
		schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, sub, op, nil, false, &user.DefaultInfo{Name: "edgar"})
}

// wants fails unless an error has the text; no text wants no error.
func wants(t *testing.T, what string, err error, text string) {
	t.Helper()
	if text == "" && err != nil || text != "" && (err == nil || !strings.Contains(err.Error(), text)) {
		t.Errorf("%s: got %v, want %q", what, err, text)
	}
}

// CA-1, CA-7: nothing passes but an allowance: not a pass that never came, an outcome that nobody filled in, or one
// that does not exist.
func TestOnlyAnAllowancePasses(t *testing.T) {
	const none, unmet = "has no authorization decision", "no condition under which this is allowed is met"
	for name, c := range map[string]struct {
		pass requestctx.Pass
		want string
	}{
		"allowed":                {requestctx.Allowed(), ""},
		"condition met":          {conditional(allow), ""},
		"zero pass":              {requestctx.Pass{}, none},
		"nothing pending":        {requestctx.Conditional(nil), none},
		"condition denies":       {conditional(deny), "a rule says no"},
		"condition not met":      {conditional(noOpinion), unmet},
		"zero outcome":           {conditional(requestctx.Outcome{}), unmet},
		"impossible outcome":     {conditional(impossible), unmet},
		"fields, nothing else":   {requestctx.Granular(nil), unmet},
		"fields and a deny":      {requestctx.Granular(resolved(deny)), "a rule says no"},
		"fields, deny not met":   {requestctx.Granular(resolved(noOpinion)), unmet},
		"fields, impossible":     {requestctx.Granular(resolved(impossible)), unmet},
		"fields, nobody decided": {requestctx.Granular(resolved(requestctx.Outcome{})), unmet},
	} {
		w := newWorld("update", c.pass)
		asked := 0
		w.plugin.cfg.After = []admission.ValidationInterface{next{asked: &asked}}
		err := w.admit(t, writeOf(admission.Update, "", widget(nil), widget(nil)))
		wants(t, name, err, c.want)
		if w.ledger.Admitted() != (c.want == "") || w.ledger.Refused() != (c.want != "") || (asked == 1) != (c.want == "") {
			t.Errorf("%s: admitted %v, refused %v, asked %d further checks", name, w.ledger.Admitted(), w.ledger.Refused(), asked)
		}
	}
	wants(t, "no holder", New(Config{}).Validate(t.Context(), writeOf(admission.Update, "", widget(nil), widget(nil)), nil), none)
	w := newWorld("update", requestctx.Allowed())
	w.snap = nil
	wants(t, "no snapshot", w.admit(t, writeOf(admission.Update, "", widget(nil), widget(nil))), none)
	for _, op := range []admission.Operation{admission.Create, admission.Update, admission.Delete, admission.Connect} {
		if !New(Config{}).Handles(op) {
			t.Errorf("%s is not looked at", op)
		}
	}
}

// CA-8: an update or apply that creates needs both passes, and nothing else does.
func TestCreateOnUpdateNeedsBoth(t *testing.T) {
	both := map[requestctx.Slot]requestctx.Pass{requestctx.Request: requestctx.Allowed(), requestctx.Create: requestctx.Allowed()}
	for _, c := range []struct {
		verb  string
		op    admission.Operation
		slots map[requestctx.Slot]requestctx.Pass
		ok    bool
	}{
		{"update", admission.Create, both, true},
		{"patch", admission.Create, both, true},
		{"update", admission.Create, map[requestctx.Slot]requestctx.Pass{requestctx.Request: requestctx.Allowed()}, false},
		{"patch", admission.Create, map[requestctx.Slot]requestctx.Pass{requestctx.Request: requestctx.Allowed()}, false},
		{"patch", admission.Create, map[requestctx.Slot]requestctx.Pass{requestctx.Request: requestctx.Allowed(), requestctx.Create: conditional(deny)}, false},
		{"update", admission.Create, map[requestctx.Slot]requestctx.Pass{requestctx.Request: {}, requestctx.Create: requestctx.Allowed()}, false},
		{"update", admission.Create, map[requestctx.Slot]requestctx.Pass{requestctx.Request: conditional(deny), requestctx.Create: requestctx.Allowed()}, false},
		{"create", admission.Create, map[requestctx.Slot]requestctx.Pass{requestctx.Request: requestctx.Allowed()}, true},
		{"update", admission.Update, map[requestctx.Slot]requestctx.Pass{requestctx.Request: requestctx.Allowed()}, true},
		{"create", admission.Create, map[requestctx.Slot]requestctx.Pass{requestctx.Create: requestctx.Allowed()}, false},
		{"create", admission.Create, map[requestctx.Slot]requestctx.Pass{requestctx.Connect: requestctx.Allowed()}, false},
	} {
		w := newWorld(c.verb, requestctx.Pass{})
		w.slots = c.slots
		if err := w.admit(t, writeOf(c.op, "", nil, widget(nil))); (err == nil) != c.ok {
			t.Errorf("%s, %s with %v: %v", c.verb, c.op, c.slots, err)
		}
	}
}

// CA-9: a connection needs create, unless that is what was decided.
func TestConnectionsNeedCreate(t *testing.T) {
	for _, c := range []struct {
		verb    string
		outcome requestctx.Outcome
		want    string
	}{
		{"get", allow, ""}, {"get", deny, "a rule says no"}, {"get", requestctx.Outcome{}, "no condition"}, {"get", noOpinion, "takes create on widgets/proxy, whichever HTTP method it uses, and nothing allows that"}, {"get", impossible, "no condition"},
		{"create", deny, ""}, {"", deny, "a rule says no"},
	} {
		w := newWorld(c.verb, requestctx.Allowed())
		w.plugin.cfg.Connect = connector(c.outcome)
		wants(t, c.verb, w.admit(t, writeOf(admission.Connect, "proxy", nil, nil)), c.want)
		wants(t, "no connection", w.admit(t, writeOf(admission.Delete, "", widget(nil), nil)), "")
		w.plugin.cfg.Connect = nil
		wants(t, "left to its verb", w.admit(t, writeOf(admission.Connect, "proxy", nil, nil)), "")
	}
}

// next is a further check.
type next struct {
	skips bool
	err   error
	asked *int
}

func (n next) Handles(admission.Operation) bool { return !n.skips }

func (n next) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	*n.asked++
	return n.err
}

// TR-12: a refusal names the command that says more, where somebody answers it; what is no refusal stays as it is.
func TestRemedyOfARefusal(t *testing.T) {
	const says = "`proviso explain get /oven` says what would allow it"
	for _, explain := range []bool{true, false} {
		w := newWorld("get", conditional(deny))
		w.plugin.cfg.Explain, w.path = explain, "/oven"
		err := w.admit(t, writeOf(admission.Update, "", widget(nil), widget(nil)))
		wants(t, "a refusal", err, "a rule says no")
		if strings.HasSuffix(err.Error(), "; "+says) != explain || !apierrors.IsForbidden(err) {
			t.Errorf("explain %v: %v", explain, err)
		}
	}
	w := newWorld("get", requestctx.Allowed())
	w.plugin.cfg.Explain, w.path = true, "/oven"
	w.plugin.cfg.After = []admission.ValidationInterface{next{asked: new(int), err: apierrors.NewConflict(schema.GroupResource{}, "w", errors.New("it changed"))}}
	if err := w.admit(t, writeOf(admission.Update, "", widget(nil), widget(nil))); !apierrors.IsConflict(err) || strings.Contains(err.Error(), "proviso") {
		t.Errorf("a conflict: %v", err)
	}
}

// CA-7: every further check can refuse, and none is asked about what it does not handle.
func TestFurtherChecks(t *testing.T) {
	asked := 0
	w := newWorld("update", requestctx.Allowed())
	w.plugin.cfg.After = []admission.ValidationInterface{next{asked: &asked}, next{skips: true, asked: &asked, err: errors.New("not for this")}, next{asked: &asked, err: errors.New("refused later")}}
	wants(t, "the last one", w.admit(t, writeOf(admission.Update, "", widget(nil), widget(nil))), "refused later")
	if asked != 2 || w.ledger.Admitted() {
		t.Errorf("%d checks were asked, admitted %v", asked, w.ledger.Admitted())
	}
}

// CA-21: the final decision is in the audit event, with what decided and why; the caller does not learn the detail.
func TestFinalDecisionIsAudited(t *testing.T) {
	failed := deny
	failed.Detail = errors.New("the secret detail")
	for _, c := range []struct {
		out             requestctx.Outcome
		decision, which string
		detail          string
	}{
		{allow, "allow", "", ""}, {deny, "forbid", "policy-master a,b", ""}, {failed, "forbid", "policy-master a,b", "the secret detail"}, {noOpinion, "forbid", "", ""},
	} {
		w := newWorld("update", conditional(c.out))
		err := w.admit(t, writeOf(admission.Update, "", widget(nil), widget(nil)))
		got := audit.AuditContextFrom(w.ctx).GetEventAnnotations()
		if got[AnnotationDecision] != c.decision || strings.TrimSpace(got[AnnotationAuthorizer]+" "+got[AnnotationConditions]) != c.which || got[AnnotationDetail] != c.detail {
			t.Errorf("%v: annotations %v", c.out, got)
		}
		if err != nil && strings.Contains(err.Error(), "secret detail") {
			t.Errorf("the caller learns the detail: %v", err)
		}
	}
}

// labelTable has one exclusive label of widgets, and one of pods.
func labelTable(t *testing.T) *fieldperm.Table {
	t.Helper()
	fp := &policyv1alpha1.FieldPermission{ObjectMeta: metav1.ObjectMeta{Name: "tier"}, Spec: policyv1alpha1.FieldPermissionSpec{
		Resources: []string{"widgets.example.com", "pods"}, Field: ".metadata.labels[tier]", Permission: "example.com/tier", Exclusive: true}}
	table, issues := fieldperm.New(fieldperm.Config{FieldPermissions: []*policyv1alpha1.FieldPermission{fp}})
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	return table
}

type connector requestctx.Outcome

func (c connector) Connect(context.Context, *requestctx.State, authorizer.ConditionsData) requestctx.Outcome {
	return requestctx.Outcome(c)
}

func (c connector) Foresee(context.Context, *requestctx.State, authorizer.ConditionsData) {}
