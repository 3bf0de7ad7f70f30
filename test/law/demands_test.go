package law

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/test/refmodel"
)

func orNull(m map[string]any) any {
	if m == nil {
		return types.NullValue
	}
	return m
}

func namespaceVariable(ns any) any {
	switch ns := ns.(type) {
	case nil:
		return types.NullValue
	case error:
		return types.WrapErr(ns)
	default:
		return ns
	}
}

func requestVariable(r *refmodel.Request) map[string]any {
	extra := map[string]any{}
	for k, v := range r.User.GetExtra() {
		extra[k] = v
	}
	none := map[string]any{"requirements": []any{}}
	return map[string]any{
		"user": r.User.GetName(), "uid": r.User.GetUID(), "groups": append([]string{}, r.User.GetGroups()...), "extra": extra,
		"verb": r.Verb, "apiGroup": r.APIGroup, "apiVersion": r.APIVersion, "resource": r.Resource, "subresource": r.Subresource,
		"namespace": r.Namespace, "name": r.Name, "fieldSelector": none, "labelSelector": none,
	}
}

// readable reports whether an object can be had in a version: everything is stored as v1, which is also what is
// preferred.
func (f *facts) readable(apiVersion string) bool {
	return apiVersion == "v1" || apiVersion == "" && f.served
}

// in is an object in a version: null if there is none, and an error if it cannot be converted.
func (f *facts) in(apiVersion string, body map[string]any) any {
	if body != nil && !f.readable(apiVersion) {
		return types.NewErr("no conversion to %s", apiVersion)
	}
	return orNull(body)
}

// goesTo is what a connection goes to, in a version: null if the request is none.
func (f *facts) goesTo(apiVersion string) any {
	if f.target != nil && (!f.targetServed || apiVersion != "" && apiVersion != "v1") {
		return types.NewErr("no conversion to %s", apiVersion)
	}
	return orNull(f.target)
}

// name is that of the object; false if it is not known, or not given yet.
func (f *facts) name() (string, bool) {
	bodies := f.versions()
	switch {
	case len(bodies) == 0:
		return "", true
	case !f.readable(""):
		return "", false
	}
	name, ok := metadata(bodies[0])["name"].(string)
	return name, ok
}

func (f *facts) versions() (bodies []map[string]any) {
	for _, b := range []map[string]any{f.object, f.old} {
		if b != nil {
			bodies = append(bodies, b)
		}
	}
	return bodies
}

func metadata(body map[string]any) map[string]any { return body["metadata"].(map[string]any) }

// named is the demand of a deny rule that is limited to names on a request that says none. An object that has no name
// yet may get any.
func named(names []string, f *facts) answer {
	for _, b := range f.versions() {
		if !f.readable("") {
			return fails
		}
		if name, _ := metadata(b)["name"].(string); name == "" || slices.Contains(names, name) {
			return yes
		}
	}
	return no
}

// stored is labelsContain (PO-11): the stored object has the labels.
func stored(want []string, f *facts) answer {
	switch {
	case !f.ownKind:
		return fails
	case f.old == nil:
		return no
	case !f.readable(""):
		return fails
	}
	labels, _ := metadata(f.old)["labels"].(map[string]any)
	for _, w := range want {
		key, value, exact := strings.Cut(w, "=")
		if has, ok := labels[key]; !ok || exact && has != value {
			return no
		}
	}
	return yes
}

// onlyChanged is fieldsMutable (PO-11): of all leaves, only those below the given paths differ.
func onlyChanged(paths []string, apiVersion string, f *facts) answer {
	switch {
	case !f.ownKind:
		return fails
	case len(f.versions()) > 0 && !f.readable(apiVersion):
		return fails
	case f.object == nil || f.old == nil:
		return no
	}
	before, after := map[string]string{}, map[string]string{}
	leaves("", f.old, before)
	leaves("", f.object, after)
	maps.DeleteFunc(before, func(path, value string) bool { return after[path] == value && value != "" })
	changed := slices.Collect(maps.Keys(before))
	leaves("", f.object, after)
	was := map[string]string{}
	leaves("", f.old, was)
	for path, value := range after {
		if was[path] != value {
			changed = append(changed, path)
		}
	}
	for _, path := range changed {
		if !slices.ContainsFunc(paths, func(p string) bool {
			p = strings.NewReplacer("[", ".", "]", "").Replace(p)
			if !strings.HasPrefix(p, ".") {
				p = ".metadata." + p
			}
			return path == p || strings.HasPrefix(path, p+".")
		}) {
			return no
		}
	}
	return yes
}

func leaves(path string, value any, into map[string]string) {
	m, ok := value.(map[string]any)
	if !ok {
		into[path] = fmt.Sprintf("%T %v", value, value)
		return
	}
	for k, v := range m {
		leaves(path+"."+k, v, into)
	}
}

// ownNode is sameNodeRestriction (PO-11): the object belongs to the caller's node; every version in an allow, any in a
// deny.
func ownNode(r *refmodel.Request, f *facts, deny bool) answer {
	node := ""
	if name, ok := strings.CutPrefix(r.User.GetName(), "system:node:"); ok && slices.Contains(r.User.GetGroups(), "system:nodes") {
		node = name
	} else if extra := r.User.GetExtra()["authentication.kubernetes.io/node-name"]; len(extra) == 1 {
		node = extra[0]
	}
	switch {
	case node == "":
		return no
	case !f.ownKind, len(f.versions()) > 0 && !f.readable(""):
		return fails
	}
	var each []answer
	for _, b := range f.versions() {
		of, _ := metadata(b)["name"].(string)
		if r.APIGroup != "" || r.Resource != "nodes" {
			spec, _ := b["spec"].(map[string]any)
			of, _ = spec["nodeName"].(string)
		}
		each = append(each, toAnswer(of == node))
	}
	if deny {
		return toAnswer(slices.Contains(each, yes))
	}
	return toAnswer(len(each) > 0 && !slices.Contains(each, no))
}

// other decides an authorizer of somebody else.
func (ref *reference) other(o *other, r *refmodel.Request, f *facts) verdict {
	var answers [3][]answer
	switch o.answers(r) {
	case "allow":
		return verdict{decision: authorizer.DecisionAllow}
	case "deny":
		return verdict{decision: authorizer.DecisionDeny}
	case "none":
		return verdict{decision: authorizer.DecisionNoOpinion}
	}
	for _, c := range o.conditions {
		a := fails
		if c.source != "" {
			a = ref.when(c.source, "", r, f)
		} else if body := c.body(f.object, f.old); body != nil {
			a = c.about(body)
		}
		answers[c.effect] = append(answers[c.effect], a)
	}
	return set(answers[denying], answers[abstaining], answers[allowing], o.failOpen)
}
