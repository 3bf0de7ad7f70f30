package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// managersOf reads the managedFields of an object as they are stored.
func (f *fieldWorld) managersOf(t *testing.T, path string) []map[string]any {
	t.Helper()
	object := f.admin(t, http.MethodGet, path, jsonBody, "").body
	list, _ := object["metadata"].(map[string]any)["managedFields"].([]any)
	var all []map[string]any
	for _, raw := range list {
		all = append(all, raw.(map[string]any))
	}
	return all
}

// withManagers is a merge patch that changes an own label and replaces managedFields.
func withManagers(t *testing.T, entries []map[string]any) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{"own.com/m": "1"}, "managedFields": entries}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// FP-6, FP-7: who manages a field decides what others' next apply removes. Who may not change a field may not change
// that.
func (f *fieldWorld) managers(t *testing.T) {
	const path = "/api/v1/namespaces/default/configmaps/managed"
	const flux = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"managed","labels":{"app":"web"}},"data":{"a":"1"}}`
	apply := func(user, manager, body string) answer {
		return f.as(t, user, http.MethodPatch, path+"?fieldManager="+manager+"&force=true", applyPatch, body)
	}
	allowed(t, "flux applies", apply("admin", "flux", flux))
	f.admin(t, http.MethodPatch, path+"?fieldManager=human", mergePatch, `{"data":{"b":"1"}}`)
	entry := func(entries []map[string]any, manager string) map[string]any {
		for _, e := range entries {
			if e["manager"] == manager {
				return e
			}
		}
		t.Fatalf("no manager %s in %v", manager, entries)
		return nil
	}
	doctored := func(change func(entries []map[string]any) []map[string]any) answer {
		return f.as(t, "label", http.MethodPatch, dryRun(path), mergePatch, withManagers(t, change(f.managersOf(t, path))))
	}
	allowed(t, "as they are", doctored(func(e []map[string]any) []map[string]any { return e }))
	refused(t, "another applier gets a field", doctored(func(e []map[string]any) []map[string]any {
		entry(e, "flux")["fieldsV1"] = map[string]any{"f:data": map[string]any{"f:a": map[string]any{}, "f:b": map[string]any{}}, "f:metadata": map[string]any{"f:labels": map[string]any{"f:app": map[string]any{}}}}
		return e
	}), `field .data[b] has no separate permission: only the right to write the whole object covers it: the request leaves its value as it is and would change its managers, the entry of "flux" (Apply) in managedFields`)
	refused(t, "an updater loses a field", doctored(func(e []map[string]any) []map[string]any {
		entry(e, "human")["fieldsV1"] = map[string]any{"f:data": map[string]any{}}
		return e
	}), "field .data[b]")
	refused(t, "an applier is renamed", doctored(func(e []map[string]any) []map[string]any {
		entry(e, "flux")["manager"] = "own"
		return e
	}), `"flux" (Apply)`)
	refused(t, "an applier's version is gone", doctored(func(e []map[string]any) []map[string]any {
		entry(e, "flux")["apiVersion"] = "gone/v9"
		return e
	}), `"flux" (Apply)`)
	refused(t, "an applier becomes an updater", doctored(func(e []map[string]any) []map[string]any {
		entry(e, "flux")["operation"] = "Update"
		return e
	}), `"flux"`)
	for _, empty := range []string{`[{}]`, `[]`} {
		refused(t, "emptied with "+empty, f.as(t, "label", http.MethodPatch, dryRun(path), mergePatch, `{"metadata":{"managedFields":`+empty+`}}`), "managedFields")
	}
	// The two steps that need no written managedFields: take a field over in flux' name, then give it up in its own.
	refused(t, "apply in another's name", apply("label", "flux", strings.Replace(flux, `"a":"1"`, `"a":"1","b":"1"`, 1)), "field .data[b]")
	refused(t, "apply what is there in one's own name", apply("label", "own", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"managed"},"data":{"b":"1"}}`), "field .data[b]")
	refused(t, "give up in another's name", apply("label", "flux", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"managed"}}`), "field .data[a]")
	own := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"managed","labels":{"own.com/a":"1"}}}`
	allowed(t, "apply one's own", apply("label", "own", own))
	allowed(t, "again", apply("label", "own", own))
	allowed(t, "another's value by force, with the permission", apply("label", "other", strings.Replace(own, `"1"`, `"2"`, 1)))
	allowed(t, "give up one's own", apply("label", "other", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"managed"}}`))
	allowed(t, "flux applies again", apply("admin", "flux", flux))
	if data := f.admin(t, http.MethodGet, path, jsonBody, "").body["data"].(map[string]any); data["b"] != "1" {
		t.Errorf("flux has dropped a field that it never had: %v", data)
	}

	// What Kubernetes does by itself is nobody's doing: it merges the oldest updaters, and notes what was there before
	// the first apply.
	const many = "/api/v1/namespaces/default/configmaps/updated-by-many"
	f.admin(t, http.MethodPost, "/api/v1/namespaces/default/configmaps", jsonBody, `{"metadata":{"name":"updated-by-many"}}`)
	for i := range 12 {
		f.admin(t, http.MethodPatch, fmt.Sprintf("%s?fieldManager=m%d", many, i), mergePatch, fmt.Sprintf(`{"data":{"k%d":"1"}}`, i))
		allowed(t, "one more updater", f.as(t, "label", http.MethodPatch, fmt.Sprintf("%s?fieldManager=own%d", many, i), mergePatch, fmt.Sprintf(`{"metadata":{"labels":{"own.com/a":"%d"}}}`, i)))
	}
	f.admin(t, http.MethodPatch, many, mergePatch, `{"metadata":{"managedFields":[{}]}}`)
	allowed(t, "the first apply", f.as(t, "label", http.MethodPatch, many+"?fieldManager=own&force=true", applyPatch, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"updated-by-many","labels":{"own.com/b":"1"}}}`))

	// A Scale does not show who manages the size.
	size := func(user, manager string) answer {
		return f.as(t, user, http.MethodPatch, dryRun("/apis/apps/v1/namespaces/default/replicasets/sized/scale")+"&fieldManager="+manager+"&force=true", applyPatch,
			`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"sized","namespace":"default"},"spec":{"replicas":1}}`)
	}
	f.admin(t, http.MethodPost, "/apis/apps/v1/namespaces/default/replicasets", jsonBody, `{"metadata":{"name":"sized"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
	refused(t, "the size that is there, in another's name", size("label", "flux"), "granular:replicas")
	allowed(t, "with the permission", size("size", "flux"))
}

// FP-5: the same for an exclusive field and those who may write everything else.
func (f *fieldWorld) exclusiveManagers(t *testing.T) {
	const path = "/api/v1/namespaces/default/configmaps/managed-too"
	apply := func(user, manager, labels string) answer {
		return f.as(t, user, http.MethodPatch, path+"?fieldManager="+manager+"&force=true", applyPatch, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"managed-too","labels":{`+labels+`}}}`)
	}
	allowed(t, "the admin applies", apply("admin", "sec", `"guarded.com/x":"1"`))
	refused(t, "taken over in another's name", apply("general", "ops", `"guarded.com/x":"1"`), "needs granular:example.com/guard")
	refused(t, "emptied", f.as(t, "general", http.MethodPatch, dryRun(path), mergePatch, `{"metadata":{"managedFields":[{}]}}`), "needs granular:example.com/guard")
	allowed(t, "another label", apply("general", "ops", `"free":"1"`))
	allowed(t, "emptied where nothing is exclusive", f.as(t, "general", http.MethodPatch, dryRun(namespaced("configmaps", "managed")), mergePatch, `{"metadata":{"managedFields":[{}]}}`))
}

// FP-15, FP-16: what an object carries for others is guarded as theirs, and the controllers that make it are not asked
// again.
func (f *fieldWorld) carried(t *testing.T) {
	f.declare(t, "class", `{"resources":["persistentvolumeclaims"],"field":".spec.storageClassName","permission":"example.com/class","exclusive":true}`)
	f.declare(t, "parallel", `{"resources":["jobs.batch"],"field":".spec.parallelism","permission":"example.com/parallel","exclusive":true,"exclusiveWhen":"self > 5"}`)
	f.grant(t, "system:serviceaccount:kube-system:replicaset-controller", []string{"*"}, []string{"*"}, "create", "update", "patch")
	f.grant(t, "system:serviceaccount:kube-system:addon", []string{"*"}, []string{"*"}, "create", "update", "patch")
	f.s.accountForPods(t)
	const guarded = `"metadata":{"labels":{"guarded.com/x":"1"}}`
	const guard, class, parallel = "granular:example.com/guard", "granular:example.com/class", "granular:example.com/parallel"
	pod := func(metadata, spec string) string {
		return `{` + metadata + `"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]` + spec + `}}`
	}
	claim := func(metadata, spec string) string {
		return `{` + metadata + `"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}` + spec + `}}`
	}
	ephemeral := func(template string) string {
		return `,"volumes":[{"name":"v","ephemeral":{"volumeClaimTemplate":` + template + `}}]`
	}
	set := func(claims string) string {
		return `{"metadata":{"name":"s"},"spec":{"serviceName":"s","selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}},"volumeClaimTemplates":[` + claims + `]}}`
	}
	revision := func(data string) string {
		return `{"metadata":{"name":"r"},"revision":1,"data":` + data + `}`
	}
	cronjob := func(job string) string {
		return `{"metadata":{"name":"c"},"spec":{"schedule":"* * * * *","jobTemplate":` + job + `}}`
	}
	const core, apps, batch = "/api/v1/namespaces/default/", "/apis/apps/v1/namespaces/default/", "/apis/batch/v1/namespaces/default/"
	gold := `,"storageClassName":"gold"`
	beta := `"metadata":{"annotations":{"volume.beta.kubernetes.io/storage-class":"gold"}},`
	f.settled(t, "the exclusive fields", func() bool {
		return f.as(t, "general", http.MethodPost, dryRun(core+"persistentvolumeclaims"), jsonBody, claim(`"metadata":{"name":"p"},`, gold)).code == 403 &&
			f.as(t, "general", http.MethodPost, dryRun(batch+"jobs"), jsonBody, `{"metadata":{"name":"j"},"spec":{"parallelism":6,"template":`+pod("", "")+`}}`).code == 403 &&
			f.may(t, "system:serviceaccount:kube-system:addon", "", "pods", "create")
	})
	for _, tc := range []struct{ name, path, body, needs, fine string }{
		{"job template, metadata", batch + "cronjobs", cronjob(`{` + guarded + `,"spec":{"template":` + pod("", "") + `}}`), guard, cronjob(`{"spec":{"template":` + pod("", "") + `}}`)},
		{"job template, specification", batch + "cronjobs", cronjob(`{"spec":{"parallelism":6,"template":` + pod("", "") + `}}`), parallel, cronjob(`{"spec":{"parallelism":5,"template":` + pod("", "") + `}}`)},
		{"job template, pod", batch + "cronjobs", cronjob(`{"spec":{"template":` + pod(guarded+`,`, "") + `}}`), guard, cronjob(`{"spec":{"template":` + pod(`"metadata":{"labels":{"free":"1"}},`, "") + `}}`)},
		{"claim template of a volume", core + "pods", pod(`"metadata":{"name":"p"},`, ephemeral(claim(guarded+`,`, ""))), guard, pod(`"metadata":{"name":"p"},`, ephemeral(claim("", "")))},
		{"class of a volume", core + "pods", pod(`"metadata":{"name":"p"},`, ephemeral(claim("", gold))), class, pod(`"metadata":{"name":"p"},`, ephemeral(claim("", "")))},
		{"claim template of a set", apps + "statefulsets", set(claim(`"metadata":{"name":"d","labels":{"guarded.com/x":"1"}},`, "")), guard, set(claim(`"metadata":{"name":"d"},`, ""))},
		{"class of a set", apps + "statefulsets", set(claim(`"metadata":{"name":"d"},`, gold)), class, set(claim(`"metadata":{"name":"d"},`, ""))},
		{"class by its older name", core + "persistentvolumeclaims", claim(strings.Replace(beta, `{`, `{"name":"p",`, 1), ""), class, claim(`"metadata":{"name":"p"},`, "")},
		{"class by its older name, in a volume", core + "pods", pod(`"metadata":{"name":"p"},`, ephemeral(claim(beta, ""))), class, pod(`"metadata":{"name":"p"},`, ephemeral(claim("", "")))},
		{"resource claim template", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates", `{"metadata":{"name":"t"},"spec":{` + guarded + `,"spec":{}}}`, guard, `{"metadata":{"name":"t"},"spec":{"spec":{}}}`},
		{"revision", apps + "controllerrevisions", revision(`{"spec":{"template":` + pod(guarded+`,`, "") + `}}`), guard, revision(`{"spec":{"template":` + pod("", "") + `}}`)},
		{"revision, in other letters", apps + "controllerrevisions", revision(`{"SPEC":{"Template":{"Metadata":{"Labels":{"guarded.com/x":"1"}}}}}`), guard, revision(`{"SPEC":{"Template":{"Metadata":{"Labels":{"free":"1"}}}}}`)},
		{"revision that cannot be read", apps + "controllerrevisions", revision(`{"spec":{"template":7}}`), guard, revision(`{"any":{"thing":7}}`)},
	} {
		refused(t, tc.name, f.as(t, "general", http.MethodPost, dryRun(tc.path), jsonBody, tc.body), tc.needs)
		allowed(t, tc.name+", twin", f.as(t, "general", http.MethodPost, dryRun(tc.path), jsonBody, tc.fine))
		allowed(t, tc.name+", admin", f.as(t, "admin", http.MethodPost, dryRun(tc.path), jsonBody, tc.body))
	}
	made := pod(`"metadata":{"name":"p","labels":{"guarded.com/x":"1"}},`, "")
	const controller, addon = "system:serviceaccount:kube-system:replicaset-controller", "system:serviceaccount:kube-system:addon"
	allowed(t, "a pod made by its controller", f.as(t, controller, http.MethodPost, dryRun(core+"pods"), jsonBody, made))
	refused(t, "another account of kube-system", f.as(t, addon, http.MethodPost, dryRun(core+"pods"), jsonBody, made), guard)
	refused(t, "what the controller does not make", f.as(t, controller, http.MethodPost, dryRun(core+"configmaps"), jsonBody, `{"metadata":{"name":"x","labels":{"guarded.com/x":"1"}}}`), guard)
}

// FP-16: a Binding sets the node's name and merges its labels and annotations into the pod.
func (f *fieldWorld) bindings(t *testing.T) {
	f.declare(t, "node-name", `{"resources":["pods"],"field":".spec.nodeName","permission":"example.com/place","exclusive":true}`)
	f.grant(t, "system:kube-scheduler", []string{""}, []string{"*"}, "create", "update", "patch")
	f.grant(t, "placer", []string{""}, []string{"pods", "pods/binding"}, "create", "granular:example.com/place")
	body := func(pod string) string {
		return `{"metadata":{"name":"` + pod + `"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	}
	for _, pod := range []string{"b1", "b2", "b3"} {
		f.admin(t, http.MethodPost, "/api/v1/namespaces/default/pods", jsonBody, body(pod))
	}
	bind := func(user, pod, metadata string) answer {
		return f.as(t, user, http.MethodPost, namespaced("pods", pod)+"/binding", jsonBody,
			`{"apiVersion":"v1","kind":"Binding","metadata":{"name":"`+pod+`"`+metadata+`},"target":{"apiVersion":"v1","kind":"Node","name":"n1"}}`)
	}
	const place = "granular:example.com/place"
	f.settled(t, "the exclusive node name", func() bool {
		return bind("general", "b1", "").code == 403 && f.may(t, "placer", "", "pods/binding", place) && f.may(t, "system:kube-scheduler", "", "pods/binding", "create")
	})
	refused(t, "pods/binding", bind("general", "b1", ""), place)
	refused(t, "bindings", f.as(t, "general", http.MethodPost, "/api/v1/namespaces/default/bindings", jsonBody,
		`{"apiVersion":"v1","kind":"Binding","metadata":{"name":"b1"},"target":{"apiVersion":"v1","kind":"Node","name":"n1"}}`), place)
	refused(t, "a label by binding", bind("placer", "b1", `,"labels":{"guarded.com/x":"1"}`), "granular:example.com/guard")
	allowed(t, "the scheduler", bind("system:kube-scheduler", "b1", ""))
	allowed(t, "with the permission", bind("placer", "b2", `,"annotations":{"free":"1"}`))
	f.admin(t, http.MethodPatch, namespaced("pods", "b3"), mergePatch, `{"metadata":{"labels":{"guarded.com/x":"1"}}}`)
	refused(t, "another value than the pod has", bind("placer", "b3", `,"labels":{"guarded.com/x":"2"}`), "granular:example.com/guard")
	allowed(t, "the value that the pod has", bind("placer", "b3", `,"labels":{"guarded.com/x":"1"}`))
}

// FP-7, FP-16: what a new object has in its status counts, unless the endpoint sets it itself.
func (f *fieldWorld) createdWithStatus(t *testing.T) {
	f.declare(t, "capacity", `{"resources":["nodes"],"field":".status.capacity","permission":"example.com/capacity","exclusive":true}`)
	f.declare(t, "phase", `{"resources":["pods"],"field":".status.phase","permission":"example.com/phase","exclusive":true}`)
	f.declare(t, "state", `{"resources":["gadgets.fields.example.com"],"field":".status.state","permission":"example.com/state","exclusive":true}`)
	version := func(name, storage, more string) string {
		return `{"name":"` + name + `","served":true,"storage":` + storage + more + `,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`
	}
	f.apply(t, definitions+"/gadgets.fields.example.com", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gadgets.fields.example.com"},
"spec":{"group":"fields.example.com","scope":"Namespaced","names":{"plural":"gadgets","kind":"Gadget"},"versions":[`+version("v1", "true", `,"subresources":{"status":{}}`)+`,`+version("v2", "false", "")+`]}}`)
	node := func(status string) answer {
		return f.as(t, "general", http.MethodPost, dryRun("/api/v1/nodes"), jsonBody, `{"metadata":{"name":"n9"}`+status+`}`)
	}
	gadget := func(version, status string) answer {
		return f.as(t, "general", http.MethodPost, dryRun("/apis/fields.example.com/"+version+"/namespaces/default/gadgets"), jsonBody, `{"apiVersion":"fields.example.com/`+version+`","kind":"Gadget","metadata":{"name":"g"},"status":{`+status+`}}`)
	}
	f.settled(t, "the exclusive status", func() bool {
		return node(`,"status":{"capacity":{"cpu":"1"}}`).code == 403 && gadget("v2", `"state":"on"`).code == 403
	})
	refused(t, "a node with its status", node(`,"status":{"capacity":{"cpu":"1"}}`), "field .status.capacity[cpu] needs granular:example.com/capacity")
	allowed(t, "a node without", node(""))
	allowed(t, "a node with something else", node(`,"status":{"phase":"Running"}`))
	refused(t, "granular", f.as(t, "spec", http.MethodPost, dryRun("/api/v1/nodes"), jsonBody, `{"metadata":{"name":"n9"},"status":{"phase":"Running"}}`), "granular:status")
	refused(t, "a version without the subresource", gadget("v2", `"state":"on"`), "field .status.state needs granular:example.com/state")
	allowed(t, "a version with it, which drops the status", gadget("v1", `"state":"on"`))
	allowed(t, "another field", gadget("v2", `"other":"on"`))
	allowed(t, "a pod, whose phase is the server's", f.as(t, "general", http.MethodPost, dryRun("/api/v1/namespaces/default/pods"), jsonBody, `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]},"status":{"phase":"Running"}}`))
}

// FP-16: events are served by two groups and stored once.
func (f *fieldWorld) siblings(t *testing.T) {
	f.declare(t, "event", `{"resources":["events"],"field":".message","permission":"example.com/message","exclusive":true,"exclusiveWhen":"self == 'forged'"}`)
	old := func(message string) answer {
		return f.as(t, "general", http.MethodPost, dryRun("/api/v1/namespaces/default/events"), jsonBody, `{"metadata":{"name":"e"},"involvedObject":{"namespace":"default"},"message":"`+message+`"}`)
	}
	new := func(note string) answer {
		return f.as(t, "general", http.MethodPost, dryRun("/apis/events.k8s.io/v1/namespaces/default/events"), jsonBody,
			`{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"e"},"regarding":{"namespace":"default"},"note":"`+note+`","eventTime":"2026-01-01T00:00:00.000000Z","reportingController":"x.io/y","reportingInstance":"z","action":"a","reason":"r","type":"Normal"}`)
	}
	f.settled(t, "the exclusive message", func() bool { return old("forged").code == 403 })
	refused(t, "core", old("forged"), "granular:example.com/message")
	refused(t, "events.k8s.io", new("forged"), "granular:example.com/message")
	allowed(t, "core, another message", old("true"))
	allowed(t, "events.k8s.io, another message", new("true"))
}
