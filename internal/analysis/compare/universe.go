package compare

import (
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"proviso.dev/proviso/internal/engine/expr"
)

// Universe is the requests and objects among which accesses are compared.
type Universe struct {
	// Operation is CREATE, UPDATE, DELETE or CONNECT.
	Operation string
	// Object and OldObject are the shapes of the new and the stored object; nil means that there is none.
	Object, OldObject *Shape
	// OwnKind is true if they are of the resource's own kind.
	OwnKind bool
	// Options is the shape of the options; nil means that nothing is known of them.
	Options *Shape
	// Namespaced is true if there is a namespace.
	Namespaced bool
	// Impersonated is true if there is an impersonated request.
	Impersonated bool
	// Connects is true if there is a target of a connection. Target is its shape; nil means that nothing is known about
	// it.
	Connects bool
	Target   *Shape
	// Known are paths with a fixed value, such as request.verb.
	Known map[string]any
	// Valid reports whether an object conforms to the parts of its schema that a shape does not say; nil if there are
	// none.
	Valid func(object map[string]any) bool
}

// like is a request of the universe, as far as it is known what they are for.
func (u Universe) like() *expr.Request {
	text := func(field string) string {
		known, _ := u.Known["request."+field].(string)
		return known
	}
	return &expr.Request{Verb: text("verb"), APIGroup: text("apiGroup"), Resource: text("resource"), Subresource: text("subresource")}
}

// Of is the universe of an operation on objects of one shape.
func Of(operation string, shape *Shape) Universe {
	u := Universe{Operation: operation, OwnKind: true, Known: map[string]any{}}
	if operation == "CREATE" || operation == "UPDATE" {
		u.Object = shape
	}
	if operation == "UPDATE" || operation == "DELETE" {
		u.OldObject = shape
	}
	return u
}

var variableNames = []string{"operation", "request", "impersonatedRequest", "namespaceObject", "target", "options", "oldObject", "object"}

func aString() *Shape { return &Shape{Type: String, Always: true} }

func fields(all map[string]*Shape) *Shape { return &Shape{Type: Object, Always: true, Fields: all} }

func (u Universe) complete() Universe {
	known := map[string]any{"operation": u.Operation}
	for path, value := range u.Known {
		known[path] = value
	}
	if u.Object == nil {
		known["object"] = nil
	}
	if u.OldObject == nil {
		known["oldObject"] = nil
	}
	if !u.Namespaced {
		known["namespaceObject"] = nil
	}
	if !u.Impersonated {
		known["impersonatedRequest"] = nil
	}
	if !u.Connects {
		known["target"] = nil
	}
	u.Known = known
	return u
}

// The shapes of what every expression can name. Those of requests come from the declared types, so a field that is
// added there is known here.
var (
	requestShape = sync.OnceValue(func() *Shape {
		shape := declared(expr.RequestType())
		shape.Fields["time"].Enum = instants
		// A witness has no selectors.
		shape.Fields["fieldSelector"].unseen()
		shape.Fields["labelSelector"].unseen()
		return shape
	})
	impersonatedShape = sync.OnceValue(func() *Shape { return declared(expr.ImpersonatedType()) })
	namespaceShape    = sync.OnceValue(func() *Shape {
		shape := FromGo(reflect.TypeFor[corev1.Namespace]()).Stored()
		shape.Always = true
		return shape
	})
)

// instants are samples of the time of a request: working hours, a night, a weekend, another year.
var instants = []any{"2030-01-02T12:00:00Z", "2030-01-03T03:00:00Z", "2030-01-05T12:00:00Z", "2020-07-01T09:30:00Z", "2100-11-30T20:15:00Z"}

// declared is the shape of a declared type whose fields are all present.
func declared(t *apiservercel.DeclType) *Shape {
	switch {
	case t.IsObject():
		all := map[string]*Shape{}
		for name, field := range t.Fields {
			all[name] = declared(field.Type)
		}
		return fields(all)
	case t.IsMap():
		return &Shape{Type: Map, Always: true, Elem: declared(t.ElemType)}
	case t.IsList():
		return &Shape{Type: List, Always: true, Elem: declared(t.ElemType)}
	case t == apiservercel.StringType:
		return aString()
	}
	return &Shape{Type: Opaque, Always: true}
}

// variables are the shapes of all that an expression can name.
func (u Universe) variables() map[string]*Shape {
	all := map[string]*Shape{"operation": aString(), "request": requestShape(), "impersonatedRequest": impersonatedShape(), "namespaceObject": namespaceShape(),
		"options": u.Options, "object": u.Object, "oldObject": u.OldObject, "target": u.Target}
	for _, name := range []string{"options", "object", "oldObject", "target"} {
		if all[name] == nil {
			all[name] = &Shape{Type: Any, Always: true, Fields: map[string]*Shape{}}
			continue
		}
		whole := *all[name]
		whole.Always, whole.Null, whole.Full = true, false, false
		all[name] = &whole
	}
	return all
}

// Witness is a request with its objects.
type Witness struct {
	Request           *expr.Request
	Object, OldObject map[string]any
	Options           map[string]any
	Target            map[string]any
	Impersonated      *expr.Request
	Namespace         map[string]any
}
