package policyreview

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/questions"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/state/snapshot"
)

// content is the object in a question: the object on create, the stored object on get and delete, both on
// update. The stored object itself is never read.
type content struct {
	reviewer  *Reviewer
	served    *snapshot.Served
	attrs     authorizer.AttributesRecord
	operation admission.Operation
	object    *unstructured.Unstructured
	kind      schema.GroupVersionKind
	own       bool
	// old is the stored object of an update if the question tells it from the new one; otherwise they are the same.
	old *content
}

// operationGet is what conditions see as the operation of a get: object and oldObject are the state that is read
// (RD-4).
const operationGet admission.Operation = "GET"

// contentOf reads the content and refuses what could not be the object of the request: an answer about something else
// would be final, and wrong. What the request would take from the object, its name, goes into the attributes.
func (r *Reviewer) contentOf(served *snapshot.Served, attrs *authorizer.AttributesRecord, spec authz.SubjectAccessReviewSpec) (*content, error) {
	c := &content{reviewer: r, served: served, object: &unstructured.Unstructured{}}
	switch verb := spec.Verb; {
	case verb == verbs.Create:
		c.operation = admission.Create
	case verbs.Updates(verb):
		c.operation = admission.Update
	case verbs.Deletes(verb):
		c.operation = admission.Delete
	case verb == verbs.Get:
		c.operation = operationGet
	default:
		return nil, fmt.Errorf("verb %q has no object: leave content out, or ask about get, create, update, patch, delete or deletecollection", spec.Verb)
	}
	if attrs.APIGroup == "" && connect.Connects(attrs.Subresource) {
		return nil, fmt.Errorf("%s/%s has options and no object: leave content out", attrs.Resource, attrs.Subresource)
	}
	if err := r.Gate.Unseen(*attrs); err != nil {
		return nil, fmt.Errorf("no condition is evaluated on such a request: %w: leave content out", err)
	}
	if err := utiljson.Unmarshal(spec.Content.Raw, &c.object.Object); err != nil || c.object.Object == nil {
		return nil, errors.New("not an object: want what kubectl get -o yaml shows")
	}
	if err := c.identify(attrs); err != nil {
		return nil, err
	}
	c.attrs = *attrs
	if err := c.withOld(spec.OldContent); err != nil {
		return nil, err
	}
	// Whatever cannot be read or converted at all is said now. A version that only one rule asks for fails that rule.
	if _, err := c.convert(""); err != nil {
		return nil, err
	}
	return c, nil
}

// withOld adds the stored object of an update.
func (c *content) withOld(raw *runtime.RawExtension) error {
	if raw == nil {
		return nil
	}
	if c.operation != admission.Update {
		return fmt.Errorf("oldContent: only update and patch have an old and a new object; leave it out for %s", c.attrs.Verb)
	}
	old := &content{reviewer: c.reviewer, served: c.served, operation: c.operation, object: &unstructured.Unstructured{}}
	if err := utiljson.Unmarshal(raw.Raw, &old.object.Object); err != nil || old.object.Object == nil {
		return errors.New("oldContent is not an object: want what kubectl get -o yaml shows")
	}
	attrs := c.attrs
	if err := old.identify(&attrs); err != nil {
		return fmt.Errorf("oldContent %w", err)
	}
	if old.kind.GroupKind() != c.kind.GroupKind() {
		return fmt.Errorf("oldContent is %s, but content is %s", old.kind.GroupKind(), c.kind.GroupKind())
	}
	if _, err := old.convert(""); err != nil {
		return fmt.Errorf("oldContent %w", err)
	}
	c.old = old
	return nil
}

// identify checks that the content is what the request would have as its body.
func (c *content) identify(attrs *authorizer.AttributesRecord) error {
	resource := schema.GroupResource{Group: attrs.APIGroup, Resource: attrs.Resource}
	own := schema.GroupKind{Group: resource.Group, Kind: c.served.OwnKind(resource)}
	if c.object.GetKind() == "" && c.object.GetAPIVersion() == "" {
		// There is only one thing that it can be, in the version that conditions see.
		c.object.SetGroupVersionKind(own.WithVersion(c.served.PreferredVersion(own)))
	}
	c.kind = c.object.GroupVersionKind()
	if c.kind.Kind == "" || c.kind.Version == "" {
		return fmt.Errorf("apiVersion or kind is missing: %s are %s", resource, own)
	}
	c.own = c.kind.GroupKind() == own
	switch sub := attrs.Subresource; {
	case c.own && (sub == "" || c.operation == operationGet || c.served.OwnKind(subresource(resource, sub)) == own.Kind):
	case sub == "":
		return fmt.Errorf("is %s, but %s are %s", c.kind.GroupKind(), resource, own)
	default:
		want := c.served.OwnKind(subresource(resource, sub))
		if want == "" || want != c.kind.Kind {
			return fmt.Errorf("is %s, but %s/%s takes %q", c.kind.GroupKind(), resource, sub, want)
		}
	}
	asked := questions.Target{Verb: attrs.Verb, Resource: attrs.Resource, Subresource: attrs.Subresource, Namespace: attrs.Namespace}
	switch ns := c.object.GetNamespace(); {
	case ns == "" && asked.IsNamespace(): // it is in no namespace, although the request is
	case ns == "" && attrs.Namespace != "":
		c.object.SetNamespace(attrs.Namespace)
	case ns != attrs.Namespace && attrs.Namespace == "":
		return fmt.Errorf("metadata.namespace is %q, but the question is about the whole cluster: create the review in that namespace", ns)
	case ns != attrs.Namespace:
		return fmt.Errorf("metadata.namespace is %q, but the question is about namespace %q", ns, attrs.Namespace)
	}
	name := c.object.GetName()
	switch {
	case attrs.Name == "" && attrs.Verb != "create" && attrs.Verb != "deletecollection":
		if name == "" {
			return fmt.Errorf("metadata.name is missing: %s needs the name of the object", attrs.Verb)
		}
		attrs.Name, asked.Name = name, name
		attrs.Namespace = asked.InNamespace()
	case attrs.Name != "" && name == "" && attrs.Subresource == "":
		c.object.SetName(attrs.Name)
	case attrs.Name != "" && name != attrs.Name:
		return fmt.Errorf("metadata.name is %q, but spec.resourceName is %q", name, attrs.Name)
	}
	return nil
}

// data is the content as conditions see it. Every evaluation gets its own, with a separate budget.
func (c *content) data() authorize.Facts {
	var newObject, oldObject runtime.Object
	if c.operation != admission.Delete {
		newObject = c.object
	}
	if c.operation != admission.Create {
		oldObject = c.object
		if c.old != nil {
			oldObject = c.old.object
		}
	}
	cfg := expr.DataConfig{Operation: string(c.operation), Objects: c, OwnKind: c.own}
	if connect.Of(c.attrs.APIGroup, c.attrs.Resource, c.attrs.Subresource) != connect.None {
		cfg.Target = expr.Reached{Err: expr.ErrNotKnown}
	}
	if name := c.attrs.Namespace; name != "" && c.reviewer.Namespaces != nil {
		cfg.Namespace = func() (runtime.Object, error) { return c.reviewer.Namespaces.Namespace(name) }
	}
	return facts{
		admission.NewAttributesRecord(newObject, oldObject, c.kind, c.attrs.Namespace, c.attrs.Name,
			schema.GroupVersionResource{Group: c.attrs.APIGroup, Version: c.attrs.APIVersion, Resource: c.attrs.Resource},
			c.attrs.Subresource, c.operation, nil, false, c.attrs.User),
		expr.NewData(cfg),
	}
}

// Object is the new object in the version that a condition is written for: its own, or the one that conditions see.
func (c *content) Object(apiVersion string) (runtime.Object, error) {
	if c.operation == admission.Delete {
		return nil, nil
	}
	return c.convert(apiVersion)
}

// OldObject is the stored one.
func (c *content) OldObject(apiVersion string) (runtime.Object, error) {
	switch {
	case c.operation == admission.Create:
		return nil, nil
	case c.old != nil:
		return c.old.convert(apiVersion)
	}
	return c.convert(apiVersion)
}

func (c *content) convert(apiVersion string) (runtime.Object, error) {
	kind, err := c.served.Seen(c.kind, apiVersion)
	if err != nil {
		return nil, err
	}
	to := kind.GroupVersion()
	switch {
	case c.reviewer.Converter != nil:
		return c.reviewer.Converter.ConvertContent(c.object, to)
	case to == c.kind.GroupVersion():
		return c.object, nil
	}
	return nil, fmt.Errorf("is in version %s, and conditions see %s: send it in that version", c.kind.Version, to)
}

type facts struct {
	admission.Attributes
	data *expr.Data
}

func (f facts) Expr() *expr.Data { return f.data }
func (f facts) Trusted() error   { return nil }
