package protectedattr

import (
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// node is a position inside an object: either decoded JSON or a Go struct. The zero node is absent.
type node struct {
	loose any
	typed reflect.Value
}

func (n node) absent() bool { return n.loose == nil && !n.typed.IsValid() }

// rootOf accepts what admission and webhooks have: nil, decoded JSON, an Unstructured, or a pointer to a struct with an
// embedded ObjectMeta.
func rootOf(obj any) (node, error) {
	switch o := obj.(type) {
	case nil:
		return node{}, nil
	case map[string]interface{}:
		if o == nil {
			return node{}, nil
		}
		return node{loose: o}, nil
	case *unstructured.Unstructured:
		if o == nil || o.Object == nil {
			return node{}, nil
		}
		return node{loose: o.Object}, nil
	}
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.Type().Elem().Kind() != reflect.Struct {
		return node{}, fmt.Errorf("object of type %T cannot be examined for labels and annotations", obj)
	}
	if v.IsNil() {
		return node{}, nil
	}
	return node{typed: v.Elem()}, nil
}

// follow descends by JSON names in decoded JSON and by field indexes in a struct. If a step is missing, the result is
// an absent node; a step of the wrong type is an error.
func (n node) follow(names []string, fields [][]int) (node, error) {
	if n.typed.IsValid() {
		v := n.typed
		for _, index := range fields {
			v = v.FieldByIndex(index)
			if v.Kind() == reflect.Pointer {
				if v.IsNil() {
					return node{}, nil
				}
				v = v.Elem()
			}
		}
		return node{typed: v}, nil
	}
	at := n.loose
	for i, name := range names {
		if at == nil {
			return node{}, nil
		}
		m, ok := at.(map[string]interface{})
		if !ok {
			return node{}, fmt.Errorf("%s is not an object", dotted(names[:i]))
		}
		at = m[name]
	}
	return node{loose: at}, nil
}

// length is the number of elements of a list node; an absent list is empty.
func (n node) length() (int, error) {
	switch {
	case n.typed.IsValid():
		return n.typed.Len(), nil
	case n.loose == nil:
		return 0, nil
	}
	list, ok := n.loose.([]interface{})
	if !ok {
		return 0, fmt.Errorf("value is not a list")
	}
	return len(list), nil
}

// at returns an element of a list node. i must be below length.
func (n node) at(i int) node {
	if n.typed.IsValid() {
		return node{typed: n.typed.Index(i)}
	}
	return node{loose: n.loose.([]interface{})[i]}
}

// text returns a string node's value; any other node reads as empty.
func (n node) text() string {
	if n.typed.IsValid() {
		if n.typed.Kind() == reflect.String {
			return n.typed.String()
		}
		return ""
	}
	s, _ := n.loose.(string)
	return s
}

// attributes are the labels or the annotations of one place. At most one of the maps is set.
type attributes struct {
	typed map[string]string
	loose map[string]interface{}
}

// value returns the value of a key. JSON null reads as the empty string, as it does when it is decoded into a map of
// strings; any other non-string is malformed.
func (a attributes) value(key string) (value string, present, malformed bool) {
	if v, ok := a.typed[key]; ok {
		return v, true, false
	}
	raw, ok := a.loose[key]
	if !ok {
		return "", false, false
	}
	switch v := raw.(type) {
	case string:
		return v, true, false
	case nil:
		return "", true, false
	}
	return "", true, true
}

func (a attributes) has(key string) bool {
	_, present, _ := a.value(key)
	return present
}

// metadata returns the labels and annotations of a carrier: meta is the index of its embedded ObjectMeta if it is a
// struct that has one.
func (n node) metadata(meta []int) (labels, annotations attributes, err error) {
	if n.absent() {
		return attributes{}, attributes{}, nil
	}
	if n.typed.IsValid() {
		if meta == nil {
			return attributes{}, attributes{}, nil
		}
		m, ok := n.typed.FieldByIndex(meta).Addr().Interface().(*metav1.ObjectMeta)
		if !ok {
			return attributes{}, attributes{}, fmt.Errorf("metadata of %s is not an ObjectMeta", n.typed.Type())
		}
		return attributes{typed: m.Labels}, attributes{typed: m.Annotations}, nil
	}
	carrier, ok := n.loose.(map[string]interface{})
	if !ok {
		return attributes{}, attributes{}, fmt.Errorf("what has the metadata is not an object")
	}
	raw := carrier["metadata"]
	if raw == nil {
		return attributes{}, attributes{}, nil
	}
	m, ok := raw.(map[string]interface{})
	if !ok {
		return attributes{}, attributes{}, fmt.Errorf("metadata is not an object")
	}
	if labels, err = looseAttributes(m, "labels"); err != nil {
		return attributes{}, attributes{}, err
	}
	annotations, err = looseAttributes(m, "annotations")
	return labels, annotations, err
}

func looseAttributes(metadata map[string]interface{}, name string) (attributes, error) {
	switch m := metadata[name].(type) {
	case nil:
		return attributes{}, nil
	case map[string]interface{}:
		return attributes{loose: m}, nil
	case map[string]string:
		return attributes{typed: m}, nil
	}
	return attributes{}, fmt.Errorf("metadata.%s is not a map", name)
}
