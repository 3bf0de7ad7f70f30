package compare

import (
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

// variables are the shapes of all that an expression can name.
func (u Universe) variables() map[string]*Shape {
	list := &Shape{Type: List, Always: true, Elem: aString()}
	requestFields := map[string]*Shape{"groups": list, "extra": {Type: Map, Always: true, Elem: list}, "fieldSelector": {Type: Opaque, Always: true}, "labelSelector": {Type: Opaque, Always: true}}
	for _, name := range []string{"user", "uid", "verb", "apiGroup", "apiVersion", "resource", "subresource", "namespace", "name"} {
		requestFields[name] = aString()
	}
	impersonated := map[string]*Shape{}
	for _, name := range []string{"verb", "apiGroup", "apiVersion", "resource", "subresource", "namespace", "name"} {
		impersonated[name] = aString()
	}
	texts := &Shape{Type: Map, Full: true, Elem: aString()}
	namespace := fields(map[string]*Shape{"metadata": fields(map[string]*Shape{"name": aString(), "labels": texts, "annotations": texts}),
		"spec": {Type: Any, Null: true}, "status": {Type: Any, Null: true}})
	all := map[string]*Shape{"operation": aString(), "request": fields(requestFields), "impersonatedRequest": fields(impersonated), "namespaceObject": namespace,
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
