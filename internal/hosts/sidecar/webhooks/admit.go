package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/apis/accessreview"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
)

// Admit answers admission: nil, or why the request is refused (SC-6). ErrUnsynced is not an answer. It has no effects,
// and decides from the review alone: for each request that authorization can have been asked about, what authorization
// said to it, and then what the enforcer of a server would have said.
func (d *Decider) Admit(ctx context.Context, r *admissionv1.AdmissionRequest) error {
	resource := schema.GroupResource{Group: r.Resource.Group, Resource: r.Resource.Resource}
	refuse := func(reason string) error { return apierrors.NewForbidden(resource, r.Name, errors.New(reason)) }
	ctx, snap, err := d.pin(ctx)
	if err != nil {
		return err
	}
	caller := callerOf(&r.UserInfo)
	switch {
	case named(caller, d.cfg.Canary):
		return refuse(d.cfg.Interlock.Admitted(r.Name))
	case named(caller, d.cfg.Own) && resource.Group != authorizationv1.GroupName && resource.Group != authenticationv1.GroupName:
		return refuse("the sidecar writes nothing in the cluster: another process uses its certificate")
	case r.RequestKind != nil && *r.RequestKind != r.Kind, r.RequestResource != nil && *r.RequestResource != r.Resource:
		return refuse("the review is about another version than the request: the admission webhook is not configured as `proviso sidecar init` wrote it")
	}
	if why := d.stale(); why != "" {
		return refuse(why)
	}
	if err := d.asksAboutConditions(ctx, r, caller); err != nil {
		return refuse(err.Error())
	}
	all := cases(r, caller)
	if len(all) == 0 {
		return refuse(fmt.Sprintf("operation %q is not known", r.Operation))
	}
	if err := d.cfg.Served.Unknown(snap, all[0]); err != nil {
		return refuse(err.Error())
	}
	attrs, err := d.attributes(r, caller)
	if err != nil {
		return refuse("the review cannot be read: " + err.Error())
	}
	possible, why := false, ""
	for _, request := range all {
		// Each has a holder and notes of its own.
		ctx := requestctx.WithNotes(requestctx.With(ctx, snap))
		if r.SubResource == "scale" {
			requestctx.NotesOf(ctx).Claim() // mutating admission was not watched, so assume that it does
		}
		v := d.cfg.Gate.Decide(ctx, request)
		v.Report(ctx)
		if why := d.lifted(request, v); why != "" {
			return refuse(why)
		}
		if v.Answer == authorize.Denied {
			why = joined(v.Reason, v.Err)
			continue // it did not get this far
		}
		possible = true
		pass := v.Beside()
		requestctx.From(ctx).Put(requestctx.Request, request, pass)
		d.cfg.Gate.ObserveAdmission(ctx, request, v, pass)
		err := d.cfg.Enforcer.Validate(ctx, attrs, attrs.objects)
		if attrs.err != nil {
			return refuse("the object cannot be read: " + attrs.err.Error())
		}
		if err != nil {
			return err
		}
	}
	if !possible {
		return refuse(why)
	}
	if err := d.confirm(ctx, snap, r, all); err != nil {
		return forbidden(err, refuse)
	}
	if err := d.disown(ctx, snap, r, caller); err != nil {
		return refuse("changing the owner references of an object requires the right to delete it: " + err.Error())
	}
	return nil
}

// lifted is why a request that was let pass under a condition must not pass without it. What a rule denies now is not a
// request that did not get this far: it may be the very one, whose body took its time.
func (d *Decider) lifted(request authorizer.Attributes, v authorize.Verdict) string {
	switch v.Answer {
	case authorize.Denied:
		if d.cfg.Granted.has(request, allowed) || d.cfg.Granted.has(request, undenied) {
			return "you were allowed to " + request.GetVerb() + " this under a condition, and a rule denies it now: the request may be from before that; if you have another right to it, try again in ten minutes"
		}
	case authorize.Unanswered:
		if d.cfg.Granted.has(request, allowed) {
			return "you were allowed this under a condition, and the rule is gone: the request may be from before that; if you have another right to it, try again in ten minutes"
		}
	}
	return ""
}

// forbidden is a refusal: the error itself if it is one, or says when to try again.
func forbidden(err error, refuse func(string) error) error {
	if apierrors.IsForbidden(err) || apierrors.IsTooManyRequests(err) {
		return err
	}
	return refuse(err.Error())
}

// asksAboutConditions refuses an access review whose answer would be conditional: the server would pass it on as an
// allowance.
func (d *Decider) asksAboutConditions(ctx context.Context, r *admissionv1.AdmissionRequest, caller user.Info) error {
	if r.Resource.Group != authorizationv1.GroupName || r.Operation != admissionv1.Create {
		return nil
	}
	var spec authorizationv1.SubjectAccessReviewSpec
	switch r.Resource.Resource {
	case "subjectaccessreviews", "localsubjectaccessreviews":
		question := &authorizationv1.SubjectAccessReview{}
		if err := json.Unmarshal(r.Object.Raw, question); err != nil {
			return err
		}
		spec = question.Spec
	case "selfsubjectaccessreviews":
		question := &authorizationv1.SelfSubjectAccessReview{}
		if err := json.Unmarshal(r.Object.Raw, question); err != nil {
			return err
		}
		spec = authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: question.Spec.ResourceAttributes, NonResourceAttributes: question.Spec.NonResourceAttributes,
			User: caller.GetName(), Groups: caller.GetGroups(), UID: caller.GetUID(), Extra: map[string]authorizationv1.ExtraValue{}}
		for key, values := range caller.GetExtra() {
			spec.Extra[key] = values
		}
	default:
		return nil
	}
	asked, err := accessreview.Asked(&spec)
	if err != nil {
		return nil //nolint:nilerr // the server says so itself
	}
	ctx, _, err = d.pin(ctx)
	if err != nil {
		return err
	}
	if d.cfg.Gate.Decide(ctx, asked).Hangs() {
		return errors.New("the answer depends on the object, which a review of a stock server cannot say; subjectaccessreviews of authorization.proviso.dev can, and `proviso can-i` asks for them")
	}
	return nil
}

func callerOf(info *authenticationv1.UserInfo) user.Info {
	u := &user.DefaultInfo{Name: info.Username, UID: info.UID, Groups: info.Groups, Extra: map[string][]string{}}
	for key, values := range info.Extra {
		u.Extra[key] = values
	}
	return u
}

// attributes are one admission. Its objects are read on demand: most requests do not need them.
type attributes struct {
	admission.Attributes
	objects     admission.ObjectInterfaces
	object, old func() (runtime.Object, error)
	// err is that an object cannot be read. Whatever was decided then does not count.
	err error
}

func (d *Decider) attributes(r *admissionv1.AdmissionRequest, caller user.Info) (*attributes, error) {
	kind := schema.GroupVersionKind(r.Kind)
	options, err := optionsOf(r)
	if err != nil {
		return nil, err
	}
	a := &attributes{
		Attributes: admission.NewAttributesRecord(nil, nil, kind, r.Namespace, r.Name, schema.GroupVersionResource(r.Resource), r.SubResource,
			admission.Operation(r.Operation), options, r.DryRun != nil && *r.DryRun, caller),
		objects: d.cfg.Objects.Interfaces(kind),
		object:  sync.OnceValues(func() (runtime.Object, error) { return d.cfg.Objects.read(r.Object.Raw, kind) }),
		old:     sync.OnceValues(func() (runtime.Object, error) { return d.cfg.Objects.read(r.OldObject.Raw, kind) }),
	}
	if len(r.Object.Raw) == 0 && (r.Operation == admissionv1.Create || r.Operation == admissionv1.Update) || len(r.OldObject.Raw) == 0 && (r.Operation == admissionv1.Delete || r.Operation == admissionv1.Update) {
		return nil, errors.New("it has no object")
	}
	return a, nil
}

// GetObject implements admission.Attributes.
func (a *attributes) GetObject() runtime.Object { return a.get(a.object) }

// GetOldObject implements admission.Attributes.
func (a *attributes) GetOldObject() runtime.Object { return a.get(a.old) }

func (a *attributes) get(read func() (runtime.Object, error)) runtime.Object {
	object, err := read()
	if err != nil {
		a.err = err
		return nil
	}
	return object
}

// optionsOf are the options of the operation.
func optionsOf(r *admissionv1.AdmissionRequest) (runtime.Object, error) {
	var options runtime.Object
	switch r.Operation {
	case admissionv1.Create:
		options = &metav1.CreateOptions{}
	case admissionv1.Update:
		options = &metav1.UpdateOptions{}
	case admissionv1.Delete:
		options = &metav1.DeleteOptions{}
	default:
		return nil, nil
	}
	if raw := r.Options.Raw; len(raw) > 0 && string(raw) != "null" {
		if err := json.Unmarshal(raw, options); err != nil {
			return nil, fmt.Errorf("its options: %w", err)
		}
	}
	return options, nil
}
