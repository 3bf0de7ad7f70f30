package bypass

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
)

const (
	jsonType     = "application/json"
	cborType     = "application/cbor"
	protobufType = "application/vnd.kubernetes.protobuf"
	applyCBOR    = "application/apply-patch+cbor"
	applyYAML    = "application/apply-patch+yaml"
	jsonPatch    = "application/json-patch+json"
	mergePatch   = "application/merge-patch+json"
	strategic    = "application/strategic-merge-patch+json"
)

func encodeJSON(object any) []byte {
	raw, err := json.Marshal(object)
	if err != nil {
		panic(err) // maps of JSON values
	}
	return raw
}

func encodeCBOR(object any) []byte {
	// JSON numbers are floats here; CBOR tells them from integers.
	var exact any
	decoder := json.NewDecoder(bytes.NewReader(encodeJSON(object)))
	decoder.UseNumber()
	if err := decoder.Decode(&exact); err != nil {
		panic(err)
	}
	raw, err := direct.Marshal(numbers(exact))
	if err != nil {
		panic(err)
	}
	return raw
}

func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	}
	return v
}

// encodeProtobuf is nil for kinds that have no protobuf.
func encodeProtobuf(e endpoint, object map[string]any) []byte {
	for _, scheme := range []*runtime.Scheme{legacyscheme.Scheme, apiextensions.Scheme, aggregatorscheme.Scheme} {
		typed, err := scheme.New(e.kind)
		if err != nil {
			continue
		}
		if err := json.Unmarshal(encodeJSON(object), typed); err != nil {
			return nil
		}
		typed.GetObjectKind().SetGroupVersionKind(e.kind)
		var out bytes.Buffer
		if err := protobuf.NewSerializer(scheme, scheme).Encode(typed, &out); err != nil {
			return nil
		}
		return out.Bytes()
	}
	return nil
}

func clone(object map[string]any) map[string]any { return runtime.DeepCopyJSON(exactCopy(object)) }

// exactCopy makes JSON values of whatever a map holds.
func exactCopy(object map[string]any) map[string]any {
	var out map[string]any
	if err := json.Unmarshal(encodeJSON(object), &out); err != nil {
		panic(err)
	}
	return out
}

// change is something to do to the metadata of an object, or of a template inside it.
type change struct {
	name string
	// at leads to the holder of the metadata; empty is the object.
	at []string
	// field is labels or annotations.
	field, key string
	// value is nil to remove the key.
	value any
}

func (c change) path() []string { return append(slices.Clone(c.at), "metadata", c.field) }

// done returns the object with the change made. A review stays as it is: its metadata must be empty, and asking is
// enough.
func (c change) done(object map[string]any) map[string]any {
	out := clone(object)
	if kind, _ := out["kind"].(string); strings.HasSuffix(kind, "Review") {
		return out
	}
	m := child(out, c.path()...)
	if c.value == nil {
		delete(m, c.key)
	} else {
		m[c.key] = c.value
	}
	return out
}

// merge is the change as a merge patch, which is a strategic one too.
func (c change) merge() map[string]any {
	out := map[string]any{}
	child(out, c.path()...)[c.key] = c.value
	return out
}

// operations is the change as a JSON patch of the object.
func (c change) operations(object map[string]any) []any {
	pointer, there := "", object
	for i, name := range c.path() {
		pointer += "/" + escape(name)
		next, ok := there[name].(map[string]any)
		if !ok {
			rest := map[string]any{}
			child(rest, c.path()[i+1:]...)[c.key] = c.value
			return []any{map[string]any{"op": "add", "path": pointer, "value": rest}}
		}
		there = next
	}
	pointer += "/" + escape(c.key)
	if c.value == nil {
		return []any{map[string]any{"op": "remove", "path": pointer}}
	}
	return []any{map[string]any{"op": "add", "path": pointer, "value": c.value}}
}

func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// duplicated is an object whose metadata comes twice: first as it was, then changed.
func duplicated(before, after map[string]any) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"metadata":%s`, encodeJSON(before["metadata"]))
	for _, key := range slices.Sorted(maps.Keys(after)) {
		fmt.Fprintf(&b, `,%q:%s`, key, encodeJSON(after[key]))
	}
	b.WriteByte('}')
	return b.Bytes()
}

// templates finds the places in an object that hold metadata for objects which others will make of it.
func templates(object map[string]any) [][]string {
	var found [][]string
	var walk func(at []string, m map[string]any)
	walk = func(at []string, m map[string]any) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			inner, ok := m[key].(map[string]any)
			if !ok {
				continue
			}
			here := append(slices.Clone(at), key)
			if key == "template" || strings.HasSuffix(key, "Template") {
				found = append(found, here)
			}
			walk(here, inner)
		}
	}
	walk(nil, object)
	if kind, _ := object["kind"].(string); kind == "ResourceClaimTemplate" {
		found = append(found, []string{"spec"})
	}
	return found
}
