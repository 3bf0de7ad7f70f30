package policycodec

import (
	"encoding/json"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// StorageCodec returns the codec of stored objects: JSON, in their only version. It quarantines objects that it cannot
// read instead of failing: a list fails as a whole if one of its objects cannot be decoded, so one bad object would
// freeze every other, revocations included (SV-8).
//
// There is one, so that what was decoded for one purpose is known for the next.
func StorageCodec() runtime.Codec { return theStorageCodec() }

var theStorageCodec = sync.OnceValue(func() storageCodec {
	return storageCodec{Codec: Codecs.LegacyCodec(GroupVersions()...), memory: newMemory()}
})

type storageCodec struct {
	runtime.Codec
	memory *memory
}

// Decode reads a stored object. An object that a newer version has stored, or that does not have the shape of its kind,
// is returned marked and reduced to what is safe. It only fails if the bytes do not even contain kind and name.
func (c storageCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if defaults == nil {
		if known := c.memory.recall(data); known != nil {
			if obj, ok := given(known.object.DeepCopyObject(), into); ok {
				kind := known.kind
				return obj, &kind, nil
			}
		}
	}
	obj, gvk, err := c.read(data, defaults, into)
	if err == nil && defaults == nil && gvk != nil {
		c.memory.keep(data, obj.DeepCopyObject(), *gvk)
	}
	return obj, gvk, err
}

// Peek is Decode for a caller that only reads: the object may be shared.
func (c storageCodec) Peek(data []byte) (runtime.Object, error) {
	if known := c.memory.recall(data); known != nil {
		return known.object, nil
	}
	obj, gvk, err := c.read(data, nil, nil)
	if err == nil && gvk != nil {
		c.memory.keep(data, obj, *gvk)
	}
	return obj, err
}

func (c storageCodec) read(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	obj, gvk, err := c.Codec.Decode(data, defaults, into)
	if err == nil {
		harmless, why := unknownParts(data, obj)
		if err = why; err == nil {
			readRules(obj, harmless)
			return obj, gvk, nil
		}
	}
	saved, kind, ok := salvage(data, err)
	if !ok {
		return obj, gvk, err
	}
	if saved, ok = given(saved, into); !ok {
		return obj, gvk, err
	}
	return saved, &kind, nil
}

// given returns the object, copied into the target if that has its type.
func given(object, into runtime.Object) (runtime.Object, bool) {
	if into == nil {
		return object, true
	}
	to, from := reflect.ValueOf(into), reflect.ValueOf(object)
	if to.Type() != from.Type() {
		return object, false
	}
	to.Elem().Set(from.Elem())
	return into, true
}

// readRules removes from the rules what their writer lists as harmless, and what only the server records in a rule.
func readRules(obj runtime.Object, harmless paths) {
	p, ok := obj.(*policy.Policy)
	if !ok {
		return
	}
	harmless.ignore(p)
	for _, role := range p.Roles {
		for i := range role.Rules {
			disown(&role.Rules[i])
		}
	}
}

// claimedField stands for a field of a stored rule that only the server adds to rules. It counts as unknown like any
// other.
const claimedField = "claimed"

// disown removes from a stored rule what only the server records in rules.
func disown(rule *policy.PolicyRule) {
	for _, name := range []string{policy.UnreadableField, policy.QuarantinedField} {
		if value, claimed := rule.Unrecognized[name]; claimed {
			delete(rule.Unrecognized, name)
			rule.Unrecognized[claimedField] = value
		}
	}
}

// parts are the values of a JSON object by key, with every value of a duplicate key.
type parts map[string][]json.RawMessage

func (p *parts) UnmarshalJSON(data []byte) error {
	once := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &once); err != nil { // also checks the syntax
		return err
	}
	*p = make(parts, len(once))
	decoder := json.NewDecoder(newReader(data))
	if _, err := decoder.Token(); err != nil {
		return err
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return err
		}
		name, _ := key.(string)
		(*p)[name] = append((*p)[name], value)
	}
	return nil
}

// one decodes the only value of a key. It returns false if there are several values or the value has another type; a
// missing key is fine and leaves the target unchanged.
func (p parts) one(key string, target any) bool {
	switch values := p[key]; len(values) {
	case 0:
		return true
	case 1:
		return json.Unmarshal(values[0], target) == nil
	}
	return false
}
