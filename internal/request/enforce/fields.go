package enforce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"

	access "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/request/denial"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Audit annotations of field permissions (FP-12).
const (
	AnnotationFieldDecision = "fieldpermissions.proviso.dev/decision"
	AnnotationFieldChecks   = "fieldpermissions.proviso.dev/checks"
)

// Fields decides whether a caller may change the fields that a write changes.
type Fields struct {
	// Asker asks the whole chain about the request with another verb.
	Asker Asker
	// Schemas finds the schemas of a kind.
	Schemas Schemas
	// Everywhere knows which requests are granted for the whole cluster: denies due to unreadable policy yield to that.
	// Nil means that none are.
	Everywhere Everywhere
	// Behind knows what the body does not show; with nil, no pod and no differing version is known.
	Behind Behind
}

// Asker asks the whole chain about a request with another verb.
type Asker interface {
	Ask(ctx context.Context, holder *requestctx.State, verb string, data authorizer.ConditionsData) requestctx.Outcome
	// AskAside asks for a rule that is not enforced: it is not observed.
	AskAside(ctx context.Context, holder *requestctx.State, verb string, data authorizer.ConditionsData) requestctx.Outcome
}

// Schemas finds the schemas of a kind; an error refuses the request.
type Schemas interface {
	For(kind schema.GroupVersionKind) (fieldperm.Converter, error)
}

// Everywhere knows which requests are granted for the whole cluster.
type Everywhere interface {
	GrantedEverywhere(ctx context.Context, snap *snapshot.Snapshot, attrs authorizer.Attributes) bool
}

// everywhere reports whether the request is granted for the whole cluster.
func (f *Fields) everywhere(ctx context.Context, holder *requestctx.State) bool {
	return f.Everywhere != nil && f.Everywhere.GrantedEverywhere(ctx, holder.Snapshot, holder.Attributes())
}

// UnreadableReason is the refusal of a write while a declaration of field permissions cannot be read (SV-8).
func UnreadableReason(source string) string {
	return source + " cannot be read and may withhold any field: until a cluster admin repairs or deletes it, writing requires a right that is granted for the whole cluster"
}

// reach decides whether a caller without the verb of the request may try it with rights to single fields (FP-6). If
// that is why authorization let the request pass, it has asked already.
func (f *Fields) reach(ctx context.Context, holder *requestctx.State, asked requestctx.Pending, known *facts) requestctx.Outcome {
	switch {
	case f == nil || holder.Snapshot.Fields == nil || !writesFields(holder.Snapshot, known):
		return requestctx.Outcome{Decision: authorizer.DecisionNoOpinion}
	case asked != nil:
		return asked.Resolve(ctx, known)
	}
	return f.Asker.Ask(ctx, holder, fieldperm.Verb, known)
}

// writesFields reports whether what is admitted is an object, or a stand-in for one, whose fields say what the request
// does.
func writesFields(snap *snapshot.Snapshot, attrs admission.Attributes) bool {
	if attrs.GetOperation() != admission.Create && attrs.GetOperation() != admission.Update {
		return false
	}
	return snap.Served.HasFields(attrs.GetResource().GroupResource(), attrs.GetSubresource())
}

// fieldless reports whether a subresource does not write any field of its object. An eviction deletes the object, and
// the server itself stores the decision about an access request in its status.
func fieldless(resource schema.GroupResource, subresource string) bool {
	switch subresource {
	case "eviction", "log", "token":
		return true
	case "approval", "revocation":
		return resource == access.Resource("accessrequests")
	}
	return connect.Connects(subresource)
}

// hides reports whether a request may write fields that its body does not show: a subresource with a body of an unknown
// other kind. A resource that is newer than the list of served resources counts as showing its fields.
func hides(served *snapshot.Served, attrs admission.Attributes) bool {
	resource, sub := attrs.GetResource().GroupResource(), attrs.GetSubresource()
	own := served.OwnKind(resource)
	return sub != "" && own != "" && attrs.GetKind().Kind != own && !served.HasFields(resource, sub)
}

// check refuses a write that changes a field without the permission for it: any field in granular mode, exclusive ones
// otherwise. It also names the missing permissions.
func (f *Fields) check(ctx context.Context, holder *requestctx.State, mode fieldperm.Mode, known *facts, objects admission.ObjectInterfaces) (denial.By, error) {
	by := denial.By{Stage: denial.Fields}
	if f == nil || holder.Snapshot.Fields == nil {
		return by, nil
	}
	if mode == fieldperm.Granular && !writesFields(holder.Snapshot, known) {
		return by, forbidden(known, "field permissions cannot be used here: the request writes no object")
	}
	if op := known.GetOperation(); op != admission.Create && op != admission.Update || fieldless(known.GetResource().GroupResource(), known.GetSubresource()) {
		return by, nil
	}
	known.reached, known.mode = true, mode
	begin := time.Now()
	w := &fieldWrite{Fields: f, ctx: ctx, holder: holder, known: known, objects: objects}
	result, looked, err := w.decide(holder.Snapshot.Fields)
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
			return by, result.Err // its pod does not exist, or has changed
		}
		// The caller only learns that the fields could not be examined; the log says why.
		klog.FromContext(ctx).Info("Field permissions could not be examined", "resource", known.GetResource(), "name", known.GetName(), "err", result.Err)
	}
	by.Rules = lacking(result)
	if result.Missing != nil && result.Missing.Permission != "" {
		by.Ask = &denial.Question{Attributes: holder.Attributes(), Verb: result.Missing.Permission}
	}
	return by, apierrors.NewForbidden(known.GetResource().GroupResource(), known.GetName(), errors.New(result.Reason()))
}

// lacking returns the permissions that the caller was asked for and does not hold, without their parameters, which can
// quote the object.
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

// decide checks a write against a table; looked is false if no field had to be checked.
func (w *fieldWrite) decide(table *fieldperm.Table) (result fieldperm.Result, looked bool, err error) {
	target, mode := fieldTarget(w.holder.Snapshot.Served, w.known), w.known.mode
	if source := table.Unreadable(target.Resource); source != "" && !w.everywhere(w.ctx, w.holder) {
		return result, false, forbidden(w.known, UnreadableReason(source))
	}
	if of := w.known.GetResource(); w.holder.Snapshot.Served.LostInStorage(of.GroupResource(), of.Version) {
		// Whichever part of the object the request is about, the whole object is stored again.
		whole := target
		whole.Subresource = ""
		if mode == fieldperm.General && !table.Guards(whole) {
			return result, false, nil
		}
		return fieldperm.Result{Err: fmt.Errorf("version %s of the resource has another schema than the one in which objects are stored: what the write drops is not known", of.Version)}, true, nil
	}
	target.Copied = mode == fieldperm.General && copies(w.known)
	if mode == fieldperm.General && !table.Guards(target) {
		return result, false, nil
	}
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
