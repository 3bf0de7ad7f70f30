package policycodec

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// maxReason bounds the reason in a quarantined object.
const maxReason = 512

func newReader(data []byte) io.Reader { return bytes.NewReader(data) }

// Quarantined returns why an object is quarantined; empty if it is not.
func Quarantined(obj runtime.Object) string {
	o, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return o.GetAnnotations()[policy.AnnotationQuarantined]
}

// RefuseQuarantined protects what a newer version has stored from being overwritten.
func RefuseQuarantined(objects ...runtime.Object) field.ErrorList {
	for _, obj := range objects {
		if why := cmp.Or(Quarantined(obj), Unreadable(obj)); why != "" {
			return field.ErrorList{field.Forbidden(field.NewPath("metadata", "annotations").Key(policy.AnnotationQuarantined),
				"the server sets this on what it cannot understand, and does not change such an object: upgrade the server, or delete the object ("+why+")")}
		}
	}
	return nil
}

// Unreadable returns why a container denies in its namespace; empty if it does not.
func Unreadable(obj runtime.Object) string {
	o, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return o.GetAnnotations()[policy.AnnotationUnreadable]
}

// CannotRead returns why an object, or an entry in it, denies because it cannot be read; empty if nothing does.
func CannotRead(obj runtime.Object) string {
	if why := Unreadable(obj); why != "" {
		return why
	}
	switch o := obj.(type) {
	case *policy.Policy:
		for name, role := range o.Roles {
			for i := range role.Rules {
				if _, unreadable := role.Rules[i].Unrecognized[policy.UnreadableField]; unreadable || len(role.Rules[i].UnknownFields()) > 0 {
					return fmt.Sprintf("role %q", name)
				}
			}
		}
	case *policy.PolicyBinding:
		for name, b := range o.RoleBindings {
			if b.Annotations[policy.AnnotationUnreadable] != "" {
				return fmt.Sprintf("role binding %q", name)
			}
		}
	}
	return ""
}

// unknownParts returns an error if a stored object has unknown or duplicate fields, at any level: each may deny. It
// also returns what the writer lists as harmless. Rules handle their own unknown fields.
func unknownParts(data []byte, obj runtime.Object) (paths, error) {
	kinds, _, err := Scheme.ObjectKinds(obj)
	if err != nil {
		return nil, err
	}
	of := shapeOf(kinds[0].GroupKind())
	list := ignorableOf(obj)
	if of == nil {
		return nil, fmt.Errorf("%s is not a kind that is stored", kinds[0].Kind)
	}
	if list == nil {
		list = new([]string) // a kind that has no list
	}
	if plain(data, of) {
		return *list, nil
	}
	if found := of.strangers(data, "", *list); len(found) > 0 {
		return nil, found[0]
	}
	return *list, nil
}

// repeated returns an entry that is duplicate, or has an invalid name; empty if there is none.
func repeated(top parts, key string) string {
	var names parts
	if !top.one(key, &names) {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if len(names[name]) > 1 || strings.ContainsRune(name, 0) {
			return name
		}
	}
	return ""
}

// salvage reduces an unreadable stored object to what is safe: its identity, what denies or protects, and nothing that
// grants. It returns false if the text does not identify the object.
func salvage(data []byte, cause error) (runtime.Object, schema.GroupVersionKind, bool) {
	var top parts
	var version, kind string
	var gvk schema.GroupVersionKind
	if json.Unmarshal(data, &top) != nil || !top.one("apiVersion", &version) || !top.one("kind", &kind) {
		return nil, gvk, false
	}
	gv, err := schema.ParseGroupVersion(version)
	if err != nil {
		return nil, gvk, false
	}
	whole := false // none of it necessarily means what this version assumes
	for _, g := range apiGroups {
		if g.version.Group == gv.Group {
			gvk = g.version.WithKind(kind)
			whole = g.version != gv
		}
	}
	obj, err := Scheme.New(gvk)
	if err != nil {
		return nil, gvk, false
	}
	reason := cause.Error()
	if whole {
		reason = fmt.Sprintf("it is stored in version %q, and this server knows %q", gv.Version, gvk.Version)
	}
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	if !identify(obj, top) {
		return nil, gvk, false
	}
	harmless, listed := top.ignorable()
	found := shapeOf(gvk.GroupKind()).strangers(data, "", harmless)
	switch o := obj.(type) {
	case *policy.Policy:
		salvagePolicy(o, top, damage{reason: reason, whole: whole || !listed || besides(found, "roles"), harmless: harmless})
	case *policy.PolicyBinding:
		salvageBindings(o, top, damage{reason: reason, whole: whole || !listed || besides(found, "roleBindings"), harmless: harmless})
	default:
		salvageFields(obj, top)
		if fp, ok := obj.(*policy.FieldPermission); ok && withholdsSomething(fp, top, whole || !listed || len(found) > 0) {
			unreadable(fp, reason)
		}
	}
	mark(obj, reason)
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return obj, gvk, true
}

// besides reports whether one of the fields is not in the entries of a container.
func besides(found []stranger, entries string) bool {
	return slices.ContainsFunc(found, func(s stranger) bool { return !strings.HasPrefix(s.path, "."+entries+"[]") })
}

// identify reads the metadata, or at least the part that the store needs.
func identify(obj runtime.Object, top parts) bool {
	o, err := meta.Accessor(obj)
	if err != nil {
		return false
	}
	var full metav1.ObjectMeta
	if !top.one("metadata", &full) {
		var fields parts
		full = metav1.ObjectMeta{}
		if !top.one("metadata", &fields) || !fields.one("name", &full.Name) || !fields.one("namespace", &full.Namespace) || !fields.one("uid", &full.UID) {
			return false
		}
	}
	if owner, ok := obj.(interface{ GetObjectMeta() metav1.Object }); ok {
		if target, ok := owner.GetObjectMeta().(*metav1.ObjectMeta); ok {
			*target = full
		}
	}
	return o.GetName() != ""
}

// salvageFields reads each field separately and leaves out unreadable ones.
func salvageFields(obj runtime.Object, top parts) {
	for key, values := range top {
		if key == "metadata" || key == "apiVersion" || key == "kind" || len(values) != 1 {
			continue
		}
		if readable(obj, map[string]json.RawMessage{key: values[0]}) {
			continue
		}
		var inner parts
		if json.Unmarshal(values[0], &inner) != nil {
			continue
		}
		for field, values := range inner {
			if len(values) == 1 {
				readable(obj, map[string]map[string]json.RawMessage{key: {field: values[0]}})
			}
		}
	}
	// Which values and places a protection exempts may depend on the part that was not understood.
	switch a := obj.(type) {
	case *policy.ProtectedAttribute:
		a.ProtectedValues, a.UnlistedValues, a.Resources, a.Scope = nil, "", nil, policy.ScopeIncludeTemplates
	case *policy.ClusterProtectedAttribute:
		a.ProtectedValues, a.UnlistedValues, a.Resources, a.Scope = nil, "", nil, policy.ScopeIncludeTemplates
	case *policy.FieldPermission:
		salvageExclusion(&a.Spec, top)
	}
}

// withholdsSomething reports whether a field permission may withhold an unknown field. If it has an unknown field, or
// another version, it is not known how it expresses that it withholds: then the field that it names is withheld unless
// it says that it is not.
func withholdsSomething(fp *policy.FieldPermission, top parts, whole bool) bool {
	var fields parts
	if !top.one("spec", &fields) || len(fields) == 0 {
		return true
	}
	if whole && len(fields["exclusive"]) == 0 {
		fp.Spec.Exclusive = true
	}
	return fp.Spec.Exclusive && fp.Spec.Field == ""
}

// readable adds the part to the object if it has the right shape.
func readable(obj runtime.Object, part any) bool {
	text, err := json.Marshal(part)
	if err != nil || json.Unmarshal(text, obj.DeepCopyObject()) != nil {
		return false
	}
	return json.Unmarshal(text, obj) == nil // a copy has just taken it
}

// salvageExclusion keeps a field withheld if it is not clear from whom: a quarantined permission covers nothing, and
// withholds its field everywhere and always.
func salvageExclusion(spec *policy.FieldPermissionSpec, top parts) {
	spec.ExclusiveWhen = ""
	var fields parts
	if !top.one("spec", &fields) {
		return
	}
	var exclusive bool
	if !fields.one("exclusive", &exclusive) {
		spec.Exclusive = true
	}
	var hidden bool
	if !fields.one("readExclusive", &hidden) {
		spec.ReadExclusive = true
	}
	var templates []policy.FieldPermissionTemplate
	if !fields.one("templates", &templates) {
		spec.Templates = []policy.FieldPermissionTemplate{{}} // one that cannot be read
	}
	spec.Keep = "" // the part that was not understood could be what keeps less
	var resources []string
	if !fields.one("resources", &resources) || len(resources) == 0 {
		spec.Resources = []string{everything}
	}
}

// mark records in the object itself that it is quarantined, and why.
func mark(obj runtime.Object, reason string) {
	if o, err := meta.Accessor(obj); err == nil {
		annotations := map[string]string{policy.AnnotationQuarantined: reason}
		for k, v := range o.GetAnnotations() {
			if k != policy.AnnotationQuarantined {
				annotations[k] = v
			}
		}
		o.SetAnnotations(annotations)
	}
	conditions, kind := conditionsOf(obj)
	if conditions == nil {
		return
	}
	since := metav1.NewTime(time.Unix(0, 0)) // the same in every replica and for every read
	meta.SetStatusCondition(conditions, metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: "Quarantined",
		Message: "it grants nothing, and denies and protects without conditions: " + reason, LastTransitionTime: since})
}

// conditionsOf returns the conditions of a kind, and which of them says that it takes effect as written.
func conditionsOf(obj runtime.Object) (*[]metav1.Condition, string) {
	switch o := obj.(type) {
	case *policy.Policy:
		return &o.Status.Conditions, policy.ConditionRulesCompiled
	case *policy.PolicyBinding:
		return &o.Status.Conditions, policy.ConditionRolesResolved
	case *policy.ProtectedAttribute:
		return &o.Status.Conditions, policy.ConditionRolesResolved
	case *policy.ClusterProtectedAttribute:
		return &o.Status.Conditions, policy.ConditionRolesResolved
	case *policy.FieldPermission:
		return &o.Status.Conditions, policy.ConditionRulesCompiled
	}
	return nil, ""
}
