package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// FP-5, FP-15: a general writer and fields that are withheld.
func (f *fieldWorld) exclusiveFields(t *testing.T) {
	f.declare(t, "guarded-label", `{"resources":["*"],"field":".metadata.labels[guarded.com/x]","permission":"example.com/guard","exclusive":true}`)
	f.declare(t, "pod-note", `{"resources":["pods"],"field":".metadata.annotations[example.com/note]","permission":"example.com/note","exclusive":true}`)
	f.declare(t, "privileged", `{"resources":["pods"],"field":".spec.containers[].securityContext.allowPrivilegeEscalation","permission":"example.com/privilege","exclusive":true,"exclusiveWhen":"self == true"}`)
	web := dryRun(deployments + "/web")
	merge := func(user, body string) answer { return f.as(t, user, http.MethodPatch, web, mergePatch, body) }
	const guard = "field .metadata.labels[guarded.com/x] needs granular:example.com/guard"
	f.settled(t, "the exclusive fields", func() bool { return merge("general", `{"metadata":{"labels":{"guarded.com/x":"1"}}}`).code == 403 })
	refused(t, "general", merge("general", `{"metadata":{"labels":{"guarded.com/x":"1"}}}`), guard)
	refused(t, "an ancestor's permission does not cover it", merge("meta", `{"metadata":{"labels":{"guarded.com/x":"1"}}}`), guard)
	allowed(t, "another label", merge("general", `{"metadata":{"labels":{"guarded.com/y":"1"}}}`))
	allowed(t, "the admin", merge("admin", `{"metadata":{"labels":{"guarded.com/x":"1"}}}`))
	f.admin(t, http.MethodPatch, deployments+"/web", mergePatch, `{"metadata":{"labels":{"guarded.com/x":"1"}}}`)
	allowed(t, "left as it is", merge("general", `{"metadata":{"labels":{"guarded.com/x":"1","other":"1"}}}`))
	refused(t, "removed", merge("general", `{"metadata":{"labels":{"guarded.com/x":null}}}`), guard)
	refused(t, "all labels away", merge("general", `{"metadata":{"labels":null}}`), guard)
	refused(t, "emptied", merge("general", `{"metadata":{"labels":{"guarded.com/x":""}}}`), guard)
	refused(t, "a whole object without it", f.as(t, "general", http.MethodPut, web, jsonBody, webBody), guard)
	refused(t, "moved away", f.as(t, "general", http.MethodPatch, web, jsonPatch, `[{"op":"move","from":"/metadata/labels/guarded.com~1x","path":"/metadata/labels/a"}]`), guard)
	refused(t, "created with it", f.as(t, "general", http.MethodPost, dryRun("/api/v1/namespaces/default/configmaps"), jsonBody, `{"metadata":{"generateName":"x-","labels":{"guarded.com/x":"1"}}}`), guard)
	refused(t, "applied with it", f.as(t, "general", http.MethodPatch, dryRun(namespaced("configmaps", "n"))+"&fieldManager=me", applyPatch, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n","labels":{"guarded.com/x":"1"}}}`), guard)
	// In templates of pods, wherever they are (FP-15).
	pod := `{"metadata":{"labels":{"app":"web"},"annotations":{"example.com/note":"x"}},"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}`
	job := `{"metadata":{"generateName":"j-"},"spec":{"template":` + pod + `}}`
	refused(t, "in a job", f.as(t, "general", http.MethodPost, dryRun("/apis/batch/v1/namespaces/default/jobs"), jsonBody, job), "needs granular:example.com/note")
	refused(t, "in a cron job", f.as(t, "general", http.MethodPost, dryRun("/apis/batch/v1/namespaces/default/cronjobs"), jsonBody,
		`{"metadata":{"generateName":"j-"},"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{"template":`+pod+`}}}}`),
		"field .spec.jobTemplate.spec.template.metadata.annotations[example.com/note] needs granular:example.com/note")
	refused(t, "in a pod template", f.as(t, "general", http.MethodPost, dryRun("/api/v1/namespaces/default/podtemplates"), jsonBody,
		`{"metadata":{"generateName":"t-"},"template":`+pod+`}`), "needs granular:example.com/note")
	allowed(t, "on a job itself", f.as(t, "general", http.MethodPost, dryRun("/apis/batch/v1/namespaces/default/jobs"), jsonBody,
		`{"metadata":{"generateName":"j-","annotations":{"example.com/note":"x"}},"spec":{"template":`+strings.Replace(pod, `"example.com/note":"x"`, `"other":"x"`, 1)+`}}`))
	privileged := func(value string) answer {
		return f.as(t, "general", http.MethodPost, dryRun("/apis/batch/v1/namespaces/default/jobs"), jsonBody,
			`{"metadata":{"generateName":"j-"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"i"},{"name":"c","image":"i","securityContext":{"allowPrivilegeEscalation":`+value+`}}]}}}}`)
	}
	refused(t, "a value that is exclusive", privileged("true"), "field .spec.template.spec.containers[c].securityContext.allowPrivilegeEscalation needs granular:example.com/privilege")
	allowed(t, "a value that is not", privileged("false"))
}

// FP-6, FP-7: subresources that write the same object, or stand for fields of it.
func (f *fieldWorld) subresources(t *testing.T) {
	f.admin(t, http.MethodPost, "/api/v1/nodes", jsonBody, `{"metadata":{"name":"n1"}}`)
	node := dryRun("/api/v1/nodes/n1/status")
	const guard = "granular:example.com/guard"
	refused(t, "a label through the status of a node", f.as(t, "general", http.MethodPatch, node, mergePatch, `{"metadata":{"labels":{"guarded.com/x":"1"}}}`), guard)
	allowed(t, "another one", f.as(t, "general", http.MethodPatch, node, mergePatch, `{"metadata":{"labels":{"free":"1"}}}`))
	refused(t, "status is not metadata", f.as(t, "meta", http.MethodPatch, node, mergePatch, `{"status":{"phase":"Running"}}`), "granular:status")
	refused(t, "a condition", f.as(t, "meta", http.MethodPatch, node, mergePatch, `{"status":{"conditions":[{"type":"Hot","status":"True"}]}}`), "granular:condition(Hot) (or granular:conditions, granular:status)")

	scale := dryRun(deployments + "/web/scale")
	body := `{"spec":{"replicas":3}}`
	allowed(t, "replicas by scale", f.as(t, "size", http.MethodPatch, scale, mergePatch, body))
	allowed(t, "replicas of the object", f.as(t, "size", http.MethodPatch, dryRun(deployments+"/web"), mergePatch, body))
	refused(t, "replicas without the permission", f.as(t, "label", http.MethodPatch, scale, mergePatch, body), "granular:replicas")
	f.declare(t, "size", `{"resources":["deployments.apps"],"field":".spec.replicas","permission":"example.com/size","exclusive":true}`)
	f.settled(t, "the exclusive size", func() bool {
		return f.as(t, "general", http.MethodPatch, dryRun(deployments+"/web"), mergePatch, body).code == 403
	})
	refused(t, "exclusive replicas by scale", f.as(t, "general", http.MethodPatch, scale, mergePatch, body), "field .spec.replicas needs granular:example.com/size")
	allowed(t, "the same replicas by scale", f.as(t, "general", http.MethodPatch, scale, mergePatch, `{"spec":{"replicas":1}}`))
	refused(t, "a binding", f.as(t, "meta", http.MethodPost, namespaced("pods", "p")+"/binding", jsonBody,
		`{"apiVersion":"v1","kind":"Binding","metadata":{"name":"p"},"target":{"apiVersion":"v1","kind":"Node","name":"n1"}}`), "granular:nodeAssignment")
	refused(t, "finalize", f.as(t, "meta", http.MethodPut, dryRun("/api/v1/namespaces/default/finalize"), jsonBody,
		`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"default"},"spec":{"finalizers":[]}}`), "granular:specification")
}

// FP-10: the version of the request makes no difference, even where it has the field elsewhere.
func (f *fieldWorld) versions(t *testing.T) {
	f.admin(t, http.MethodPost, hpas2, jsonBody, `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"h"},"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},
"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}]}}`)
	f.declare(t, "metrics", `{"resources":["horizontalpodautoscalers.autoscaling"],"field":".spec.metrics","permission":"example.com/metrics","exclusive":true}`)
	v1, v2 := dryRun(hpas1+"/h"), dryRun(hpas2+"/h")
	const needs = "field .spec.metrics needs granular:example.com/metrics"
	two := func(n int) string {
		return fmt.Sprintf(`{"spec":{"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":%d}}}]}}`, n)
	}
	f.settled(t, "the exclusive metrics", func() bool { return f.as(t, "general", http.MethodPatch, v2, mergePatch, two(60)).code == 403 })
	refused(t, "v2", f.as(t, "general", http.MethodPatch, v2, mergePatch, two(60)), needs)
	refused(t, "v1, where the field has another name", f.as(t, "general", http.MethodPatch, v1, mergePatch, `{"spec":{"targetCPUUtilizationPercentage":60}}`), needs)
	refused(t, "v1, by an annotation that becomes the field", f.as(t, "general", http.MethodPatch, v1, mergePatch,
		`{"metadata":{"annotations":{"autoscaling.alpha.kubernetes.io/metrics":"[{\"type\":\"Resource\",\"resource\":{\"name\":\"memory\",\"targetAverageUtilization\":5}}]"}}}`), needs)
	allowed(t, "v1, another field", f.as(t, "general", http.MethodPatch, v1, mergePatch, `{"spec":{"maxReplicas":4}}`))
	allowed(t, "v2, another field", f.as(t, "general", http.MethodPatch, v2, mergePatch, `{"spec":{"maxReplicas":4}}`))
	for _, path := range []string{v1, v2} {
		allowed(t, "specification in "+path, f.as(t, "spec", http.MethodPatch, path, mergePatch, `{"spec":{"maxReplicas":5}}`))
		refused(t, "label in "+path, f.as(t, "label", http.MethodPatch, path, mergePatch, `{"spec":{"maxReplicas":5}}`), "granular:specification")
	}
}

const thingsDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.fields.example.com"},
"spec":{"group":"fields.example.com","scope":"Namespaced","names":{"plural":"things","singular":"thing","kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":true,
"subresources":{"status":{},"scale":{"specReplicasPath":".spec.size","statusReplicasPath":".status.size"}},
"schema":{"openAPIV3Schema":{"type":"object","properties":{"status":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
"spec":{"type":"object","default":{},"properties":{"size":{"type":"integer"},"mode":{"type":"string","default":"slow"},"boom":{"type":"boolean"},
"parts":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"kind":{"type":"string"}}}},
"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}}}}}]}}`

// FP-7: custom resources, by their own schema.
func (f *fieldWorld) customResources(t *testing.T) {
	f.apply(t, definitions+"/things.fields.example.com", thingsDefinition)
	body := `{"apiVersion":"fields.example.com/v1","kind":"Thing","metadata":{"name":"t"},"spec":{"size":1,"parts":[{"name":"a","kind":"x"},{"name":"b","kind":"y"}],"free":{"secret":"s","rest":1}}}`
	f.settled(t, "the definition", func() bool {
		code := f.as(t, "admin", http.MethodPost, things, jsonBody, body).code
		return code == http.StatusCreated || code == http.StatusConflict
	})
	f.declare(t, "boom", `{"resources":["things.fields.example.com"],"field":".spec.boom","permission":"example.com/selfDestruct","exclusive":true,"exclusiveWhen":"self == true"}`)
	f.declare(t, "secret", `{"resources":["things.fields.example.com"],"field":".spec.free.secret","permission":"example.com/secret","exclusive":true}`)
	f.declare(t, "part", `{"resources":["things.fields.example.com"],"field":".spec.parts[]","permission":"example.com/part","parameter":{"from":"element.kind"}}`)
	f.grant(t, "parts", []string{"fields.example.com"}, []string{"*"}, "get", "granular", "granular:example.com/part(x)")
	thing := dryRun(things + "/t")
	merge := func(user, body string) answer { return f.as(t, user, http.MethodPatch, thing, mergePatch, body) }
	f.settled(t, "the declarations", func() bool {
		return merge("general", `{"spec":{"free":{"secret":"x"}}}`).code == 403 && f.may(t, "parts", "fields.example.com", "things", "granular:example.com/part(x)")
	})
	refused(t, "boom", merge("general", `{"spec":{"boom":true}}`), "field .spec.boom needs granular:example.com/selfDestruct")
	allowed(t, "no boom", merge("general", `{"spec":{"boom":false}}`))
	refused(t, "inside of what has no schema", merge("general", `{"spec":{"free":{"secret":"x"}}}`), "granular:example.com/secret")
	refused(t, "all of what has no schema", merge("general", `{"spec":{"free":null}}`), "granular:example.com/secret")
	allowed(t, "beside it", merge("general", `{"spec":{"free":{"rest":2}}}`))
	refused(t, "an unknown field inside", merge("label", `{"spec":{"free":{"more":{"deep":1}}}}`), "granular:specification")
	refused(t, "unknown fields of the status", f.as(t, "label", http.MethodPatch, dryRun(things+"/t/status"), mergePatch, `{"status":{"any":1}}`), "granular:status")
	parts := func(list string) answer { return merge("parts", `{"spec":{"parts":[`+list+`]}}`) }
	allowed(t, "parts in another order", parts(`{"name":"b","kind":"y"},{"name":"a","kind":"x"}`))
	allowed(t, "a part of the right kind", parts(`{"name":"a","kind":"x"},{"name":"b","kind":"y"},{"name":"c","kind":"x"}`))
	refused(t, "a part of the wrong kind", parts(`{"name":"a","kind":"x"},{"name":"b","kind":"y"},{"name":"c","kind":"z"}`), "granular:example.com/part(z)")
	refused(t, "a part that becomes another kind", parts(`{"name":"a","kind":"y"},{"name":"b","kind":"y"}`), "granular:example.com/part(y)")
	allowed(t, "replicas of the object", merge("size", `{"spec":{"size":2}}`))
	allowed(t, "replicas by scale", f.as(t, "size", http.MethodPatch, dryRun(things+"/t/scale"), mergePatch, `{"spec":{"replicas":2}}`))
	refused(t, "replicas by scale without it", f.as(t, "label", http.MethodPatch, dryRun(things+"/t/scale"), mergePatch, `{"spec":{"replicas":2}}`), "granular:replicas")
	// The default of mode does not count, another value does.
	create := func(mode string) answer {
		return f.as(t, "label", http.MethodPost, dryRun(things), jsonBody, `{"apiVersion":"fields.example.com/v1","kind":"Thing","metadata":{"name":"new","labels":{"own.com/a":"1"}},"spec":{`+mode+`}}`)
	}
	allowed(t, "created with a default", create(""))
	allowed(t, "created with the default said", create(`"mode":"slow"`))
	refused(t, "created with another value", create(`"mode":"fast"`), "granular:specification")
}

// FP-7: what a mutating policy adds, counts: the stored object is what is checked.
func (f *fieldWorld) mutation(t *testing.T) {
	f.apply(t, "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies/fields", `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingAdmissionPolicy","metadata":{"name":"fields"},"spec":{"failurePolicy":"Fail","reinvocationPolicy":"Never",
"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["UPDATE"],"resources":["secrets"]}]},
"mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{metadata: Object.metadata{labels: {\"guarded.com/x\": \"1\"}}}"}}]}}`)
	f.apply(t, "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings/fields", `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingAdmissionPolicyBinding","metadata":{"name":"fields"},"spec":{"policyName":"fields"}}`)
	f.admin(t, http.MethodPost, "/api/v1/namespaces/default/secrets", jsonBody, `{"metadata":{"name":"s"}}`)
	secret := dryRun(namespaced("secrets", "s"))
	f.settled(t, "the mutating policy", func() bool {
		return f.as(t, "general", http.MethodPatch, secret, mergePatch, `{"metadata":{"labels":{"free":"1"}}}`).code == 403
	})
	refused(t, "general", f.as(t, "general", http.MethodPatch, secret, mergePatch, `{"metadata":{"labels":{"free":"1"}}}`), "granular:example.com/guard")
	refused(t, "granular", f.as(t, "label", http.MethodPatch, secret, mergePatch, `{"metadata":{"labels":{"own.com/a":"1"}}}`), "granular:example.com/guard")
}

// FP-8, FP-12: how many checks a request takes, and that the audit event says which.
func (f *fieldWorld) numberOfChecks(t *testing.T) {
	cm := dryRun(namespaced("configmaps", "cm"))
	labels := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"p%d.com/x":"1"`, i))
		}
		return `{"metadata":{"labels":{` + strings.Join(all, ",") + `}}}`
	}
	count := func(user, body string, code int, want int, decided string) []string {
		t.Helper()
		a := f.as(t, user, http.MethodPatch, cm, mergePatch, body)
		if a.code != code {
			t.Errorf("%s: %d %s", user, a.code, a.message)
		}
		decision, checks := f.checks(t, a)
		if len(checks) != want || decision != decided {
			t.Errorf("%s was checked %d times and %q, want %d and %q: %v", user, len(checks), decision, want, decided, checks)
		}
		return checks
	}
	count("meta", labels(100), http.StatusOK, 1, "allow")
	first := count("label", `{"metadata":{"labels":{"own.com/x":"1","own.com/y":"1"}}}`, http.StatusOK, 3, "allow")
	if got := strings.Join(first, " "); got != "granular:metadata=no granular:labels=no granular:label(own.com)=allow" {
		t.Errorf("checked in the order %s", got)
	}
	count("label", labels(3), http.StatusForbidden, 3, "forbid") // it stops at the first that is missing
	count("general", `{"data":{"x":"y"}}`, http.StatusOK, 0, "")
	var verbs []string
	for i := range 40 {
		verbs = append(verbs, fmt.Sprintf("granular:label(p%d.com)", i))
	}
	f.grant(t, "many", []string{""}, []string{"configmaps"}, append(verbs, "granular")...)
	f.settled(t, "the many rights", func() bool { return f.may(t, "many", "", "configmaps", "granular:label(p39.com)") })
	count("many", labels(30), http.StatusOK, 32, "allow")
	count("many", labels(31), http.StatusForbidden, 32, "forbid")
	refused(t, "too many", f.as(t, "many", http.MethodPatch, cm, mergePatch, labels(31)), "more than 32 checks")
}

// FP-4: a declaration that is deleted has no effect any more.
func (f *fieldWorld) removedAgain(t *testing.T) {
	web := dryRun(deployments + "/web")
	f.admin(t, http.MethodDelete, fieldsGroup+"/guarded-label", jsonBody, "")
	f.settled(t, "the end of the exclusive label", func() bool {
		return f.as(t, "general", http.MethodPatch, web, mergePatch, `{"metadata":{"labels":{"guarded.com/x":"2"}}}`).code == 200
	})
}
