package enforce

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"

	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/denial"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/request/shadow"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Audit annotations of field permissions (FP-12).
const (
	AnnotationFieldDecision = "fieldpermissions.proviso.dev/decision"
	AnnotationFieldChecks   = "fieldpermissions.proviso.dev/checks"
)

// Fields decides whether a caller may change the fields that a write changes.
type Fields struct {
	// Ask asks the whole chain about the request with another verb.
	Ask func(ctx context.Context, holder *requestctx.State, verb string, data authorizer.ConditionsData) requestctx.Outcome
	// Schemas finds the schemas of a kind; an error refuses the request.
	Schemas func(kind schema.GroupVersionKind) (fieldperm.Converter, error)
	// Everywhere tells whether a request is granted for the whole cluster: what cannot be read yields to that. Nil
	// means that none is.
	Everywhere func(ctx context.Context, snap *snapshot.Snapshot, attrs authorizer.Attributes) bool
	// Behind knows what the body does not show.
	Behind *Behind
	// Shadow is told what field permissions that are not enforced would have changed.
	Shadow *shadow.Recorder
}

// everywhere tells whether the request is granted for the whole cluster.
func (f *Fields) everywhere(ctx context.Context, holder *requestctx.State) bool {
	return f.Everywhere != nil && f.Everywhere(ctx, holder.Snapshot, holder.Attributes())
}

// UnreadableReason is the refusal of a write while a declaration of field permissions cannot be read (SV-8).
func UnreadableReason(source string) string {
	return source + " cannot be read and may withhold any field: until a cluster admin repairs or deletes it, writing requires a right that is granted for the whole cluster"
}

// reach says whether a caller without the verb of the request may try it for the sake of single fields (FP-6).
// Authorization has asked already if that is why it let the request pass.
func (f *Fields) reach(ctx context.Context, holder *requestctx.State, asked requestctx.Pending, known *facts) requestctx.Outcome {
	switch {
	case f == nil || holder.Snapshot.Fields == nil || !writesFields(holder.Snapshot, known):
		return requestctx.Outcome{Decision: authorizer.DecisionNoOpinion}
	case asked != nil:
		return asked.Resolve(ctx, known)
	}
	return f.Ask(ctx, holder, fieldperm.Verb, known)
}

// writesFields tells whether what is admitted is an object, or a stand-in for one, whose fields say what the request
// does.
func writesFields(snap *snapshot.Snapshot, attrs admission.Attributes) bool {
	if attrs.GetOperation() != admission.Create && attrs.GetOperation() != admission.Update {
		return false
	}
	return snap.Served.HasFields(attrs.GetResource().GroupResource(), attrs.GetSubresource())
}

// fieldless tells the subresources that write no field of the object which they belong to. An eviction deletes it.
func fieldless(subresource string) bool {
	switch subresource {
	case "eviction", "log", "token":
		return true
	}
	return connect.Connects(subresource)
}

// hides tells whether a request may write fields that its body does not show: a subresource with a body of another
// kind, of which nothing is known. A resource that is newer than what is known to be served shows itself.
func hides(served *snapshot.Served, attrs admission.Attributes) bool {
	resource, sub := attrs.GetResource().GroupResource(), attrs.GetSubresource()
	own := served.OwnKind(resource)
	return sub != "" && own != "" && attrs.GetKind().Kind != own && !served.HasFields(resource, sub)
}

// check refuses a write that changes a field without the permission for it: any field in granular mode, exclusive ones
// otherwise. It also names the permissions that are lacking.
func (f *Fields) check(ctx context.Context, holder *requestctx.State, mode fieldperm.Mode, known *facts, objects admission.ObjectInterfaces) (denial.By, error) {
	by := denial.By{Stage: denial.Fields}
	if f == nil || holder.Snapshot.Fields == nil {
		return by, nil
	}
	if mode == fieldperm.Granular && !writesFields(holder.Snapshot, known) {
		return by, forbidden(known, "field permissions cannot be used here: the request writes no object")
	}
	if op := known.GetOperation(); op != admission.Create && op != admission.Update || fieldless(known.GetSubresource()) {
		return by, nil
	}
	known.reached, known.mode = true, mode
	begin := time.Now()
	result, looked, err := f.decide(ctx, holder, holder.Snapshot.Fields, known, objects)
	if err != nil || !looked {
		return by, err
	}
	record(ctx, mode, result, time.Since(begin))
	if result.Allowed() {
		return by, nil
	}
	if result.Err != nil {
		var answer apierrors.APIStatus
		if isBinding(known) && errors.As(result.Err, &answer) {
			return by, result.Err // its pod is not there, or has changed
		}
		// The caller learns that it could not be examined, the log learns why.
		klog.FromContext(ctx).Info("Field permissions could not be examined", "resource", known.GetResource(), "name", known.GetName(), "err", result.Err)
	}
	by.Rules = lacking(result)
	if result.Missing != nil && result.Missing.Permission != "" {
		by.Ask = &denial.Question{Attributes: holder.Attributes(), Verb: result.Missing.Permission}
	}
	return by, apierrors.NewForbidden(known.GetResource().GroupResource(), known.GetName(), errors.New(result.Reason()))
}

// lacking names the permissions that were asked for and not had, without their parameters, which can quote the object.
func lacking(result fieldperm.Result) (names []string) {
	for _, c := range result.Checks {
		name, _, _ := strings.Cut(strings.TrimPrefix(c.Verb, fieldperm.VerbPrefix), ":")
		name, _, _ = strings.Cut(name, "(")
		if name = fieldperm.VerbPrefix + name; !c.Allowed && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// suppose takes down what field permissions that are not enforced would have changed (TR-6). A write that was refused
// before its fields were looked at, they would not have saved.
func (f *Fields) suppose(ctx context.Context, holder *requestctx.State, known *facts, objects admission.ObjectInterfaces, allowed bool) {
	if f == nil || !known.reached {
		return
	}
	target, left := fieldTarget(holder.Snapshot.Served, known), authorize.MaxSuppositions
	for _, one := range holder.Snapshot.Shadow.Fields {
		if !one.Concerns(target.Resource) {
			continue
		}
		if left--; left < 0 {
			f.Shadow.Count(one.Rule, holder.Attributes(), shadow.AnswerOf(allowed), shadow.Undecided)
			continue
		}
		aside := known.besides()
		aside.mode = known.mode
		result, looked, err := f.decide(authorize.Quietly(ctx), holder, one.Table(), aside, objects)
		would := shadow.Allow
		if err != nil || looked && !result.Allowed() {
			would = shadow.Deny
		}
		was := shadow.AnswerOf(allowed)
		if !allowed && known.mode == fieldperm.General {
			would = was // something else refuses it
		}
		f.Shadow.Note(ctx, one.Rule, holder.Attributes(), was, would)
	}
}

// decide holds a write against a table; looked is false if no field of it needs a look.
func (f *Fields) decide(ctx context.Context, holder *requestctx.State, table *fieldperm.Table, known *facts, objects admission.ObjectInterfaces) (result fieldperm.Result, looked bool, err error) {
	target, mode := fieldTarget(holder.Snapshot.Served, known), known.mode
	if source := table.Unreadable(target.Resource); source != "" && !f.everywhere(ctx, holder) {
		return result, false, forbidden(known, UnreadableReason(source))
	}
	target.Copied = mode == fieldperm.General && copies(known)
	if mode == fieldperm.General && !table.Guards(target) {
		return result, false, nil
	}
	w := &fieldWrite{Fields: f, ctx: ctx, holder: holder, known: known, objects: objects}
	result = table.Decide(w.request(target, mode))
	if result.Allowed() {
		result = w.otherVersions(table, target, result)
	}
	return result, true, nil
}

// record writes what was asked into the audit event and the metrics.
func record(ctx context.Context, mode fieldperm.Mode, result fieldperm.Result, took time.Duration) {
	decision := "forbid"
	if result.Allowed() {
		decision = "allow"
	}
	observeFields(modeName(mode), decision, len(result.Checks), took)
	if mode == fieldperm.General && len(result.Checks) == 0 && result.Allowed() {
		return // no exclusive field was touched
	}
	asked := make([]string, len(result.Checks))
	for i, c := range result.Checks {
		asked[i] = c.Verb + "=" + answer(c)
	}
	audit.AddAuditAnnotations(ctx, AnnotationFieldDecision, decision, AnnotationFieldChecks, strings.Join(asked, ","))
}

func modeName(mode fieldperm.Mode) string {
	if mode == fieldperm.General {
		return "general"
	}
	return "granular"
}

func answer(c fieldperm.Check) string {
	switch {
	case c.Err != nil:
		return "error"
	case c.Allowed:
		return "allow"
	}
	return "no"
}
