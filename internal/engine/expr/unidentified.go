package expr

import (
	"reflect"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Unidentified is a user about whom not everything is known, as in questions
// about a user without a login, or about an unnamed member of a group: there
// may be other groups, a UID and extra, and the name may be unknown. Conditions
// that look at these stay open; values are never invented (TR-21).
type Unidentified struct {
	user.DefaultInfo
	// Nameless is set if the name is not known.
	Nameless bool
}

// gaps says what is not known about a request: something about its caller, the name of its caller, or the name of its
// object.
type gaps struct{ any, name, object bool }

// Unnamed returns the request with an object whose name is not known. Conditions that look at the name stay open, also
// where OfEach would look at each object.
func (r *Request) Unnamed() *Request {
	other := *r
	other.Name, other.gaps.object = "", true
	return &other
}

// Unidentified reports whether something about the caller is not known.
func (r *Request) Unidentified() bool { return r != nil && r.gaps.any }

// someGroups is a list of groups of which only some are known. It answers what the known ones settle; everything else
// is unknown.
type someGroups struct{ known []string }

var _ traits.Lister = someGroups{}

// Contains implements traits.Container.
func (g someGroups) Contains(value ref.Val) ref.Val {
	if name, ok := value.(types.String); ok && slices.Contains(g.known, string(name)) {
		return types.True
	}
	return unknown
}

// Iterator implements traits.Iterable: the known groups, and then one that stands for all others.
func (g someGroups) Iterator() traits.Iterator { return &groupsIterator{known: g.known} }

// Get implements traits.Indexer.
func (g someGroups) Get(ref.Val) ref.Val { return unknown }

// Size implements traits.Sizer.
func (g someGroups) Size() ref.Val { return unknown }

// Add implements traits.Adder.
func (g someGroups) Add(ref.Val) ref.Val { return unknown }

// Equal implements ref.Val.
func (g someGroups) Equal(ref.Val) ref.Val { return unknown }

// Type implements ref.Val.
func (g someGroups) Type() ref.Type { return types.ListType }

// Value implements ref.Val.
func (g someGroups) Value() any { return g.known }

// ConvertToType implements ref.Val.
func (g someGroups) ConvertToType(t ref.Type) ref.Val {
	if t == types.ListType {
		return g
	}
	return unknown
}

// ConvertToNative implements ref.Val.
func (g someGroups) ConvertToNative(t reflect.Type) (any, error) {
	return types.NewStringList(types.DefaultTypeAdapter, g.known).ConvertToNative(t)
}

type groupsIterator struct {
	known []string
	at    int
}

// HasNext implements traits.Iterator.
func (i *groupsIterator) HasNext() ref.Val { return types.Bool(i.at <= len(i.known)) }

// Next implements traits.Iterator.
func (i *groupsIterator) Next() ref.Val {
	i.at++
	if i.at <= len(i.known) {
		return types.String(i.known[i.at-1])
	}
	return unknown
}

// Equal, Type, Value and the conversions implement ref.Val.
func (i *groupsIterator) Equal(ref.Val) ref.Val                     { return unknown }
func (i *groupsIterator) Type() ref.Type                            { return types.IteratorType }
func (i *groupsIterator) Value() any                                { return nil }
func (i *groupsIterator) ConvertToType(ref.Type) ref.Val            { return unknown }
func (i *groupsIterator) ConvertToNative(reflect.Type) (any, error) { return nil, errNoCondition }
