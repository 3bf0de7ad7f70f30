package answers

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/analysis/compare"
	"proviso.dev/proviso/internal/analysis/matrix"
	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/hosts/offline"
)

// review asks the server about a request of a subject, with a trace. A subject who may not ask learns nothing.
func (x *trial) review(s Subject, r Request, spec authz.SubjectAccessReviewSpec) authz.SubjectAccessReviewStatus {
	x.Helper()
	spec.Trace = true
	review := &authz.SubjectAccessReview{Spec: spec}
	review.APIVersion, review.Kind = "authorization.proviso.dev/v1alpha1", "SubjectAccessReview"
	path := "/apis/authorization.proviso.dev/v1alpha1/"
	if r.namespace != "" {
		path += "namespaces/" + r.namespace + "/"
	}
	code, out := x.as(x, s, "POST", path+"subjectaccessreviews", "", []byte(mustJSON(review)), nil)
	if mayNotAsk(code, out) {
		return authz.SubjectAccessReviewStatus{}
	}
	if code != http.StatusCreated {
		x.Fatalf("%s %s: %d %v", s.User, r.name, code, out["message"])
	}
	var answer authz.SubjectAccessReview
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(out, &answer); err != nil {
		x.Fatal(err)
	}
	return answer.Status
}

// remedies: the change of the object that explain names makes the request pass, and nothing smaller does (TR-17). A
// create is made with it.
func (x *trial) remedies(refused map[at]string) {
	for i, s := range x.subjects {
		for j, r := range x.requests {
			spec, can := x.spec(r)
			if !can || spec.Content == nil || refused[at{i, j}] == "" {
				continue
			}
			status := x.review(s, r, spec)
			if status.Allowed || status.Trace == nil || status.Trace.Remedy == nil || len(status.Trace.Remedy.Change) == 0 {
				continue
			}
			change := status.Trace.Remedy.Change
			x.compared++
			x.remedied++
			with := func(change []authz.FieldChange) authz.SubjectAccessReviewSpec {
				other := spec
				other.Content = &runtime.RawExtension{Raw: []byte(mustJSON(changed(spec.Content.Raw, change)))}
				if r.verb == "patch" && other.OldContent == nil {
					other.OldContent = spec.Content
				}
				return other
			}
			if after := x.review(s, r, with(change)); !after.Allowed {
				x.found("explain", "%s %s: still refused with %s: %s", s.User, r.name, mustJSON(change), after.DenyReason)
			}
			for k := range change {
				smaller := slices.Delete(slices.Clone(change), k, k+1)
				if len(smaller) > 0 && x.review(s, r, with(smaller)).Allowed {
					x.found("explain", "%s %s: %s is enough, and it says %s", s.User, r.name, mustJSON(smaller), mustJSON(change))
				}
			}
			if r.verb != "create" {
				continue
			}
			made := r
			made.body = mustJSON(changed([]byte(r.body), change))
			if allowed, message := x.do(x, s, made); !allowed {
				x.found("explain", "%s %s: the server refuses it with %s: %s", s.User, r.name, mustJSON(change), message)
			}
		}
	}
}

// remediable is a policy whose refusals the object can mend.
const remediable = `apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: answers-mend, namespace: team}
rules:
- {verbs: [create, patch], resourceKinds: [configmaps], where: 'resource.metadata.labels.team == "a" && !("env" in resource.metadata.labels)'}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: answers-mend, namespace: team}
roleRef: {namespace: team, name: answers-mend}
groupNames: ["system:authenticated"]
`

// changed is an object with a change of a remedy.
func changed(raw []byte, change []authz.FieldChange) map[string]any {
	object := parse(string(raw))
	var edits []compare.Edit
	for _, c := range change {
		edit := compare.Edit{Remove: c.Value == ""}
		for part := range strings.SplitSeq(c.Path, ".") {
			name, index, indexed := strings.Cut(strings.TrimSuffix(part, "]"), "[")
			edit.Path = append(edit.Path, name)
			if n, err := strconv.Atoi(index); indexed && err == nil {
				edit.Path = append(edit.Path, n)
			}
		}
		if !edit.Remove {
			if err := json.Unmarshal([]byte(c.Value), &edit.Value); err != nil {
				panic(err)
			}
		}
		edits = append(edits, edit)
	}
	return compare.Apply(object, edits)
}

// matrix: of a user without groups, a cell says what the server does (TR-11). What guards and effects refuse is not in
// it.
func (x *trial) matrix(h *offline.Host, refused map[at]string) {
	u, err := offline.NewUniverse(h)
	if err != nil {
		x.Fatal(err)
	}
	for i, s := range x.subjects {
		if len(s.Groups)+len(s.Extra) > 0 {
			continue // their members are not known to it
		}
		cells, err := matrix.Cells(x.Context(), matrix.Input{Index: h.Snapshot().Rules, Server: h, Resources: u.Resources, Verbs: u.Verbs,
			Namespaces: append(slices.Clone(u.Namespaces), ""), Names: u.Names, Subjects: []ruleset.Subject{{Name: s.User}}})
		if err != nil {
			x.Fatal(err)
		}
		for j, r := range x.requests {
			if r.creates || r.url != "" || r.verb == "impersonate" || len(r.also) > 0 {
				continue
			}
			access := plan.No
			for _, c := range cells {
				if c.Verb == r.verb && c.Group == r.group && c.Resource == r.resource && c.Subresource == r.sub && c.Namespace == r.namespace {
					access = c.Access
				}
			}
			x.compared++
			why := refused[at{i, j}]
			switch {
			case access == plan.Yes && why != "" && !guarded(why):
				x.found("matrix", "%s %s: yes, and the server says %q", s.User, r.name, why)
			case (access == plan.No || access == plan.Denied) && why == "" && r.resource != "namespaces":
				x.found("matrix", "%s %s: %s, and the server allows it", s.User, r.name, access)
			}
		}
	}
}

// guarded reports whether a refusal is not by a rule on the request.
func guarded(why string) bool {
	for _, words := range []string{"protected", "exclusive", "this would delete", "field"} {
		if strings.Contains(why, words) {
			return true
		}
	}
	return false
}
