package enforce

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"proviso.dev/proviso/internal/expr"
	"proviso.dev/proviso/internal/fieldperm"
	"proviso.dev/proviso/internal/handoff"
	"proviso.dev/proviso/internal/snapshot"
)

// Audit annotations of field permissions (FP-12).
const (
	AnnotationFieldDecision = "fieldpermissions.proviso.dev/decision"
	AnnotationFieldChecks   = "fieldpermissions.proviso.dev/checks"
)

// Fields decides whether a caller may change the fields that a write changes.
type Fields struct {
	// Ask asks the whole chain about the request with another verb.
	Ask func(ctx context.Context, holder *handoff.Holder, verb string, data authorizer.ConditionsData) handoff.Outcome
	// Schemas finds the schemas of a kind; an error refuses the request.
	Schemas func(kind schema.GroupVersionKind) (fieldperm.Converter, error)
}

// reach says whether a caller without the verb of the request may try it for the sake of single fields (FP-6).
func (f *Fields) reach(ctx context.Context, holder *handoff.Holder, known *facts) handoff.Outcome {
	if f == nil || holder.Snapshot.Fields == nil || !writesFields(holder.Snapshot, known) {
		return handoff.Outcome{Decision: authorizer.DecisionNoOpinion}
	}
	return f.Ask(ctx, holder, fieldperm.Verb, known)
}

// writesFields tells whether what is admitted is an object, or a stand-in for one, whose fields say what the request does.
func writesFields(snap *snapshot.Snapshot, attrs admission.Attributes) bool {
	if attrs.GetOperation() != admission.Create && attrs.GetOperation() != admission.Update {
		return false
	}
	return snap.Served.HasFields(attrs.GetResource().GroupResource(), attrs.GetSubresource())
}

// check refuses a write that changes a field without the permission for it: any field in granular mode, exclusive ones
// otherwise.
func (f *Fields) check(ctx context.Context, holder *handoff.Holder, mode fieldperm.Mode, known *facts, objects admission.ObjectInterfaces) error {
	if f == nil || holder.Snapshot.Fields == nil {
		return nil
	}
	table, served, resource := holder.Snapshot.Fields, holder.Snapshot.Served, known.GetResource().GroupResource()
	if !writesFields(holder.Snapshot, known) {
		if mode == fieldperm.Granular {
			return forbidden(known, "field permissions do not reach this request: it writes no object")
		}
		return nil
	}
	target := fieldperm.Target{
		Resource:    fieldperm.Resource{Group: resource.Group, Resource: resource.Resource},
		Subresource: known.GetSubresource(),
		Version:     served.PreferredVersion(schema.GroupKind{Group: resource.Group, Kind: served.OwnKind(resource)}),
	}
	if mode == fieldperm.General && !table.Guards(target) {
		return nil
	}
	begin := time.Now()
	result := table.Decide(f.request(ctx, holder, target, mode, known, objects))
	record(ctx, mode, result, time.Since(begin))
	if result.Allowed() {
		return nil
	}
	if result.Err != nil {
		// The caller learns that it could not be examined, the log learns why.
		klog.FromContext(ctx).Info("Field permissions could not be examined", "resource", known.GetResource(), "name", known.GetName(), "err", result.Err)
	}
	return apierrors.NewForbidden(resource, known.GetName(), fmt.Errorf("%s", result.Reason()))
}

func (f *Fields) request(ctx context.Context, holder *handoff.Holder, target fieldperm.Target, mode fieldperm.Mode, known *facts, objects admission.ObjectInterfaces) fieldperm.Request {
	req := fieldperm.Request{
		Context: expr.WithBudget(ctx, known.data.Budget()), // what conditions have spent is gone
		Target:  target,
		Mode:    mode,
		Objects: func() (old, new *typed.TypedValue, err error) { return f.objects(known) },
		Check: func(verb string) (bool, error) {
			out := f.Ask(ctx, holder, verb, known)
			return out.Decision == authorizer.DecisionAllow, out.Detail
		},
	}
	if known.GetOperation() == admission.Create && known.GetSubresource() == "" {
		req.Default = func(object map[string]any) (map[string]any, error) { return defaulted(known, object, objects) }
		if holder.Snapshot.Served.ResetsStatus(known.GetResource().GroupResource()) {
			req.Reset = statusFields
		}
	}
	return req
}

// statusFields are set by the endpoint itself, whatever the caller sends.
var statusFields = fieldpath.NewSet(fieldpath.MakePathOrDie("status"))

// objects are both sides of the comparison, in one version whatever version the request uses (FP-10).
func (f *Fields) objects(known *facts) (old, new *typed.TypedValue, err error) {
	object, err := known.final()
	if err != nil {
		return nil, nil, err
	}
	schemas, err := f.Schemas(object.GetObjectKind().GroupVersionKind())
	if err != nil {
		return nil, nil, err
	}
	if new, err = schemas.ObjectToTyped(object); err != nil {
		return nil, nil, err
	}
	stored, err := known.data.OldObject("")
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("the stored object cannot be had: %w", err)
	case stored != nil:
		old, err = schemas.ObjectToTyped(stored)
	case known.GetOperation() != admission.Create:
		err = fmt.Errorf("the stored object is not known")
	}
	return old, new, err
}

// final is the object that will be stored, in the preferred version.
func (f *facts) final() (runtime.Object, error) {
	object, err := f.data.Object("")
	if err == nil && object == nil {
		err = errors.New("there is none")
	}
	if err != nil {
		return nil, fmt.Errorf("the object cannot be had: %w", err)
	}
	return object, nil
}

// defaulted lets the server's own defaulting fill in what an object does not say.
func defaulted(known *facts, object map[string]any, objects admission.ObjectInterfaces) (map[string]any, error) {
	example, err := known.final()
	if err != nil {
		return nil, err
	}
	kind := example.GetObjectKind().GroupVersionKind()
	if _, custom := example.(*unstructured.Unstructured); custom {
		u := &unstructured.Unstructured{Object: object}
		u.SetGroupVersionKind(kind)
		objects.GetObjectDefaulter().Default(u)
		return u.Object, nil
	}
	filled, err := objects.GetObjectCreater().New(kind)
	if err != nil {
		return nil, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, filled); err != nil {
		return nil, err
	}
	objects.GetObjectDefaulter().Default(filled)
	return runtime.DefaultUnstructuredConverter.ToUnstructured(filled)
}

// record writes what was asked into the audit event and the metrics.
func record(ctx context.Context, mode fieldperm.Mode, result fieldperm.Result, took time.Duration) {
	decision := "forbid"
	if result.Allowed() {
		decision = "allow"
	}
	handoff.ObserveFields(modeName(mode), decision, len(result.Checks), took)
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
