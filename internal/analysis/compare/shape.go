package compare

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// Type is what values a shape has.
type Type uint8

const (
	// Any is a value of which nothing is known.
	Any Type = iota
	// Object has named fields, Map has keys, List has elements.
	Object
	Map
	List
	String
	Int
	Number
	Bool
	// Opaque is a text or number with its own format: a quantity, a date.
	Opaque
)

// Shape is what is known about a value: the structural schema of a kind, or a part of it.
type Shape struct {
	Type   Type
	Fields map[string]*Shape // of an Object
	Elem   *Shape            // of a Map or List
	Always bool              // it is never absent
	Needed bool              // the author of the object must write it
	Null   bool              // it may be null
	Full   bool              // it is never empty: an empty one is absent
	Enum   []any             // all that there is, if it is not empty
	Loose  bool              // there are more constraints than a shape can say: patterns, ranges, validation rules
	Unseen bool              // a witness does not have it: whatever its value is, an atom may be true or false
}

// unseen marks a shape and all within it.
func (s *Shape) unseen() {
	s.Unseen = true
	for _, field := range s.Fields {
		field.unseen()
	}
	if s.Elem != nil {
		s.Elem.unseen()
	}
}

// Sub is the shape of a field or key; nil if there is none.
func (s *Shape) Sub(name string) *Shape {
	if sub := s.Fields[name]; sub != nil {
		return sub
	}
	switch s.Type {
	case Map:
		return s.Elem
	case Any:
		return &Shape{Null: true}
	}
	return nil
}

// Stored is the shape of an object that there is: it has a name.
func (s *Shape) Stored() *Shape { return s.having("name") }

// Placed is the shape of an object of a namespaced resource: it has a namespace, whether the request says so or not.
func (s *Shape) Placed() *Shape { return s.having("namespace") }

// having is the shape with a field of the metadata that is never absent or empty.
func (s *Shape) having(field string) *Shape {
	meta := s.Fields["metadata"]
	if meta == nil || meta.Fields[field] == nil {
		return s
	}
	whole, inside, one := *s, *meta, *meta.Fields[field]
	one.Always, one.Full, inside.Always = true, true, true
	inside.Fields, whole.Fields = maps.Clone(inside.Fields), maps.Clone(whole.Fields)
	inside.Fields[field], whole.Fields["metadata"] = &one, &inside
	return &whole
}

// Unknown is the shape of a kind of which only the metadata is known.
func Unknown() *Shape {
	meta := FromGo(reflect.TypeOf(metav1.ObjectMeta{}))
	meta.Always = true
	return &Shape{Type: Any, Always: true, Fields: map[string]*Shape{"metadata": meta}}
}

// FromGo is the shape of a Go type, as it looks in JSON.
func FromGo(t reflect.Type) *Shape { return (&goShapes{seen: map[reflect.Type]int{}}).of(t) }

// goShapes ends recursive types after a few rounds.
type goShapes struct{ seen map[reflect.Type]int }

const maxRecursion = 2

func (g *goShapes) of(t reflect.Type) *Shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler) {
		if typed, ok := reflect.Zero(t).Interface().(interface{ OpenAPISchemaType() []string }); ok && slices.Equal(typed.OpenAPISchemaType(), []string{"string"}) {
			return &Shape{Type: Opaque}
		}
		return &Shape{Null: true} // it may be an object, as raw extensions are
	}
	switch t.Kind() {
	case reflect.String:
		return &Shape{Type: String}
	case reflect.Bool:
		return &Shape{Type: Bool}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &Shape{Type: Int}
	case reflect.Float32, reflect.Float64:
		return &Shape{Type: Number}
	case reflect.Map:
		return &Shape{Type: Map, Elem: g.of(t.Elem())}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return &Shape{Type: Opaque} // base64
		}
		return &Shape{Type: List, Elem: g.of(t.Elem())}
	case reflect.Struct:
		if g.seen[t] >= maxRecursion {
			return &Shape{Type: Any, Null: true}
		}
		g.seen[t]++
		s := &Shape{Type: Object, Fields: map[string]*Shape{}}
		g.fields(t, s)
		g.seen[t]--
		return s
	}
	return &Shape{Type: Any, Null: true}
}

var marshaler = reflect.TypeFor[interface{ MarshalJSON() ([]byte, error) }]()

func (g *goShapes) fields(t reflect.Type, s *Shape) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		if f.Anonymous && (name == "" || strings.Contains(options, "inline")) {
			embedded := f.Type
			for embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			g.fields(embedded, s)
			continue
		}
		if name == "" {
			name = f.Name
		}
		sub := *g.of(f.Type)
		omit := slices.Contains(strings.Split(options, ","), "omitempty")
		switch k := f.Type.Kind(); {
		case k == reflect.Struct && !strings.Contains(options, "omitzero") && sub.Type == Object:
			sub.Always = true // an empty struct is written
		case k == reflect.Pointer || k == reflect.Interface:
			sub.Null = !omit
			sub.Always = !omit
		case k == reflect.Slice || k == reflect.Map:
			sub.Null, sub.Always, sub.Full = !omit, !omit, omit
		case omit:
			sub.Full = sub.Type != Object && sub.Type != Opaque
		default:
			sub.Always = sub.Type != Opaque
			sub.Null = sub.Type == Opaque
		}
		s.Fields[name] = &sub
	}
}

// FromSchema is the shape of a custom resource.
func FromSchema(schema *apiextensionsv1.JSONSchemaProps) *Shape {
	if schema == nil {
		return Unknown()
	}
	s := fromSchema(schema)
	s.Always = true
	s.embed()
	s.Fields["metadata"].Always = true
	return s
}

// embed gives a shape the fields of every object of the API. The schema may say more about them, but not that there are
// fewer.
func (s *Shape) embed() {
	if s.Fields == nil {
		s.Fields = map[string]*Shape{}
	}
	root := FromGo(reflect.TypeFor[struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ObjectMeta
	}]())
	for _, name := range []string{"apiVersion", "kind"} {
		s.Fields[name] = root.Fields[name]
	}
	meta := FromGo(reflect.TypeFor[metav1.ObjectMeta]())
	if said := s.Fields["metadata"]; said != nil {
		meta.Needed, meta.Loose = said.Needed, said.Loose
		meta.Always = said.Always
	}
	s.Fields["metadata"] = meta
}

func fromSchema(schema *apiextensionsv1.JSONSchemaProps) *Shape {
	s := &Shape{Null: schema.Nullable, Loose: constrained(schema)}
	preserve := schema.XPreserveUnknownFields != nil && *schema.XPreserveUnknownFields
	switch {
	case schema.XIntOrString, preserve:
		s.Type, s.Null = Any, true
	case schema.Type == "object" && schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
		s.Type, s.Elem = Map, fromSchema(schema.AdditionalProperties.Schema)
	case schema.Type == "object" && schema.AdditionalProperties != nil && schema.AdditionalProperties.Allows:
		s.Type, s.Elem = Map, &Shape{Null: true}
	case schema.Type == "object":
		s.Type, s.Fields = Object, map[string]*Shape{}
		for name := range schema.Properties {
			property := schema.Properties[name]
			sub := fromSchema(&property)
			sub.Needed = slices.Contains(schema.Required, name) && property.Default == nil
			sub.Always = sub.Needed || property.Default != nil
			s.Fields[name] = sub
		}
		if schema.XEmbeddedResource {
			s.embed()
		}
	case schema.Type == "array" && schema.Items != nil && schema.Items.Schema != nil:
		s.Type, s.Elem = List, fromSchema(schema.Items.Schema)
	case schema.Type == "string" && schema.Format != "":
		s.Type = Opaque
	case schema.Type == "string":
		s.Type = String
	case schema.Type == "integer":
		s.Type = Int
	case schema.Type == "number":
		s.Type = Number
	case schema.Type == "boolean":
		s.Type = Bool
	default:
		s.Type, s.Null = Any, true
	}
	for _, raw := range schema.Enum {
		var value any
		if json.Unmarshal(raw.Raw, &value) == nil {
			s.Enum = append(s.Enum, value)
		}
	}
	return s
}

// constrained reports whether a schema says more than its shape.
func constrained(p *apiextensionsv1.JSONSchemaProps) bool {
	return p.Pattern != "" || p.Minimum != nil || p.Maximum != nil || p.MinLength != nil || p.MaxLength != nil || p.MinItems != nil || p.MaxItems != nil ||
		p.MinProperties != nil || p.MaxProperties != nil || p.MultipleOf != nil || p.UniqueItems || len(p.AllOf)+len(p.AnyOf)+len(p.OneOf) > 0 || p.Not != nil ||
		len(p.XValidations) > 0 || p.XListType != nil && *p.XListType != "atomic"
}
