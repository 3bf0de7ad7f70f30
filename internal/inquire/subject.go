package inquire

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/authorize"
	"proviso.dev/proviso/internal/expr"
	"proviso.dev/proviso/internal/ruleset"
)

// SubjectCan answers for one subject; with content the answer is final (PO-15). The stored object is never read, so that the
// review tells nothing about it.
func (r *Reviewer) SubjectCan(ctx context.Context, caller user.Info, namespace string, spec authz.SubjectAccessReviewSpec) (authz.SubjectAccessReviewStatus, error) {
	var status authz.SubjectAccessReviewStatus
	snap := authorize.SnapshotOf(ctx, r.Store)
	if snap.Rules == nil {
		return status, apierrors.NewServiceUnavailable("the server has not read its policy yet")
	}
	subject := caller
	switch {
	case spec.UserName != "":
		subject = userOf(ruleset.Subject{Name: spec.UserName})
	case spec.GroupName != "":
		subject = userOf(ruleset.Subject{Group: true, Name: spec.GroupName})
	}
	attrs, err := question(snap.Served, subject, namespace, spec.Verb, spec.ResourceKind, spec.ResourceName)
	if err != nil {
		status.EvaluationError = err.Error()
		return status, nil
	}
	var decision authorizer.Decision
	var reason string
	if spec.Content == nil {
		decision, reason, err = r.Chain.Authorize(ctx, attrs)
	} else {
		data, derr := contentData(attrs, spec)
		if derr != nil {
			return status, derr
		}
		decision, reason, err = r.decideWith(ctx, attrs, data)
	}
	status.Allowed = decision == authorizer.DecisionAllow
	if err != nil {
		status.EvaluationError = err.Error()
	}
	allow, deny := traces(snap.Rules, attrs)
	status.AllowReason = allow
	switch {
	case status.Allowed:
		status.AllowReason = reason
	case reason != "":
		status.DenyReason = reason
	case deny != "":
		status.DenyReason = deny
	default:
		status.DenyReason = "no rule allows it"
	}
	return status, nil
}

// decideWith resolves conditions against the content.
func (r *Reviewer) decideWith(ctx context.Context, attrs authorizer.Attributes, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	v := r.Chain.Decide(ctx, attrs)
	if v.Pending == nil {
		return v.Decision, v.Reason, v.Err
	}
	out := v.Pending.Resolve(ctx, data)
	return out.Decision, out.Reason, out.Detail
}

// traces finds the unconditional rules on both sides, so that both reasons can be shown (PO-8).
func traces(ix *ruleset.Index, attrs authorizer.Attributes) (allow, deny string) {
	v := ix.Decide(attrs)
	if v.Allow.Found() {
		allow = v.Allow.Reason()
	}
	if v.Deny.Found() {
		deny = v.Deny.Reason()
	}
	return allow, deny
}

// contentData is the object on create, the stored object on delete, and both on update.
func contentData(attrs authorizer.AttributesRecord, spec authz.SubjectAccessReviewSpec) (authorizer.ConditionsData, error) {
	raw := map[string]any{}
	if err := json.Unmarshal(spec.Content.Raw, &raw); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("spec.content: not an object: %v", err))
	}
	object := &unstructured.Unstructured{Object: raw}
	var newObject, oldObject runtime.Object
	operation := admission.Operation("")
	switch spec.Verb {
	case "create":
		operation, newObject = admission.Create, object
	case "update", "patch":
		operation, newObject, oldObject = admission.Update, object, object
	case "delete", "deletecollection":
		operation, oldObject = admission.Delete, object
	default:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("spec.content: verb %q has no object; want create, update, patch, delete or deletecollection", spec.Verb))
	}
	kind := schema.FromAPIVersionAndKind(object.GetAPIVersion(), object.GetKind())
	record := admission.NewAttributesRecord(newObject, oldObject, kind, attrs.Namespace, attrs.Name,
		schema.GroupVersionResource{Group: attrs.APIGroup, Version: attrs.APIVersion, Resource: attrs.Resource}, attrs.Subresource, operation, nil, false, attrs.User)
	return content{record, expr.NewData(expr.DataConfig{
		Operation: string(operation),
		Objects:   expr.Static{New: newObject, Old: oldObject},
		OwnKind:   attrs.Subresource == "" || attrs.Subresource == "status",
	})}, nil
}

type content struct {
	admission.Attributes
	data *expr.Data
}

func (c content) Expr() *expr.Data { return c.data }
func (c content) Trusted() error   { return nil }
