package answers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/hosts/offline/policychange"
)

// at is one subject's request.
type at struct{ subject, request int }

// find is an answer that is wrong.
type find struct {
	tool, text string
}

// trial is a case on its way.
type trial struct {
	*oracle
	testing.TB
	subjects []Subject
	requests []Request
	finds    []find
	compared int
	// remedied is how many changes of an object were named, and replaced how many bindings suggestions replaced.
	remedied, replaced int
}

func (x *trial) found(tool, format string, args ...any) {
	x.finds = append(x.finds, find{tool, fmt.Sprintf(format, args...)})
}

// install writes a policy, and waits until the server decides by it.
func (x *trial) install(all []*unstructured.Unstructured) {
	x.settle(x, x.write(x, all))
	x.gathered()
}

func (x *trial) uninstall(all []*unstructured.Unstructured) {
	x.settle(x, x.remove(x, all))
}

// gathered waits for the aggregated role, if there is one.
func (x *trial) gathered() {
	if code, _, _ := x.sudo(x, "GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/answers-sum", "", nil); code == 200 {
		x.aggregated(x, "answers-sum", map[string]any{aggregate: "yes"})
	}
}

// real makes every request as every subject.
func (x *trial) real() map[at]string {
	out := map[at]string{}
	for i, s := range x.subjects {
		for j, r := range x.requests {
			allowed, message := x.do(x, s, r)
			if !allowed {
				out[at{i, j}] = message
			}
		}
	}
	return out
}

// run compares all that the tools say about a case with what the server does.
func (x *trial) run(c Case, seed uint64) {
	policy, change := objects(x, c.Policy), objects(x, c.Change)
	var gone, kept []*unstructured.Unstructured
	for _, object := range policy {
		if slices.Contains(c.Delete, object.GetKind()+"/"+object.GetName()) {
			gone = append(gone, object)
		} else {
			kept = append(kept, object)
		}
	}
	x.install(policy)
	documents := x.applied(x.base, policy)
	before := hostOf(x, x.host, documents)
	from := x.logSize(x)
	was := x.real()
	log := x.recorded(x, from)
	x.reviews(before, was)
	x.whoCan(before, was)
	x.remedies(was)
	x.matrix(before, was)
	x.tested(documents, was)
	x.suggested(before, policy, log, was, x.bound(c.Policy, int(seed%uint64(len(x.subjects)))))

	if gone != nil {
		x.uninstall(gone)
		x.gathered()
	} else {
		x.install(change)
	}
	is := x.real()
	then := x.applied(x.base, kept)
	if gone == nil {
		then = x.applied(then, change)
	}
	after := hostOf(x, before, then)
	x.plan(before, after, was, is, change)
	x.uninstall(slices.Concat(policy, change))
}

// applied is a policy with objects.
func (x *trial) applied(base []manifests.Document, all []*unstructured.Unstructured) []manifests.Document {
	x.Helper()
	var change []manifests.Document
	for _, object := range all {
		change = append(change, manifests.Of(object))
	}
	out, err := policychange.Applied(base, change, false, false)
	if err != nil {
		x.Fatal(err)
	}
	return out
}

// spec is the question about a request.
func (x *trial) spec(r Request) (authz.SubjectAccessReviewSpec, bool) {
	spec := authz.SubjectAccessReviewSpec{Verb: r.verb, ResourceKind: r.kind(), ResourceName: r.object}
	if r.creates {
		return spec, false
	}
	if r.content != nil {
		after, before := r.content(x.stored)
		if after != nil {
			spec.Content = &runtime.RawExtension{Raw: []byte(mustJSON(after))}
		}
		if before != nil {
			spec.OldContent = &runtime.RawExtension{Raw: []byte(mustJSON(before))}
		}
	}
	return spec, true
}

// decides reports whether an answer is what the server did. Without content a review tells what holds for every object.
// What the server refuses for the sake of other objects no review can know. A list that is narrowed is not one of all
// objects, and the reason says so.
func decides(r Request, allowed bool, refused, reason string) bool {
	switch {
	case r.content == nil && (r.verb == "patch" || r.verb == "create"):
		return !allowed || refused == ""
	case r.verb == "list" && !allowed && strings.Contains(reason, "narrowed to"):
		return refused == ""
	case strings.Contains(refused, "this would delete everything in the namespace"):
		return true
	}
	return allowed == (refused == "")
}

// reviews: a review with content decides as the server does, of the server itself and on files (NI-8, PO-15, FP-21).
func (x *trial) reviews(h *offline.Host, refused map[at]string) {
	for i, s := range x.subjects {
		for j, r := range x.requests {
			spec, can := x.spec(r)
			if !can || len(r.also) > 0 && r.verb == "impersonate" || r.resource == "users" {
				continue
			}
			why := refused[at{i, j}]
			status, err := h.Ask(x.Context(), s.info(), r.namespace, spec)
			x.compared++
			if err != nil {
				x.found("files", "%s %s: %v", s.User, r.name, err)
			} else if files := r.verb == "create" && !status.Allowed; !files && !decides(r, status.Allowed, why, status.DenyReason) {
				// Files know no defaults, so rights to single fields may cover less of a new object there.
				x.found("files", "%s %s: allowed is %v, the server says %q; %+v", s.User, r.name, status.Allowed, why, status)
			}
			review := &authz.SubjectAccessReview{Spec: spec}
			path := "/apis/authorization.proviso.dev/v1alpha1/"
			if r.namespace != "" {
				path += "namespaces/" + r.namespace + "/"
			}
			review.APIVersion, review.Kind = "authorization.proviso.dev/v1alpha1", "SubjectAccessReview"
			code, out := x.as(x, s, "POST", path+"subjectaccessreviews", "", []byte(mustJSON(review)), nil)
			x.compared++
			live, _ := out["status"].(map[string]any)
			allowed, _ := live["allowed"].(bool)
			if reason, _ := live["denyReason"].(string); code != 201 && !mayNotAsk(code, out) || code == 201 && !decides(r, allowed, why, reason) {
				x.found("review", "%s %s: %d, allowed is %v, the server says %q; %s", s.User, r.name, code, allowed, why, mustJSON(out))
			}
		}
	}
}

// mayNotAsk reports whether the policy of the case keeps the subject from asking.
func mayNotAsk(code int, out map[string]any) bool {
	message, _ := out["message"].(string)
	return code == 403 && strings.HasPrefix(message, "subjectaccessreviews.")
}

// whoCan: everybody who can is named, or the answer is incomplete (NI-8).
func (x *trial) whoCan(_ *offline.Host, refused map[at]string) {
	for j, r := range x.requests {
		if r.creates || r.verb == "impersonate" {
			continue
		}
		review := &authz.ResourceAccessReview{Spec: authz.ResourceAccessReviewSpec{Verb: r.verb, ResourceKind: r.kind(), ResourceName: r.object}}
		review.APIVersion, review.Kind = "authorization.proviso.dev/v1alpha1", "ResourceAccessReview"
		path := "/apis/authorization.proviso.dev/v1alpha1/"
		if r.namespace != "" {
			path += "namespaces/" + r.namespace + "/"
		}
		code, _, out := x.sudo(x, "POST", path+"resourceaccessreviews", "", []byte(mustJSON(review)))
		if code != 201 {
			x.found("who-can", "%s: %d %v", r.name, code, out["message"])
			continue
		}
		status := statusOf(out)
		for i, s := range x.subjects {
			x.compared++
			if refused[at{i, j}] != "" || status.Incomplete || named(status, s) {
				continue
			}
			x.found("who-can", "%s %s: not named in %s", s.User, r.name, mustJSON(status))
		}
	}
}

func statusOf(out map[string]any) authz.ResourceAccessReviewStatus {
	var review authz.ResourceAccessReview
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(out, &review); err != nil {
		panic(err)
	}
	return review.Status
}

// named reports whether an answer has a subject, or one of their groups.
func named(status authz.ResourceAccessReviewStatus, s Subject) bool {
	groups := append(slices.Clone(s.Groups), "system:authenticated")
	in := func(user, group string) bool {
		return user == s.User && user != "" || group != "" && slices.Contains(groups, group)
	}
	return slices.ContainsFunc(status.UserNames, func(u string) bool { return in(u, "") }) ||
		slices.ContainsFunc(status.GroupNames, func(g string) bool { return in("", g) }) ||
		slices.ContainsFunc(status.Conditional, func(c authz.ConditionalSubject) bool { return in(c.UserName, c.GroupName) })
}

// plan: whoever gains or loses something is named, with what they gain or lose (NI-8, TR-18).
func (x *trial) plan(before, after *offline.Host, was, is map[at]string, change []*unstructured.Unstructured) {
	var documents []manifests.Document
	for _, object := range change {
		documents = append(documents, manifests.Of(object))
	}
	report, err := policychange.Plan(x.Context(), before, after, documents, 0)
	if err != nil {
		x.found("plan", "%v", err)
		return
	}
	for i, s := range x.subjects {
		for j, r := range x.requests {
			x.compared++
			if (was[at{i, j}] == "") == (is[at{i, j}] == "") {
				continue
			}
			if len(report.Unknown) == 0 && !slices.ContainsFunc(report.Changes, func(c policychange.Change) bool { return covers(c, s, r) }) {
				x.found("plan", "%s %s: was %q, is %q, and the plan has no such change: %s", s.User, r.name, was[at{i, j}], is[at{i, j}], mustJSON(report.Changes))
			}
		}
	}
}

// covers reports whether a change is about a request of a subject.
func covers(c policychange.Change, s Subject, r Request) bool {
	who := c.Subjects
	if c.Subject != nil {
		who = append(slices.Clone(who), *c.Subject)
	}
	if !slices.ContainsFunc(who, func(o offline.Subject) bool {
		return o.User == s.User && s.User != "" || o.Group != "" && slices.Contains(append(slices.Clone(s.Groups), "system:authenticated"), o.Group)
	}) {
		return false
	}
	return slices.ContainsFunc(append([]Request{r}, r.also...), func(r Request) bool {
		if r.url != "" {
			return c.Path != "" && c.Verb == r.verb
		}
		resource := r.resource
		if r.sub != "" {
			resource += "/" + r.sub
		}
		if r.verb == "delete" && r.resource == "namespaces" && c.Verb == "delete" && (c.Namespace == r.object || c.Namespace == "*" || c.Namespace == "(others)") {
			return true // a rule that denies the deletion of something in it denies this, too
		}
		namespace := r.namespace
		inPlace := c.Namespace == namespace || c.Namespace == "*" || c.Namespace == "(others)" && namespace != ""
		return c.APIGroup == r.group && c.Resource == resource && (c.Verb == r.verb || strings.HasPrefix(c.Verb, "granular")) && inPlace &&
			!slices.Contains(c.ExceptNamespaces, namespace) && (c.Name == "" || c.Name == r.object || r.object == "") && !slices.Contains(c.ExceptNames, r.object)
	})
}
