package expr

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// requestValue is a Request as a CEL map. It is a view: nothing is copied until a field is read, and the request stays
// immutable, so it can be read concurrently.
type requestValue Request

var requestFields = []string{
	"user", "uid", "groups", "extra", "verb", "apiGroup", "apiVersion", "resource", "subresource",
	"namespace", "name", "time", "fieldSelector", "labelSelector",
}

func (r *requestValue) find(name string) (ref.Val, bool) {
	switch name {
	case "user", "uid", "groups", "extra":
		return r.caller(name), true
	case "userInfo": // another spelling, so it is not part of the whole
		return types.NewRefValMap(types.DefaultTypeAdapter, map[ref.Val]ref.Val{
			types.String("username"): r.caller("user"), types.String("uid"): r.caller("uid"),
			types.String("groups"): r.caller("groups"), types.String("extra"): r.caller("extra"),
		}), true
	case "name": // see OfEach for a request without a name
		if r.gaps.object {
			return unknown, true
		}
		return types.String(r.Name), true
	case "time":
		if r.Time.IsZero() {
			return unknown, true
		}
		return types.Timestamp{Time: r.Time}, true
	case "fieldSelector":
		return selectorValue(fieldRequirements(r.FieldSelector)), true
	case "labelSelector":
		return selectorValue(labelRequirements(r.LabelSelector)), true
	}
	return (*impersonatedValue)(r).find(name)
}

// caller returns an attribute of the user, which may be unknown.
func (r *requestValue) caller(name string) ref.Val {
	switch {
	case name == "user" && r.gaps.name, (name == "uid" || name == "extra") && r.gaps.any:
		return unknown
	case name == "user":
		return types.String(r.User)
	case name == "uid":
		return types.String(r.UID)
	case name == "extra":
		return extraValue(r.Extra)
	case r.gaps.any:
		return someGroups{r.Groups}
	}
	return types.NewStringList(types.DefaultTypeAdapter, r.Groups)
}

// impersonatedValue is the part of a Request that `impersonatedRequest` shows. If the request is about objects but does
// not name one, it has no name: the objects are not known yet, and an expression that asks for their name fails
// (PO-20).
type impersonatedValue Request

var impersonatedFields = []string{"verb", "apiGroup", "apiVersion", "resource", "subresource", "namespace", "name"}

func (r *impersonatedValue) find(name string) (ref.Val, bool) {
	switch name {
	case "verb":
		return types.String(r.Verb), true
	case "apiGroup":
		return types.String(r.APIGroup), true
	case "apiVersion":
		return types.String(r.APIVersion), true
	case "resource":
		return types.String(r.Resource), true
	case "subresource":
		return types.String(r.Subresource), true
	case "namespace":
		return types.String(r.Namespace), true
	case "name":
		if r.Name == "" && r.Resource != "" {
			return nil, false
		}
		return types.String(r.Name), true
	}
	return nil, false
}

// extraValue returns a map of lists, also when the user has no extra.
func extraValue(extra map[string][]string) ref.Val {
	m := make(map[string]any, len(extra))
	for k, v := range extra {
		m[k] = v
	}
	return types.NewStringInterfaceMap(types.DefaultTypeAdapter, m)
}

func selectorValue(requirements []any) ref.Val {
	return types.NewStringInterfaceMap(types.DefaultTypeAdapter, map[string]any{"requirements": requirements})
}

// fieldRequirements spells the operators as SubjectAccessReview does.
func fieldRequirements(rs fields.Requirements) []any {
	out := make([]any, 0, len(rs))
	for _, r := range rs {
		op := "In"
		if r.Operator == selection.NotEquals {
			op = "NotIn"
		}
		out = append(out, requirement(r.Field, op, []string{r.Value}))
	}
	return out
}

func labelRequirements(rs labels.Requirements) []any {
	out := make([]any, 0, len(rs))
	for _, r := range rs {
		var op string
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			op = "In"
		case selection.NotEquals, selection.NotIn:
			op = "NotIn"
		case selection.Exists:
			op = "Exists"
		case selection.DoesNotExist:
			op = "DoesNotExist"
		case selection.GreaterThan:
			op = "Gt"
		case selection.LessThan:
			op = "Lt"
		}
		out = append(out, requirement(r.Key(), op, r.ValuesUnsorted()))
	}
	return out
}

func requirement(key, op string, values []string) map[string]any {
	if values == nil {
		values = []string{}
	}
	return map[string]any{"key": key, "operator": op, "values": values}
}

// asMap returns the whole as an ordinary CEL map, for the rare expression that uses it as a value instead of selecting
// a field.
func asMap(names []string, find func(string) (ref.Val, bool)) traits.Mapper {
	m := make(map[ref.Val]ref.Val, len(names))
	for _, n := range names {
		if v, ok := find(n); ok {
			m[types.String(n)] = v
		}
	}
	return types.NewRefValMap(types.DefaultTypeAdapter, m)
}

func (r *requestValue) all() traits.Mapper      { return asMap(requestFields, r.find) }
func (r *impersonatedValue) all() traits.Mapper { return asMap(impersonatedFields, r.find) }

// The rest makes both of them CEL maps.

func findField(key ref.Val, find func(string) (ref.Val, bool)) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), false
	}
	return find(string(name))
}

func getField(key ref.Val, find func(string) (ref.Val, bool)) ref.Val {
	v, ok := findField(key, find)
	if ok || v != nil {
		return v
	}
	return types.WrapErr(fmt.Errorf("no such key: %v", key))
}

func (r *requestValue) Find(key ref.Val) (ref.Val, bool) { return findField(key, r.find) }
func (r *requestValue) Get(key ref.Val) ref.Val          { return getField(key, r.find) }
func (r *requestValue) Contains(key ref.Val) ref.Val     { return r.all().Contains(key) }
func (r *requestValue) Iterator() traits.Iterator        { return r.all().Iterator() }
func (r *requestValue) Size() ref.Val                    { return types.Int(len(requestFields)) }
func (r *requestValue) Equal(other ref.Val) ref.Val      { return r.all().Equal(other) }
func (r *requestValue) Type() ref.Type                   { return types.MapType }
func (r *requestValue) Value() any                       { return r.all().Value() }
func (r *requestValue) ConvertToType(t ref.Type) ref.Val { return r.all().ConvertToType(t) }
func (r *requestValue) ConvertToNative(t reflect.Type) (any, error) {
	return r.all().ConvertToNative(t)
}

func (r *impersonatedValue) Find(key ref.Val) (ref.Val, bool) { return findField(key, r.find) }
func (r *impersonatedValue) Get(key ref.Val) ref.Val          { return getField(key, r.find) }
func (r *impersonatedValue) Contains(key ref.Val) ref.Val     { return r.all().Contains(key) }
func (r *impersonatedValue) Iterator() traits.Iterator        { return r.all().Iterator() }
func (r *impersonatedValue) Size() ref.Val                    { return r.all().Size() }
func (r *impersonatedValue) Equal(other ref.Val) ref.Val      { return r.all().Equal(other) }
func (r *impersonatedValue) Type() ref.Type                   { return types.MapType }
func (r *impersonatedValue) Value() any                       { return r.all().Value() }
func (r *impersonatedValue) ConvertToType(t ref.Type) ref.Val { return r.all().ConvertToType(t) }
func (r *impersonatedValue) ConvertToNative(t reflect.Type) (any, error) {
	return r.all().ConvertToNative(t)
}
