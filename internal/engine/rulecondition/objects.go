package rulecondition

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/selectors"
)

// Type is the condition type of restrictions, which are opaque to other evaluators.
const Type = "policy.proviso.dev/attribute-restriction"

var errOtherKind = errors.New("the body is of another kind than the resource; attribute restrictions say nothing about it")

// labelsContain holds when the stored object has all the labels. On create there is no stored object, so it does not
// hold.
type labelsContain struct {
	entries []string
	want    []labelWant
}

type labelWant struct {
	key, value string
	anyValue   bool
}

func newLabelsContain(entries []string, path *field.Path) (expr.Condition, *field.Error) {
	c := &labelsContain{entries: entries}
	for i, e := range entries {
		key, value, hasValue := strings.Cut(e, "=")
		if msgs := validation.IsQualifiedName(key); len(msgs) > 0 {
			return nil, field.Invalid(path.Index(i), e, "want key or key=value: "+strings.Join(msgs, "; "))
		}
		if msgs := validation.IsValidLabelValue(value); len(msgs) > 0 {
			return nil, field.Invalid(path.Index(i), e, strings.Join(msgs, "; "))
		}
		c.want = append(c.want, labelWant{key, value, !hasValue})
	}
	return c, nil
}

func (c *labelsContain) Type() string { return Type }

func (c *labelsContain) Decide(req *expr.Request, effect expr.Effect) expr.Finding {
	return expr.Undecided(c, req, effect)
}

func (c *labelsContain) Evaluate(_ context.Context, _ *expr.Request, _ expr.Effect, data *expr.Data) (bool, error) {
	if !data.OwnKind() {
		return false, errOtherKind
	}
	old, err := data.OldObject("")
	if err != nil || old == nil {
		return false, err
	}
	m, err := meta.Accessor(old)
	if err != nil {
		return false, err
	}
	labels := m.GetLabels()
	for _, w := range c.want {
		if value, ok := labels[w.key]; !ok || (!w.anyValue && value != w.value) {
			return false, nil
		}
	}
	return true, nil
}

// Twin says the same in CEL, for those who compare conditions.
func (c *labelsContain) Twin(expr.Effect) (string, expr.Kind) {
	parts := []string{"oldObject != null"}
	for _, w := range c.want {
		has := strconv.Quote(w.key) + " in oldObject.metadata.?labels.orValue({})"
		if !w.anyValue {
			has += " && oldObject.metadata.labels[" + strconv.Quote(w.key) + "] == " + strconv.Quote(w.value)
		}
		parts = append(parts, has)
	}
	return strings.Join(parts, " && "), expr.When
}

// Narrow implements expr.Narrower.
func (c *labelsContain) Narrow(*expr.Request, []expr.SelectableField) (selectors.Box, error) {
	var box selectors.Box
	for _, w := range c.want {
		values := selectors.Of(w.value)
		if w.anyValue {
			values = selectors.AllBut()
		}
		box = box.With(selectors.Key{Label: true, Name: w.key}, values)
	}
	return box, nil
}

func (c *labelsContain) Text(*expr.Request, expr.Effect) string {
	return "the stored object has the labels " + strings.Join(c.entries, ", ")
}

// sameNode holds when the object, in every version the request touches, belongs to the caller's own node.
type sameNode struct{}

func (sameNode) Type() string { return Type }

func (c sameNode) Decide(req *expr.Request, effect expr.Effect) expr.Finding {
	if callerNode(req) == "" && effect == expr.Allow && !req.Unidentified() {
		return expr.Decided(false)
	}
	return expr.Undecided(c, req, effect)
}

func (c sameNode) Evaluate(_ context.Context, req *expr.Request, effect expr.Effect, data *expr.Data) (bool, error) {
	node := callerNode(req)
	if node == "" {
		return false, nil
	}
	if !data.OwnKind() {
		return false, errOtherKind
	}
	seen := false
	for _, version := range []func(string) (runtime.Object, error){data.Object, data.OldObject} {
		object, err := version("")
		if err != nil {
			return false, err
		}
		if object == nil {
			continue
		}
		seen = true
		name, err := objectNode(req, object)
		if err != nil {
			return false, err
		}
		same := name == node
		// An allow must hold for every version, a deny applies to any: a user must not adopt or drop an object by
		// moving it.
		if effect == expr.Allow && !same {
			return false, nil
		}
		if effect != expr.Allow && same {
			return true, nil
		}
	}
	return seen && effect == expr.Allow, nil
}

var errNoNodeName = errors.New("the resource cannot be selected by the node of its objects")

// nodeField is the field that selects the objects of a node.
const nodeField = "spec.nodeName"

// Narrow implements expr.Narrower: a node is selected by its name, and everything else by spec.nodeName.
func (sameNode) Narrow(req *expr.Request, fields []expr.SelectableField) (selectors.Box, error) {
	node := callerNode(req)
	switch {
	case node == "" && req.Unidentified():
		return selectors.Box{}, errNoNodeName
	case node == "" || len(content.IsPathSegmentName(node)) > 0:
		return selectors.Nothing(), nil
	case req.APIGroup == "" && req.Resource == "nodes":
		return selectors.Box{}.With(selectors.Key{Name: "metadata.name"}, selectors.Of(node)), nil
	case slices.ContainsFunc(fields, func(f expr.SelectableField) bool {
		return f.Key == nodeField && (f.Path == "" || f.Path == nodeField) && f.Type == expr.StringField
	}):
		return selectors.Box{}.With(selectors.Key{Name: nodeField}, selectors.Of(node)), nil
	}
	return selectors.Box{}, errNoNodeName
}

func (sameNode) Text(req *expr.Request, _ expr.Effect) string {
	if callerNode(req) == "" && req.Unidentified() {
		return "the object's node is the caller's"
	}
	return fmt.Sprintf("the object's node is %q", callerNode(req))
}

// callerNode returns the node that the caller speaks for, or "".
func callerNode(req *expr.Request) string {
	if name, ok := strings.CutPrefix(req.User, "system:node:"); ok && slices.Contains(req.Groups, "system:nodes") {
		return name
	}
	if values := req.Extra[serviceaccount.NodeNameKey]; len(values) == 1 {
		return values[0]
	}
	return ""
}

// nodePlaces are where objects name their node.
var nodePlaces = [][]string{{"spec", "nodeName"}, {"spec", "host"}, {"nodeName"}}

// Reads lists the fields of the object whose values attribute restrictions look at.
func Reads(r *policyv1alpha1.AttributeRestrictions) []fieldperm.Path {
	var all []fieldperm.Path
	if r == nil {
		return nil
	}
	for _, entry := range r.LabelsContain {
		key, _, _ := strings.Cut(entry, "=")
		all = append(all, fieldperm.Path{fieldperm.Field("metadata"), fieldperm.Field("labels"), fieldperm.Key(key)})
	}
	if r.SameNodeRestriction {
		for _, names := range nodePlaces {
			var at fieldperm.Path
			for _, name := range names {
				at = append(at, fieldperm.Field(name))
			}
			all = append(all, at)
		}
	}
	return all
}

// objectNode returns the node an object belongs to: a Node belongs to itself, other objects name their node.
func objectNode(req *expr.Request, object runtime.Object) (string, error) {
	if req.APIGroup == "" && req.Resource == "nodes" {
		m, err := meta.Accessor(object)
		if err != nil {
			return "", err
		}
		return m.GetName(), nil
	}
	content, err := toMap(object)
	if err != nil {
		return "", err
	}
	for _, path := range nodePlaces {
		if name, ok, err := unstructured.NestedString(content, path...); err == nil && ok {
			return name, nil
		}
	}
	return "", nil
}

func toMap(object runtime.Object) (map[string]any, error) {
	if u, ok := object.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(object)
}
