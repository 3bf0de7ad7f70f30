package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

const (
	deployments = "/apis/apps/v1/namespaces/default/deployments"
	hpas1       = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
	hpas2       = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
	things      = "/apis/fields.example.com/v1/namespaces/default/things"
	definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
)

const webBody = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","labels":{"app":"web"},"finalizers":["other.com/a","own.com/b"]},
"spec":{"replicas":1,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},
"spec":{"containers":[{"name":"one","image":"nginx"},{"name":"two","image":"redis"}]}}}}`

// declare stores a field permission, as JSON of its spec.
func (f *fieldWorld) declare(t *testing.T, name, spec string) {
	t.Helper()
	f.apply(t, fieldsGroup+"/"+name, fmt.Sprintf(`{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"FieldPermission","metadata":{"name":%q},"spec":%s}`, name, spec))
}

// install makes the users and the objects. general may write everything, and holds no permission for single fields.
func (f *fieldWorld) install(t *testing.T) {
	all := []string{"*"}
	f.grant(t, "general", all, all, "get", "list", "create", "update", "patch", "delete")
	f.grant(t, "label", all, all, "get", "granular", "granular:label(own.com)", "granular:annotation(own.com)", "granular:finalizer(own.com)")
	f.grant(t, "spec", all, all, "get", "granular", "granular:specification", "granular:labels")
	f.grant(t, "size", all, all, "get", "granular", "granular:replicas")
	f.grant(t, "locked", all, all, "get", "granular:metadata") // without granular
	f.grant(t, "meta", all, all, "get", "granular", "granular:metadata")
	f.admin(t, http.MethodPost, deployments, jsonBody, webBody)
	f.settled(t, "the rights", func() bool { return f.may(t, "meta", "apps", "deployments", "granular:metadata") })
}

// FP-1, FP-4: what is wrong is named, and nothing is stored.
func (f *fieldWorld) badInput(t *testing.T) {
	for name, tc := range map[string]struct{ spec, field, says string }{
		"dots":         {`{"resources":["pods"],"field":".spec.nodeName","permission":"example.com/pod.node"}`, "spec.permission", "must not contain dots"},
		"no-domain":    {`{"resources":["pods"],"field":".spec.nodeName","permission":"node"}`, "spec.permission", "must have a domain prefix"},
		"camel":        {`{"resources":["pods"],"field":".spec.nodeName","permission":"example.com/Node"}`, "spec.permission", "lowerCamelCase"},
		"no-field":     {`{"resources":["pods"],"field":".spec.nodename","permission":"example.com/node"}`, "spec.field", "did you mean .spec.nodeName?"},
		"below":        {`{"resources":["pods"],"field":".spec.nodeName.x","permission":"example.com/node"}`, "spec.field", "nothing lies below it"},
		"map":          {`{"resources":["pods"],"field":".metadata.labels.x","permission":"example.com/node"}`, "spec.field", "write its key in brackets"},
		"identity":     {`{"resources":["pods"],"field":".metadata.name","permission":"example.com/node"}`, "spec", "never needs a permission"},
		"cel":          {`{"resources":["pods"],"field":".spec.nodeName","permission":"example.com/node","exclusive":true,"exclusiveWhen":"self ="}`, "spec.exclusiveWhen", "line 1, column"},
		"cel-type":     {`{"resources":["pods"],"field":".spec.nodeName","permission":"example.com/node","exclusive":true,"exclusiveWhen":"1"}`, "spec.exclusiveWhen", "must evaluate to bool"},
		"when":         {`{"resources":["pods"],"field":".spec.nodeName","permission":"example.com/node","exclusiveWhen":"true"}`, "spec.exclusiveWhen", "exclusive: true"},
		"parameter":    {`{"resources":["pods"],"field":".spec.nodeName","permission":"example.com/node","parameter":{"from":"nonsense("}}`, "spec.parameter.from", "line 1, column"},
		"treatment":    {`{"resources":["pods"],"field":".metadata.labels[]","permission":"example.com/node","parameter":{"from":"key","treatment":"prefix"}}`, "spec.parameter.treatment", "slash-delimited-prefix"},
		"no-resources": {`{"resources":[],"field":".spec.nodeName","permission":"example.com/node"}`, "spec.resources", "at least one resource"},
		"subresource":  {`{"resources":["pods/status"],"field":".spec.nodeName","permission":"example.com/node"}`, "spec.resources[0]", "without a subresource"},
	} {
		body := fmt.Sprintf(`{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"FieldPermission","metadata":{"name":%q},"spec":%s}`, name, tc.spec)
		a := f.as(t, "admin", http.MethodPost, fieldsGroup, jsonBody, body)
		if a.code != http.StatusUnprocessableEntity || !strings.Contains(a.message, tc.field) || !strings.Contains(a.message, tc.says) {
			t.Errorf("%s: %d %s", name, a.code, a.message)
		}
	}
	// FP-4: writing one needs escalate, which general does not have.
	a := f.as(t, "general", http.MethodPost, fieldsGroup, jsonBody,
		`{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"FieldPermission","metadata":{"name":"x"},"spec":{"resources":["pods"],"field":".spec.nodeName","permission":"example.com/node"}}`)
	refused(t, "without escalate", a, `needs the verb "escalate"`)
}

// FP-6
func (f *fieldWorld) whoGetsIn(t *testing.T) {
	web := deployments + "/web"
	own := `{"metadata":{"labels":{"own.com/a":"1"}}}`
	allowed(t, "with granular", f.as(t, "label", http.MethodPatch, web, mergePatch, own))
	refused(t, "without granular", f.as(t, "locked", http.MethodPatch, web, mergePatch, own), "cannot patch resource")
	refused(t, "nothing at all", f.as(t, "nobody", http.MethodPatch, web, mergePatch, own), "cannot patch resource")
	// The body is read only for those who may get that far.
	refused(t, "nonsense without granular", f.as(t, "locked", http.MethodPatch, web, mergePatch, "{"), "cannot patch resource")
	if a := f.as(t, "label", http.MethodPatch, web, mergePatch, "{"); a.code != http.StatusBadRequest {
		t.Errorf("nonsense with granular: %d %s", a.code, a.message)
	}
	// What writes no fields of an object stays closed.
	f.admin(t, http.MethodPost, "/api/v1/namespaces/default/serviceaccounts", jsonBody, `{"metadata":{"name":"robot"}}`)
	for path, body := range map[string]string{
		namespaced("serviceaccounts", "robot") + "/token": `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`,
		namespaced("pods", "any") + "/eviction":           `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"any"}}`,
		namespaced("pods", "any") + "/exec?command=id":    ``,
	} {
		refused(t, path, f.as(t, "meta", http.MethodPost, path, jsonBody, body), "cannot create resource")
	}
	refused(t, "delete", f.as(t, "meta", http.MethodDelete, web, jsonBody, ""), "cannot delete resource")
	refused(t, "deletecollection", f.as(t, "meta", http.MethodDelete, deployments, jsonBody, ""), "cannot deletecollection resource")
}

// FP-6, FP-8: conditions of all sorts, by Policy.
func (f *fieldWorld) conditions(t *testing.T) {
	const own = "/apis/authorization.proviso.dev/v1alpha1/namespaces/default/"
	f.apply(t, "/apis/policy.proviso.dev/v1alpha1/namespaces/default/policies/default", `{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"Policy","metadata":{"name":"default"}}`)
	f.apply(t, "/apis/policy.proviso.dev/v1alpha1/namespaces/default/policybindings/default", `{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"PolicyBinding","metadata":{"name":"default"}}`)
	role := func(user, rules string) {
		f.apply(t, own+"roles/"+user, fmt.Sprintf(`{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"Role","metadata":{"name":%q},"rules":%s}`, user, rules))
		f.apply(t, own+"rolebindings/"+user, fmt.Sprintf(`{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"RoleBinding","metadata":{"name":%q},"roleRef":{"namespace":"default","name":%q},"userNames":[%q]}`, user, user, user))
	}
	const everything = `{"verbs":["get","granular","granular:metadata","granular:data"],"resourceKinds":["configmaps"]}`
	role("denied", `[`+everything+`,{"deny":true,"verbs":["update","patch"],"resourceKinds":["configmaps"]}]`)
	role("denied-if", `[`+everything+`,{"deny":true,"verbs":["update","patch"],"resourceKinds":["configmaps"],"when":"object.metadata.?labels[?'locked'].orValue('') == 'yes'"}]`)
	role("allowed-if", `[{"verbs":["get","granular","granular:labels"],"resourceKinds":["configmaps"]},{"verbs":["update","patch"],"resourceKinds":["configmaps"],"when":"object.metadata.?labels[?'team'].orValue('') == 'core'"}]`)
	role("granular-if", `[{"verbs":["get"],"resourceKinds":["configmaps"]},{"verbs":["granular"],"resourceKinds":["configmaps"],"when":"object.metadata.?labels[?'open'].orValue('') == 'yes'"},{"verbs":["granular:labels"],"resourceKinds":["configmaps"]}]`)
	role("field-if", `[{"verbs":["get","granular"],"resourceKinds":["configmaps"]},{"verbs":["granular:labels"],"resourceKinds":["configmaps"],"when":"object.metadata.?labels[?'open'].orValue('') == 'yes'"}]`)
	f.admin(t, http.MethodPost, "/api/v1/namespaces/default/configmaps", jsonBody, `{"metadata":{"name":"cm"},"data":{"a":"1"}}`)
	cm := dryRun(namespaced("configmaps", "cm"))
	patch := func(user, body string) answer { return f.as(t, user, http.MethodPatch, cm, mergePatch, body) }
	f.settled(t, "the policy", func() bool {
		return f.may(t, "field-if", "", "configmaps", "granular") && patch("allowed-if", `{"metadata":{"labels":{"team":"core"}},"data":{"a":"2"}}`).code == 200
	})
	refused(t, "a deny is final", patch("denied", `{"metadata":{"labels":{"a":"1"}}}`), "denied by RoleBinding")
	allowed(t, "a conditional deny that does not hold", patch("denied-if", `{"metadata":{"labels":{"a":"1"}}}`))
	refused(t, "a conditional deny that holds is final", patch("denied-if", `{"metadata":{"labels":{"locked":"yes"}}}`), "denied")
	allowed(t, "the general verb's condition holds", patch("allowed-if", `{"metadata":{"labels":{"team":"core"}},"data":{"a":"2"}}`))
	allowed(t, "it does not, and the fields are covered", patch("allowed-if", `{"metadata":{"labels":{"team":"edge"}}}`))
	refused(t, "it does not, and a field is not covered", patch("allowed-if", `{"metadata":{"labels":{"team":"edge"}},"data":{"a":"2"}}`), "field .data[a]")
	allowed(t, "granular under a condition that holds", patch("granular-if", `{"metadata":{"labels":{"open":"yes"}}}`))
	refused(t, "granular under a condition that does not hold", patch("granular-if", `{"metadata":{"labels":{"open":"no"}}}`), "was not met")
	allowed(t, "a field's permission under a condition that holds", patch("field-if", `{"metadata":{"labels":{"open":"yes"}}}`))
	refused(t, "a field's permission under a condition that does not hold", patch("field-if", `{"metadata":{"labels":{"open":"no"}}}`), "needs granular:label(open)")
}

// FP-7: what changed, whatever way it was sent.
func (f *fieldWorld) granularWrites(t *testing.T) {
	web := dryRun(deployments + "/web")
	merge := func(body string) answer { return f.as(t, "label", http.MethodPatch, web, mergePatch, body) }
	ops := func(body string) answer { return f.as(t, "label", http.MethodPatch, web, jsonPatch, body) }
	put := func(change func(string) string) answer {
		body := strings.Replace(webBody, `"app":"web"},"fin`, `"app":"web","own.com/a":"1"},"fin`, 1)
		return f.as(t, "label", http.MethodPut, web, jsonBody, change(body))
	}
	const spec, label = "granular:specification", "granular:label(other.com)"

	allowed(t, "whole object, own label", put(func(s string) string { return s }))
	allowed(t, "containers in another order", put(func(s string) string {
		return strings.Replace(s, `{"name":"one","image":"nginx"},{"name":"two","image":"redis"}`, `{"name":"two","image":"redis"},{"name":"one","image":"nginx"}`, 1)
	}))
	refused(t, "containers in another order, with another image", put(func(s string) string {
		return strings.Replace(s, `{"name":"one","image":"nginx"},{"name":"two","image":"redis"}`, `{"name":"two","image":"nginx"},{"name":"one","image":"redis"}`, 1)
	}), spec)
	allowed(t, "finalizers in another order", put(func(s string) string {
		return strings.Replace(s, `["other.com/a","own.com/b"]`, `["own.com/b","other.com/a"]`, 1)
	}))
	refused(t, "the other's finalizer is gone", put(func(s string) string { return strings.Replace(s, `"other.com/a",`, ``, 1) }), "granular:finalizer(other.com)")
	allowed(t, "own finalizer is gone", put(func(s string) string { return strings.Replace(s, `,"own.com/b"`, ``, 1) }))
	allowed(t, "defaults left out, null and empty", put(func(s string) string {
		return strings.Replace(s, `"spec":{"replicas":1,`, `"spec":{"strategy":{},"minReadySeconds":0,"paused":false,"progressDeadlineSeconds":null,`, 1)
	}))
	refused(t, "a value other than the default", put(func(s string) string {
		return strings.Replace(s, `"spec":{"replicas":1,`, `"spec":{"minReadySeconds":1,`, 1)
	}), spec)
	refused(t, "a field twice, the last counts", put(func(s string) string {
		return strings.Replace(s, `"spec":{"replicas":1,`, `"spec":{"replicas":1,"replicas":2,`, 1)
	}), "granular:replicas")
	refused(t, "labels twice, the last count", put(func(s string) string {
		return strings.Replace(s, `"finalizers"`, `"labels":{"app":"web","other.com/x":"1"},"finalizers"`, 1)
	}), label)

	refused(t, "all labels away", merge(`{"metadata":{"labels":null}}`), "granular:label(app)")
	allowed(t, "own labels away", merge(`{"metadata":{"labels":{"own.com/a":null}}}`))
	refused(t, "copy into another's label", ops(`[{"op":"copy","from":"/metadata/labels/app","path":"/metadata/labels/other.com~1x"}]`), label)
	allowed(t, "copy into an own label", ops(`[{"op":"copy","from":"/metadata/labels/app","path":"/metadata/labels/own.com~1x"}]`))
	refused(t, "move to an own label", ops(`[{"op":"move","from":"/metadata/labels/app","path":"/metadata/labels/own.com~1x"}]`), "granular:label(app)")
	allowed(t, "test alone", ops(`[{"op":"test","path":"/metadata/labels/app","value":"web"}]`))
	allowed(t, "there and back", ops(`[{"op":"add","path":"/spec/paused","value":true},{"op":"remove","path":"/spec/paused"}]`))
	refused(t, "template labels are not labels", merge(`{"spec":{"template":{"metadata":{"labels":{"own.com/a":"1"}}}}}`), spec)
	refused(t, "strategic list", f.as(t, "label", http.MethodPatch, web, strategic, `{"spec":{"template":{"spec":{"containers":[{"name":"one","image":"evil"}]}}}}`), spec)
	apply := func(user, body string) answer {
		return f.as(t, user, http.MethodPatch, web+"&fieldManager=me&force=true", applyPatch, body)
	}
	const head = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"`
	allowed(t, "apply an own label", apply("label", head+`,"labels":{"own.com/a":"2"}}}`))
	refused(t, "apply by force what another has", apply("label", head+`,"labels":{"app":"mine"}}}`), "granular:label(app)")
	refused(t, "apply by force what is there already: he would manage it", apply("label", head+`,"labels":{"app":"web"}}}`), "granular:label(app)")
	refused(t, "apply another image", apply("label", head+`},"spec":{"template":{"spec":{"containers":[{"name":"one","image":"evil"}]}}}}`), spec)
	// Creating: every field counts that is not a default.
	refused(t, "create", f.as(t, "label", http.MethodPost, dryRun(deployments), jsonBody, strings.Replace(webBody, `"web"`, `"new"`, 1)), "granular:")
	allowed(t, "create with everything covered", f.as(t, "spec", http.MethodPost, dryRun(deployments), jsonBody,
		`{"metadata":{"name":"new","labels":{"app":"web"}},"spec":{"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"one","image":"nginx"}]}}}}`))
	refused(t, "create with an annotation", f.as(t, "spec", http.MethodPost, dryRun(deployments), jsonBody,
		`{"metadata":{"name":"new","annotations":{"a":"b"}},"spec":{"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"one","image":"nginx"}]}}}}`), "granular:annotation(a)")
	allowed(t, "a namespace has a label by default", f.as(t, "spec", http.MethodPost, dryRun("/api/v1/namespaces"), jsonBody, `{"metadata":{"name":"fresh"}}`))
	// An update or apply that creates is a create.
	refused(t, "apply that creates", f.as(t, "label", http.MethodPatch, dryRun(namespaced("configmaps", "new"))+"&fieldManager=me", applyPatch,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new","labels":{"own.com/a":"1"}},"data":{"a":"b"}}`), "field .data[a]")
	allowed(t, "apply that creates what is covered", f.as(t, "label", http.MethodPatch, dryRun(namespaced("configmaps", "new"))+"&fieldManager=me", applyPatch,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new","labels":{"own.com/a":"1"}}}`))
}
