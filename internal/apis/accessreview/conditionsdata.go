package accessreview

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	reviewv1alpha1 "proviso.dev/proviso/api/authorizationreview/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/request/authorize"
)

// conditionsData is what a review brings to the evaluation of its conditions. Who asks for what is not in it: that was
// known when the conditions were made, and is filled in.
type conditionsData struct {
	operation                  authorizer.AdmissionOperation
	object, oldObject, options *unstructured.Unstructured
	target                     *unstructured.Unstructured
	impersonated               *expr.Request
	// shared is the budget of the review.
	shared *expr.Budget
}

var _ authorize.Facts = &conditionsData{}

// Expr is what upstream's interface offers, and what only we know.
func (d *conditionsData) Expr() *expr.Data {
	cfg := expr.DataConfig{Operation: string(d.operation), Objects: expr.Static{New: orNil(d.object), Old: orNil(d.oldObject)}, OwnKind: true,
		Options: orNil(d.options), Impersonated: d.impersonated, Shared: d.shared}
	if d.operation == authorizer.AdmissionOperation(reviewv1alpha1.Connect) {
		if d.options == nil { // connect admission has its options as the object
			cfg.Options = orNil(d.object)
		}
		cfg.Objects = nil
		cfg.Target = expr.Reached{Object: orNil(d.target)}
	}
	return expr.NewData(cfg)
}

// Trusted implements authorize.Facts: nothing in a review is another thing than it says.
func (d *conditionsData) Trusted() error { return nil }

func (d *conditionsData) GetOperation() authorizer.AdmissionOperation { return d.operation }
func (d *conditionsData) GetObject() runtime.Object                   { return orNil(d.object) }
func (d *conditionsData) GetOldObject() runtime.Object                { return orNil(d.oldObject) }
func (d *conditionsData) GetOperationOptions() runtime.Object         { return orNil(d.options) }
func (d *conditionsData) GetUserInfo() user.Info                      { return &user.DefaultInfo{} }
func (d *conditionsData) GetResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{}
}
func (d *conditionsData) GetSubresource() string { return "" }
func (d *conditionsData) IsDryRun() bool         { return false }

func (d *conditionsData) GetName() string {
	return d.either((*unstructured.Unstructured).GetName)
}

func (d *conditionsData) GetNamespace() string {
	return d.either((*unstructured.Unstructured).GetNamespace)
}

func (d *conditionsData) GetKind() schema.GroupVersionKind {
	apiVersion := d.either((*unstructured.Unstructured).GetAPIVersion)
	return schema.FromAPIVersionAndKind(apiVersion, d.either((*unstructured.Unstructured).GetKind))
}

// either reads the new object, or the stored one if there is no new one.
func (d *conditionsData) either(read func(*unstructured.Unstructured) string) string {
	switch {
	case d.object != nil:
		return read(d.object)
	case d.oldObject != nil:
		return read(d.oldObject)
	}
	return ""
}

// orNil keeps a missing object from becoming an interface that is not nil.
func orNil(u *unstructured.Unstructured) runtime.Object {
	if u == nil {
		return nil
	}
	return u
}

var (
	operations = []reviewv1alpha1.Operation{reviewv1alpha1.Create, reviewv1alpha1.Update, reviewv1alpha1.Delete, reviewv1alpha1.Connect,
		reviewv1alpha1.Impersonate}
	failureModes = []reviewv1.FailureMode{reviewv1.FailureModeDeny, reviewv1.FailureModeNoOpinion}
	effects      = []reviewv1.ConditionEffect{reviewv1.EffectAllow, reviewv1.EffectDeny, reviewv1.EffectNoOpinion}
)

// readRequest checks the shape of a request, in which nothing may be unclear, and reads its objects. Whether the set of
// conditions is well-formed is another question: that has an answer.
func readRequest(r *reviewv1alpha1.AuthorizationConditionsRequest) (*conditionsData, field.ErrorList) {
	path := field.NewPath("request")
	if r == nil {
		return nil, field.ErrorList{field.Required(path, "say which conditions are to be evaluated against which object")}
	}
	var errs field.ErrorList
	data := &conditionsData{operation: authorizer.AdmissionOperation(r.Operation)}
	switch {
	case r.Operation == "":
		errs = append(errs, field.Required(path.Child("operation"), "say CREATE, UPDATE, DELETE, CONNECT or IMPERSONATE"))
	case !slices.Contains(operations, r.Operation):
		errs = append(errs, field.NotSupported(path.Child("operation"), r.Operation, operations))
	}
	errs = append(errs, data.readParticular(r, path)...)
	for _, o := range []struct {
		name string
		raw  runtime.RawExtension
		into **unstructured.Unstructured
	}{
		{"object", r.Object, &data.object}, {"oldObject", r.OldObject, &data.oldObject}, {"options", r.Options, &data.options},
	} {
		u, err := readObject(o.raw)
		if err != nil {
			errs = append(errs, field.TypeInvalid(path.Child(o.name), field.OmitValueType{}, err.Error()))
		}
		*o.into = u
	}
	return data, append(errs, validateSet(&r.ConditionSet, path.Child("conditionSet"))...)
}

// readParticular reads what only one operation has.
func (d *conditionsData) readParticular(r *reviewv1alpha1.AuthorizationConditionsRequest, path *field.Path) (errs field.ErrorList) {
	if r.Target != nil {
		u, err := readObject(*r.Target)
		switch {
		case err != nil:
			errs = append(errs, field.TypeInvalid(path.Child("target"), field.OmitValueType{}, err.Error()))
		case u != nil && r.Operation != reviewv1alpha1.Connect:
			errs = append(errs, field.Forbidden(path.Child("target"), "only CONNECT has one"))
		}
		d.target = u
	}
	i, at := r.ImpersonatedRequest, path.Child("impersonatedRequest")
	switch impersonates := r.Operation == reviewv1alpha1.Impersonate; {
	case impersonates && i == nil:
		errs = append(errs, field.Required(at, "say which request is to be made in the name of the other user"))
	case !impersonates && i != nil:
		errs = append(errs, field.Forbidden(at, "only IMPERSONATE has one"))
	case i != nil:
		d.impersonated = &expr.Request{Verb: i.Verb, APIGroup: i.APIGroup, APIVersion: i.APIVersion, Resource: i.Resource, Subresource: i.Subresource,
			Namespace: i.Namespace, Name: i.Name}
	}
	return errs
}

// readObject reads an object of any kind, in JSON or CBOR; nil if there is none.
func readObject(raw runtime.RawExtension) (*unstructured.Unstructured, error) {
	text, err := raw.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return nil, err
	}
	switch value := value.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return &unstructured.Unstructured{Object: value}, nil
	}
	return nil, fmt.Errorf("must be an object")
}

func validateSet(set *reviewv1.SubjectAccessReviewConditionSet, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if set.FailureMode != "" && !slices.Contains(failureModes, set.FailureMode) {
		errs = append(errs, field.NotSupported(path.Child("failureMode"), set.FailureMode, failureModes))
	}
	if set.Allowed || set.Denied {
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "must be a set of conditions, allowed and denied leave nothing to evaluate"))
	}
	if len(set.Conditions) == 0 {
		errs = append(errs, field.Required(path.Child("conditions"), "at least one condition is needed"))
	}
	for i, c := range set.Conditions {
		if !slices.Contains(effects, c.Effect) {
			// One is enough: there may be thousands.
			return append(errs, field.NotSupported(path.Child("conditions").Index(i).Child("effect"), c.Effect, effects))
		}
	}
	return errs
}
