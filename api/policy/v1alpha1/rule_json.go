package v1alpha1

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/json"
)

// Spellings that the original design uses for restrictions that have a better name today.
const (
	spellingFieldsMutatable       = "fieldsMutatable"
	spellingSameMinionRestriction = "sameMinionRestriction"
	fieldFieldsMutable            = "fieldsMutable"
	fieldLabelsContain            = "labelsContain"
	fieldSameNodeRestriction      = "sameNodeRestriction"
	fieldKind                     = "kind"
)

// RestrictionSpellings are the keys of attributeRestrictions beside its fields: the spellings of the original design.
func RestrictionSpellings() []string {
	return []string{spellingFieldsMutatable, spellingSameMinionRestriction, fieldKind}
}

// UnknownFields lists the fields of a rule that this version does not know, in order. What the server itself has noted
// in the rule is not among them.
func (r *PolicyRule) UnknownFields() []string {
	if len(r.Unrecognized) == 0 && (r.AttributeRestrictions == nil || len(r.AttributeRestrictions.Unrecognized) == 0) {
		return nil // nearly always
	}
	var names []string
	for name := range r.Unrecognized {
		if name != UnreadableField && name != QuarantinedField {
			names = append(names, name)
		}
	}
	if r.AttributeRestrictions != nil {
		for name := range r.AttributeRestrictions.Unrecognized {
			names = append(names, "attributeRestrictions."+name)
		}
	}
	slices.Sort(names)
	return names
}

var ruleFields = map[string]bool{
	"deny": true, "verbs": true, "apiGroups": true, "resourceKinds": true, "resourceNames": true, "nonResourceURLs": true,
	"where": true, "when": true, "apiVersion": true, "attributeRestrictions": true, "description": true, "enforcement": true,
}

// UnmarshalJSON reads a rule and keeps what it does not know in Unrecognized. A key that is given twice is an error:
// which of the two was meant decides whether the rule allows or denies.
func (r *PolicyRule) UnmarshalJSON(data []byte) error {
	if isNull(data) {
		return nil
	}
	type plain PolicyRule
	var out plain
	// Nearly every rule has only fields that are known, each once, and is read in one pass.
	if strict, err := json.UnmarshalStrict(data, &out); err == nil && len(strict) == 0 {
		*r = PolicyRule(out)
		r.Unrecognized = nil
		return nil
	}
	keys, err := closedObject(data, "rule")
	if err != nil {
		return err
	}
	out = plain{}
	if err := json.UnmarshalCaseSensitivePreserveInts(data, &out); err != nil {
		return err
	}
	*r = PolicyRule(out)
	r.Unrecognized = unrecognized(keys, func(k string) bool { return ruleFields[k] })
	return nil
}

// MarshalJSON writes the rule with everything that UnmarshalJSON found, known or not.
func (r PolicyRule) MarshalJSON() ([]byte, error) {
	type plain PolicyRule
	return withUnrecognized(plain(r), r.Unrecognized, func(k string) bool { return ruleFields[k] })
}

// UnmarshalJSON reads restrictions in any of the accepted spellings and normalises them to the fields of the struct.
func (a *AttributeRestrictions) UnmarshalJSON(data []byte) error {
	if isNull(data) {
		return nil
	}
	keys, err := closedObject(data, "attributeRestrictions")
	if err != nil {
		return err
	}
	var out AttributeRestrictions
	if err := out.readFieldsMutable(keys); err != nil {
		return err
	}
	if raw, ok := keys[fieldLabelsContain]; ok {
		if err := json.UnmarshalCaseSensitivePreserveInts(raw, &out.LabelsContain); err != nil {
			return fmt.Errorf("attributeRestrictions.%s: %w", fieldLabelsContain, err)
		}
	}
	kindKnown, err := out.readSameNode(keys)
	if err != nil {
		return err
	}
	out.Unrecognized = unrecognized(keys, func(k string) bool {
		return isRestriction(k) || (k == fieldKind && kindKnown)
	})
	*a = out
	return nil
}

// MarshalJSON writes the restrictions in the spelling that they were read in, together with those that are not known.
// Only a restriction that is there is spelled: what the fields say is what is written.
func (a AttributeRestrictions) MarshalJSON() ([]byte, error) {
	type plain AttributeRestrictions
	data, err := withUnrecognized(plain(a), a.Unrecognized, isRestriction)
	if err != nil || len(a.Spelling) == 0 {
		return data, err
	}
	all := map[string]stdjson.RawMessage{}
	if err := stdjson.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	respell := func(from, to string, value stdjson.RawMessage) {
		if _, ok := all[from]; ok {
			delete(all, from)
			all[to] = value
		}
	}
	for _, spelling := range a.Spelling {
		key, kind, _ := strings.Cut(spelling, "=")
		switch key {
		case spellingFieldsMutatable:
			respell(fieldFieldsMutable, key, all[fieldFieldsMutable])
		case spellingSameMinionRestriction:
			respell(fieldSameNodeRestriction, key, all[fieldSameNodeRestriction])
		case fieldKind:
			respell(fieldSameNodeRestriction, key, stdjson.RawMessage(strconv.Quote(kind)))
		}
	}
	return stdjson.Marshal(all)
}

func (a *AttributeRestrictions) readFieldsMutable(keys map[string]stdjson.RawMessage) error {
	var seen string
	for _, name := range []string{fieldFieldsMutable, spellingFieldsMutatable} {
		raw, ok := keys[name]
		if !ok {
			continue
		}
		if seen != "" {
			return fmt.Errorf("attributeRestrictions: %s and %s are two spellings of one restriction: give one", seen, name)
		}
		seen = name
		if name == spellingFieldsMutatable {
			a.Spelling = append(a.Spelling, name)
		}
		if err := json.UnmarshalCaseSensitivePreserveInts(raw, &a.FieldsMutable); err != nil {
			return fmt.Errorf("attributeRestrictions.%s: %w", name, err)
		}
	}
	return nil
}

// readSameNode reads the node restriction from either field spelling or from the shape {kind: …}. It reports whether
// the key "kind" was understood. Like any restriction the shape can only narrow: it is never undone by a false
// elsewhere.
func (a *AttributeRestrictions) readSameNode(keys map[string]stdjson.RawMessage) (kindKnown bool, err error) {
	for _, name := range []string{fieldSameNodeRestriction, spellingSameMinionRestriction} {
		raw, ok := keys[name]
		if !ok {
			continue
		}
		var on bool
		if err := json.UnmarshalCaseSensitivePreserveInts(raw, &on); err != nil {
			return false, fmt.Errorf("attributeRestrictions.%s: must be true or false: %w", name, err)
		}
		a.SameNodeRestriction = a.SameNodeRestriction || on
		if name == spellingSameMinionRestriction {
			a.Spelling = append(a.Spelling, name)
		}
	}
	var kind string
	if raw, ok := keys[fieldKind]; ok && json.UnmarshalCaseSensitivePreserveInts(raw, &kind) == nil {
		if kind == spellingSameMinionRestriction || kind == fieldSameNodeRestriction {
			a.SameNodeRestriction = true
			a.Spelling = append(a.Spelling, fieldKind+"="+kind)
			return true, nil
		}
	}
	return false, nil
}

func isRestriction(key string) bool {
	switch key {
	case fieldFieldsMutable, spellingFieldsMutatable, fieldLabelsContain, fieldSameNodeRestriction, spellingSameMinionRestriction:
		return true
	}
	return false
}

// closedObject splits a JSON object into its keys and refuses one in which a key is given twice.
func closedObject(data []byte, subject string) (map[string]stdjson.RawMessage, error) {
	keys := map[string]stdjson.RawMessage{}
	strict, err := json.UnmarshalStrict(data, &keys, json.DisallowDuplicateFields)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", subject, err)
	}
	if len(strict) > 0 {
		return nil, fmt.Errorf("%s: %w: give it once", subject, strict[0])
	}
	return keys, nil
}

func unrecognized(keys map[string]stdjson.RawMessage, known func(string) bool) map[string]runtime.RawExtension {
	var out map[string]runtime.RawExtension
	for k, raw := range keys {
		if known(k) {
			continue
		}
		if out == nil {
			out = map[string]runtime.RawExtension{}
		}
		var compact bytes.Buffer
		if err := stdjson.Compact(&compact, raw); err != nil {
			compact.Reset()
			compact.Write(raw)
		}
		out[k] = runtime.RawExtension{Raw: compact.Bytes()}
	}
	return out
}

// withUnrecognized encodes v and adds the unknown keys again. A known key always comes from v.
func withUnrecognized(v any, unknown map[string]runtime.RawExtension, known func(string) bool) ([]byte, error) {
	data, err := stdjson.Marshal(v)
	if err != nil || len(unknown) == 0 {
		return data, err
	}
	all := map[string]stdjson.RawMessage{}
	if err := stdjson.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	for k := range maps.Keys(unknown) {
		if known(k) {
			continue
		}
		raw, err := unknown[k].MarshalJSON()
		if err != nil {
			return nil, err
		}
		all[k] = raw
	}
	return stdjson.Marshal(all)
}

func isNull(data []byte) bool { return strings.TrimSpace(string(data)) == "null" }
