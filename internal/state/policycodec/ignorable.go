package policycodec

import (
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	access "proviso.dev/proviso/api/access/v1alpha1"
	audit "proviso.dev/proviso/api/auditregistration/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// ignorableField is the field in which the writer of an object lists the fields that a release without them may ignore.
const ignorableField = "ignorable"

// paths are the fields of one stored object that its writer lists as harmless.
type paths []string

// ignorable reads the list of a stored object. It returns false if the list cannot be read: then nothing is harmless.
func (p parts) ignorable() (paths, bool) {
	var list paths
	if !p.one(ignorableField, &list) {
		return nil, false
	}
	return list, true
}

// cover reports whether a field is listed. A known field, in any spelling of its case, or a duplicate one is never
// harmless.
func (p paths) cover(s stranger) bool { return !s.known && slices.Contains(p, s.path) }

// ignorableOf returns the list of an object; nil if its kind has none.
func ignorableOf(obj runtime.Object) *[]string {
	switch o := obj.(type) {
	case *policy.Policy:
		return &o.Ignorable
	case *policy.PolicyBinding:
		return &o.Ignorable
	case *policy.FieldPermission:
		return &o.Ignorable
	case *policy.ProtectedAttribute:
		return &o.Ignorable
	case *policy.ClusterProtectedAttribute:
		return &o.Ignorable
	case *policy.NamespaceAuditSink:
		return &o.Ignorable
	case *audit.AuditSink:
		return &o.Ignorable
	case *audit.AuditClass:
		return &o.Ignorable
	case *access.AccessRule:
		return &o.Ignorable
	case *access.AccessRequest:
		return &o.Ignorable
	case *access.AccessUsage:
		return &o.Ignorable
	case *access.TokenRevocation:
		return &o.Ignorable
	}
	return nil
}

// RefuseIgnorable does not let clients say what is harmless: the server that stores an object knows which fields it
// writes. Sending back what was read is accepted.
func RefuseIgnorable(obj, old runtime.Object) field.ErrorList {
	list := ignorableOf(obj)
	if list == nil || len(*list) == 0 {
		return nil
	}
	if had := ignorableOf(old); had != nil && slices.Equal(*list, *had) {
		return nil
	}
	at := field.NewPath(ignorableField)
	kinds, _, err := Scheme.ObjectKinds(obj)
	if err != nil || len(kinds) == 0 {
		return field.ErrorList{field.InternalError(at, err)}
	}
	known := shapeOf(kinds[0].GroupKind())
	for i, path := range *list {
		if known == nil || known.has(path) {
			return field.ErrorList{field.Invalid(at.Index(i), path, "is a field that counts: no list can make it harmless")}
		}
	}
	return field.ErrorList{field.Forbidden(at, "is set by the server that stores the object: leave it out")}
}

// Encode writes an object as it is stored. This release stores no field that an earlier one could ignore, so it lists
// none: fields that another release had listed are no longer in the object.
func (c storageCodec) Encode(obj runtime.Object, w io.Writer) error {
	if list := ignorableOf(obj); list != nil && *list != nil {
		obj = obj.DeepCopyObject()
		*ignorableOf(obj) = nil
	}
	return c.Codec.Encode(obj, w)
}

// ignore removes from the rules of a policy the fields that its writer lists as harmless.
func (p paths) ignore(in *policy.Policy) {
	if len(p) == 0 {
		return
	}
	for _, role := range in.Roles {
		for i := range role.Rules {
			p.ignoreIn(&role.Rules[i])
		}
	}
}

// rulePath is the path of every rule.
const rulePath = ".roles[].rules[]"

func (p paths) ignoreIn(rule *policy.PolicyRule) {
	for key := range rule.Unrecognized {
		if path := "." + key; slices.Contains(p, rulePath+path) && !ruleShape().has(path) {
			delete(rule.Unrecognized, key)
		}
	}
	restrictions := rule.AttributeRestrictions
	if restrictions == nil || len(restrictions.Unrecognized) == 0 {
		return
	}
	for key := range restrictions.Unrecognized {
		if path := ".attributeRestrictions." + key; slices.Contains(p, rulePath+path) && !ruleShape().has(path) {
			delete(restrictions.Unrecognized, key)
		}
	}
	if len(restrictions.Unrecognized) == 0 && restrictions.FieldsMutable == nil && restrictions.LabelsContain == nil && !restrictions.SameNodeRestriction {
		rule.AttributeRestrictions = nil
	}
}
