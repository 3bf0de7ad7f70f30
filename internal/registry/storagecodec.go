package registry

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// StorageCodec is what the groups are stored with: JSON, in their only version. What it cannot read as such it quarantines
// instead of failing: a list fails as a whole if one of its objects cannot be decoded, so that one bad object would freeze
// every other, revocations included (SV-8).
func StorageCodec() runtime.Codec {
	return storageCodec{Codec: Codecs.LegacyCodec(GroupVersions()...)}
}

type storageCodec struct {
	runtime.Codec
}

// Decode reads a stored object. An object that a newer version has stored, or that does not have the shape of its kind, comes
// back marked and reduced to what is safe to know about it. Only what does not even tell its kind and name is an error.
func (c storageCodec) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	obj, gvk, err := c.Codec.Decode(data, defaults, into)
	if err == nil {
		if err = unknownParts(data, obj); err == nil {
			readRules(obj)
			return obj, gvk, nil
		}
	}
	saved, kind, ok := salvage(data, err)
	if !ok {
		return obj, gvk, err
	}
	if into == nil {
		return saved, &kind, nil
	}
	to, from := reflect.ValueOf(into), reflect.ValueOf(saved)
	if to.Type() != from.Type() {
		return obj, gvk, err
	}
	to.Elem().Set(from.Elem())
	return into, &kind, nil
}

// readRules makes deny rules of those that spell it in another case: by what else they say they would be allow rules that grant
// nothing.
func readRules(obj runtime.Object) {
	p, ok := obj.(*policy.Policy)
	if !ok {
		return
	}
	for _, role := range p.Roles {
		for i := range role.Rules {
			if _, claimed := role.Rules[i].Unrecognized[policy.UnreadableField]; claimed { // only the server says that
				delete(role.Rules[i].Unrecognized, policy.UnreadableField)
				quarantineRule(&role.Rules[i], unknownField(policy.UnreadableField).Error())
			}
			for key, value := range role.Rules[i].Unrecognized {
				if text := string(value.Raw); strings.EqualFold(key, "deny") && text != "false" && text != "null" {
					role.Rules[i].Deny = true
				}
			}
		}
	}
}

// parts are the values of a JSON object by key, with every value of a key that is given more than once.
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

// one decodes the only value of a key. It is false if there are several or it is not of that type; a key that is not there
// is fine and leaves the target alone.
func (p parts) one(key string, target any) bool {
	switch values := p[key]; len(values) {
	case 0:
		return true
	case 1:
		return json.Unmarshal(values[0], target) == nil
	}
	return false
}

// beyond names a key that is not among the known ones, or is given twice; empty if there is none.
func (p parts) beyond(known ...string) string {
	var found []string
	for key, values := range p {
		if len(values) > 1 || !slices.Contains(known, key) {
			found = append(found, key)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.Min(found)
}
