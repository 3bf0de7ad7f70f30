package fieldperm

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

const self, selfVerb = "example.com/selfDestruct", "granular:example.com/selfDestruct"

// FP-5: an exclusive field takes its own permission and no other, for some values only if so declared, and whatever
// goes wrong leaves it exclusive.
func TestExclusive(t *testing.T) {
	everything := []string{"granular:metadata", "granular:specification", "granular:status"}
	on := func(field string, change func(*policyv1alpha1.FieldPermissionSpec)) *policyv1alpha1.FieldPermission {
		return permissionObject("x", field, self, change, "widgets.example.com")
	}
	both := func(f, g func(*policyv1alpha1.FieldPermissionSpec)) func(*policyv1alpha1.FieldPermissionSpec) {
		return func(s *policyv1alpha1.FieldPermissionSpec) { f(s); g(s) }
	}
	for _, tc := range []struct {
		name, old, new string
		fps            []*policyv1alpha1.FieldPermission
		holds          []string // beside everything that is shipped
		want           string   // refusal of both a general and a granular writer
	}{
		{"set", "{}", "spec: {triggerSelfDestruct: true}", fps(on(".spec.triggerSelfDestruct", exclusive)), nil, "field .spec.triggerSelfDestruct needs " + selfVerb},
		{"held", "{}", "spec: {triggerSelfDestruct: true}", fps(on(".spec.triggerSelfDestruct", exclusive)), []string{selfVerb}, ""},
		{"untouched", "spec: {triggerSelfDestruct: true}", "spec: {triggerSelfDestruct: true, level: x}", fps(on(".spec.triggerSelfDestruct", exclusive)), nil, ""},
		{"other value", "{}", "spec: {triggerSelfDestruct: false}", fps(on(".spec.triggerSelfDestruct", exclusiveWhen("self == true"))), nil, ""},
		{"that value", "{}", "spec: {triggerSelfDestruct: true}", fps(on(".spec.triggerSelfDestruct", exclusiveWhen("self == true"))), nil, "field .spec.triggerSelfDestruct needs " + selfVerb},
		{"that value removed", "spec: {triggerSelfDestruct: true}", "spec: {level: a}", fps(on(".spec.triggerSelfDestruct", exclusiveWhen("self == true"))), nil, ""},
		{"old value", "spec: {triggerSelfDestruct: true}", "spec: {level: a}", fps(on(".spec.triggerSelfDestruct", exclusiveWhen("has(oldSelf)"))), nil, "field .spec.triggerSelfDestruct needs " + selfVerb},
		{"condition fails", "{}", "spec: {triggerSelfDestruct: false}", fps(on(".spec.triggerSelfDestruct", exclusiveWhen("fail"))), nil, "field .spec.triggerSelfDestruct needs " + selfVerb},
		{"everything below", "{}", "spec: {parts: [{name: a, size: 1}]}", fps(on(".spec.parts", exclusive)), nil, "field .spec.parts[a].name needs " + selfVerb},
		{"every entry", "{}", "spec: {limits: {a: x}}", fps(on(".spec.limits[]", exclusive)), nil, "field .spec.limits[a] needs " + selfVerb},
		{"an entry by condition", "{}", "spec: {limits: {a: x}}", fps(on(".spec.limits[]", exclusiveWhen("key == 'a'"))), nil, "field .spec.limits[a] needs " + selfVerb},
		{"another entry by condition", "{}", "spec: {limits: {b: x}}", fps(on(".spec.limits[]", exclusiveWhen("key == 'a'"))), nil, ""},
		{"a field of every element", "spec: {parts: [{name: a, size: 1}]}", "spec: {parts: [{name: a, size: 2, secret: s}]}", fps(on(".spec.parts[].secret", exclusive)), nil, "field .spec.parts[a].secret needs " + selfVerb},
		{"another field of an element", "spec: {parts: [{name: a, size: 1}]}", "spec: {parts: [{name: a, size: 2}]}", fps(on(".spec.parts[].secret", exclusive)), nil, ""},
		{"a field of one element", "{}", "spec: {parts: [{name: a, secret: s}]}", fps(on(".spec.parts[a].secret", exclusive)), nil, "field .spec.parts[a].secret needs " + selfVerb},
		{"of another element", "{}", "spec: {parts: [{name: b, secret: s}]}", fps(on(".spec.parts[a].secret", exclusive)), nil, ""},
		{"element of two keys", "{}", "spec: {ports: [{port: 80, note: s}]}", fps(on(".spec.ports[port=80,protocol=TCP]", exclusive)), nil, "field .spec.ports[port=80,protocol=TCP].note needs " + selfVerb},
		{"set member", "{}", "spec: {tags: [b, a]}", fps(on(".spec.tags[a]", exclusive)), nil, "field .spec.tags[a] needs " + selfVerb},
		{"map key written as a field", "{}", "spec: {limits: {a: x}}", fps(on(".spec.limits.a", exclusive)), nil, "field .spec.limits[a] needs " + selfVerb},

		{"parameter", "{}", "spec: {limits: {ex.com/a: x}}", fps(on(".spec.limits[]", both(exclusive, parameter("key", "slash-delimited-prefix")))), nil, "field .spec.limits[ex.com/a] needs " + selfVerb + "(ex.com)"},
		{"parameter held", "{}", "spec: {limits: {ex.com/a: x}}", fps(on(".spec.limits[]", both(exclusive, parameter("key", "slash-delimited-prefix")))), []string{selfVerb + "(ex.com)"}, ""},
		{"another parameter held", "{}", "spec: {limits: {ex.com/a: x}}", fps(on(".spec.limits[]", both(exclusive, parameter("key", "")))), []string{selfVerb + "(ex.com)", selfVerb, selfVerb + "()"}, "field .spec.limits[ex.com/a] needs " + selfVerb + "(ex.com/a)"},
		{"value, both versions", "spec: {level: a}", "spec: {level: b}", fps(on(".spec.level", both(exclusive, parameter("value", "")))), []string{selfVerb + "(b)"}, "field .spec.level needs " + selfVerb + "(b) and " + selfVerb + "(a)"},
		{"value, both held", "spec: {level: a}", "spec: {level: b}", fps(on(".spec.level", both(exclusive, parameter("value", "")))), []string{selfVerb + "(b)", selfVerb + "(a)"}, ""},
		{"number as value", "{}", "spec: {count: 3}", fps(on(".spec.count", both(exclusive, parameter("value", "")))), nil, "field .spec.count needs " + selfVerb + "(3)"},
		{"value without a text", "{}", "spec: {colour: {r: 1}}", fps(on(".spec.colour", both(exclusive, parameter("value", "")))), []string{selfVerb}, "field .spec.colour needs " + selfVerb + ", which cannot be given: its parameter is not a text or number"},
		{"element by expression", "{}", "spec: {parts: [{name: a, size: 1}]}", fps(on(".spec.parts[].size", both(exclusive, parameter("element.name", "")))), nil, "field .spec.parts[a].size needs " + selfVerb + "(a)"},
		{"key and value by expression", "{}", "spec: {limits: {k: v}}", fps(on(".spec.limits[]", both(exclusive, parameter("key + value", "")))), nil, "field .spec.limits[k] needs " + selfVerb + "(kv)"},
		{"long parameter", "{}", "spec: {level: " + strings.Repeat("x", 300) + "}", fps(on(".spec.level", both(exclusive, parameter("value", "")))), nil, "field .spec.level needs " + selfVerb + ", which cannot be given: its parameter is longer than 253 bytes"},

		{"inside of an atomic object", "spec: {colour: {r: 1}}", "spec: {colour: {r: 1, secret: s}}", fps(on(".spec.colour.secret", exclusive)), nil, "field .spec.colour.secret needs " + selfVerb},
		{"beside it", "spec: {colour: {r: 1, secret: s}}", "spec: {colour: {r: 2, secret: s}}", fps(on(".spec.colour.secret", exclusive)), nil, ""},
		{"inside of a schemaless field", "{}", "spec: {config: {a: {b: 1}}}", fps(on(".spec.config.a.b", exclusive)), nil, "field .spec.config.a.b needs " + selfVerb},
		{"inside of it, by key", "{}", "spec: {config: {a: x}}", fps(on(".spec.config[a]", exclusive)), nil, "field .spec.config[a] needs " + selfVerb},
		{"inside of it, every key", "{}", "spec: {config: {a: x}}", fps(on(".spec.config[]", both(exclusive, parameter("key", "")))), nil, "field .spec.config[a] needs " + selfVerb + "(a)"},
		{"inside of it, by value", "{}", "spec: {config: {a: true}}", fps(on(".spec.config.a", exclusiveWhen("self == true"))), nil, "field .spec.config.a needs " + selfVerb},
		{"inside of it, other value", "{}", "spec: {config: {a: false}}", fps(on(".spec.config.a", exclusiveWhen("self == true"))), nil, ""},
		{"whole of it removed", "spec: {config: {a: {b: 1}}}", "spec: {level: x}", fps(on(".spec.config.a.b", exclusive)), nil, "field .spec.config.a.b needs " + selfVerb},
		{"becomes another sort of value", "spec: {config: {a: {b: 1}}}", "spec: {config: {a: 7}}", fps(on(".spec.config.a.b", exclusive)), nil, "field .spec.config.a.b needs " + selfVerb},
		{"inside of a list", "spec: {config: {l: [{b: 1}, {c: 1}]}}", "spec: {config: {l: [{b: 2}, {c: 1}]}}", fps(on(".spec.config.l[].b", exclusive)), nil, "field .spec.config.l[0].b needs " + selfVerb},
		{"inside of a list, beside", "spec: {config: {l: [{b: 1}, {c: 1}]}}", "spec: {config: {l: [{b: 1}, {c: 2}]}}", fps(on(".spec.config.l[].b", exclusive)), nil, ""},
		{"inside of a longer list", "spec: {config: {l: [{b: 1}]}}", "spec: {config: {l: [{c: 1}, {b: 1}]}}", fps(on(".spec.config.l[].b", exclusive)), nil, "field .spec.config.l[].b needs " + selfVerb},
		{"named element of an atomic list", "spec: {args: [x]}", "spec: {args: [b]}", fps(on(".spec.args[x]", exclusive)), nil, "field .spec.args[x] needs " + selfVerb},
		{"inside of an exclusive value, another place", "spec: {colour: {r: 1}}", "spec: {colour: {r: 2}}",
			fps(on(".spec.colour", exclusive), permissionObject("y", ".spec.colour.secret", "ex.com/secret", exclusive, "widgets.example.com")), nil, "field .spec.colour needs " + selfVerb},
		{"inside of an exclusive value, its own permission", "spec: {colour: {r: 1}}", "spec: {colour: {r: 1, secret: s}}",
			fps(on(".spec.colour", exclusive), permissionObject("y", ".spec.colour.secret", "ex.com/secret", exclusive, "widgets.example.com")), []string{selfVerb}, "field .spec.colour.secret needs granular:ex.com/secret"},
		{"unknown field", "{}", "spec: {partly: {x: {z: 1}}}", fps(on(".spec.partly.x.z", exclusive)), nil, "field .spec.partly.x.z needs " + selfVerb},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table := mustTable(t, tc.fps...)
			general := decideWidget(t, table, General, holds(tc.holds...), tc.old, tc.new)
			granular := decideWidget(t, table, Granular, holds(append(tc.holds, everything...)...), tc.old, tc.new)
			expect(t, general, tc.want)
			expect(t, granular, tc.want)
		})
	}
}

func fps(list ...*policyv1alpha1.FieldPermission) []*policyv1alpha1.FieldPermission { return list }

// FP-5: of several exclusive declarations the most specific one counts, and two for the same field are both needed.
func TestExclusiveNesting(t *testing.T) {
	on := func(name, field, permission string, change func(*policyv1alpha1.FieldPermissionSpec)) *policyv1alpha1.FieldPermission {
		return permissionObject(name, field, permission, change, "widgets.example.com")
	}
	for _, tc := range []struct {
		name  string
		fps   []*policyv1alpha1.FieldPermission
		holds []string
		want  string
	}{
		{"ancestor's permission does not cover", fps(on("a", ".spec.limits", "ex.com/limits", exclusive), on("b", ".spec.limits[a]", "ex.com/a", exclusive)),
			[]string{"granular:ex.com/limits"}, "field .spec.limits[a] needs granular:ex.com/a"},
		{"own permission does", fps(on("a", ".spec.limits", "ex.com/limits", exclusive), on("b", ".spec.limits[a]", "ex.com/a", exclusive)), []string{"granular:ex.com/a"}, ""},
		{"named entry over every entry", fps(on("a", ".spec.limits[]", "ex.com/any", exclusive), on("b", ".spec.limits[a]", "ex.com/a", exclusive)),
			[]string{"granular:ex.com/any"}, "field .spec.limits[a] needs granular:ex.com/a"},
		{"what lies below an exclusive field is its own", fps(on("a", ".spec.limits", "ex.com/limits", exclusive), on("b", ".spec.limits[a]", "ex.com/a", nil)),
			[]string{"granular:ex.com/a"}, "field .spec.limits[a] needs granular:ex.com/limits"},
		{"inner condition does not hold", fps(on("a", ".spec.limits", "ex.com/limits", exclusive), on("b", ".spec.limits[a]", "ex.com/a", exclusiveWhen("self == true"))),
			[]string{"granular:ex.com/a"}, "field .spec.limits[a] needs granular:ex.com/limits"},
		{"two for one field, one held", fps(on("a", ".spec.limits[a]", "ex.com/one", exclusive), on("b", ".spec.limits[a]", "ex.com/two", exclusive)),
			[]string{"granular:ex.com/one"}, "field .spec.limits[a] needs granular:ex.com/two"},
		{"two for one field, both held", fps(on("a", ".spec.limits[a]", "ex.com/one", exclusive), on("b", ".spec.limits[a]", "ex.com/two", exclusive)),
			[]string{"granular:ex.com/one", "granular:ex.com/two"}, ""},
		{"not exclusive for this value: covered like any other", fps(on("b", ".spec.limits[a]", "ex.com/a", exclusiveWhen("self == true"))), []string{"granular:ex.com/a"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			expect(t, decideWidget(t, mustTable(t, tc.fps...), Granular, holds(tc.holds...), "{}", "spec: {limits: {a: x}}"), tc.want)
		})
	}
}

// FP-15: a permission on pods guards the field in every pod template, on the outer resource.
func TestPodTemplates(t *testing.T) {
	table := mustTable(t,
		permissionObject("host", ".spec.hostNetwork", "ex.com/hostNetwork", exclusive, "pods"),
		permissionObject("tier", ".metadata.labels[tier]", "ex.com/tier", exclusive, "*"))
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{HostNetwork: true}}
	labelled := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"tier": "x"}}}
	node := corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeName: "n"}}
	for _, tc := range []struct {
		target Target
		at     string
		make   func(corev1.PodTemplateSpec) runtime.Object
	}{
		{Target{Resource: Resource{"", "podtemplates"}}, ".template", func(s corev1.PodTemplateSpec) runtime.Object { return &corev1.PodTemplate{Template: s} }},
		{Target{Resource: Resource{"", "replicationcontrollers"}}, ".spec.template", func(s corev1.PodTemplateSpec) runtime.Object {
			return &corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Template: &s}}
		}},
		{deploymentTarget, ".spec.template", func(s corev1.PodTemplateSpec) runtime.Object {
			return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: s}}
		}},
		{Target{Resource: Resource{"apps", "replicasets"}}, ".spec.template", func(s corev1.PodTemplateSpec) runtime.Object {
			return &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Template: s}}
		}},
		{Target{Resource: Resource{"apps", "statefulsets"}}, ".spec.template", func(s corev1.PodTemplateSpec) runtime.Object {
			return &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: s}}
		}},
		{Target{Resource: Resource{"apps", "daemonsets"}}, ".spec.template", func(s corev1.PodTemplateSpec) runtime.Object {
			return &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: s}}
		}},
		{Target{Resource: Resource{"batch", "jobs"}}, ".spec.template", func(s corev1.PodTemplateSpec) runtime.Object {
			return &batchv1.Job{Spec: batchv1.JobSpec{Template: s}}
		}},
		{Target{Resource: Resource{"batch", "cronjobs"}}, ".spec.jobTemplate.spec.template", func(s corev1.PodTemplateSpec) runtime.Object {
			return &batchv1.CronJob{Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: s}}}}
		}},
	} {
		t.Run(tc.target.Resource.String(), func(t *testing.T) {
			decide := func(mode Mode, s corev1.PodTemplateSpec, verbs ...string) Result {
				h := holds(verbs...)
				return table.Decide(Request{Target: tc.target, Mode: mode, Check: h.check, Objects: objects(t, tc.make(corev1.PodTemplateSpec{}), tc.make(s))})
			}
			expect(t, decide(General, template), "field "+tc.at+".spec.hostNetwork needs granular:ex.com/hostNetwork")
			expect(t, decide(General, template, "granular:ex.com/hostNetwork"), "")
			expect(t, decide(General, labelled), "field "+tc.at+".metadata.labels[tier] needs granular:ex.com/tier")
			expect(t, decide(General, node), "")
			expect(t, decide(Granular, node, "granular:nodeAssignment"), "")
			// Who may change an object's labels may not thereby change those of its pods.
			other := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "x"}}}
			if decide(Granular, other, "granular:metadata", "granular:labels", "granular:label(a)").Allowed() {
				t.Error("the labels of a template were covered by those of the object")
			}
		})
	}
	// The same field of a resource that embeds no pod template is free.
	other := Target{Resource: Resource{"", "configmaps"}}
	if !table.Guards(other) {
		t.Error("the label is not guarded everywhere")
	}
}

// FP-2, FP-5: scale and binding write fields of the object they belong to, and are no way round their guards.
func TestStandIns(t *testing.T) {
	table := mustTable(t,
		permissionObject("r", ".spec.replicas", "ex.com/size", exclusive, "statefulsets.apps"),
		permissionObject("n", ".spec.nodeName", "ex.com/place", exclusiveWhen("self == oldSelf"), "pods"),
		permissionObject("v", ".spec.nodeName", "ex.com/node", parameter("value", ""), "pods"))
	scale := func(n int32) *autoscalingv1.Scale {
		return &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: n}}
	}
	decide := func(target Target, mode Mode, old, new runtime.Object, verbs ...string) Result {
		h := holds(verbs...)
		return table.Decide(Request{Target: target, Mode: mode, Check: h.check, Objects: standIns(t, old, new)})
	}
	deployments := Target{Resource: Resource{"apps", "deployments"}, Subresource: "scale"}
	sets := Target{Resource: Resource{"apps", "statefulsets"}, Subresource: "scale"}
	expect(t, decide(deployments, General, scale(1), scale(2)), "")
	expect(t, decide(deployments, Granular, scale(1), scale(2), "granular:replicas"), "")
	expect(t, decide(deployments, Granular, scale(1), scale(2), "granular:specification"), "")
	expect(t, decide(deployments, Granular, scale(1), scale(2)), "field .spec.replicas needs granular:replicas (or granular:specification)")
	expect(t, decide(sets, General, scale(1), scale(2)), "field .spec.replicas needs granular:ex.com/size")
	expect(t, decide(sets, General, scale(1), scale(2), "granular:ex.com/size"), "")
	expect(t, decide(Target{Resource: widgets, Subresource: "scale"}, Granular, scale(1), scale(2), "granular:specification"), "")

	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}}
	for _, target := range []Target{{Resource: pods, Subresource: "binding"}, {Resource: bindings}} {
		expect(t, decide(target, General, nil, binding), "")
		expect(t, decide(target, Granular, nil, binding, "granular:nodeAssignment"), "")
		expect(t, decide(target, Granular, nil, binding, "granular:ex.com/node(n1)"), "")
		expect(t, decide(target, Granular, nil, binding, "granular:ex.com/node(n2)"),
			"field .target needs granular:ex.com/node(n1) (or granular:nodeAssignment, granular:ex.com/place, granular:specification)")
		labelled := binding.DeepCopy()
		labelled.Labels = map[string]string{"a": "b"}
		expect(t, decide(target, Granular, nil, labelled, "granular:nodeAssignment"), "field .metadata.labels[a] needs granular:label(a) (or granular:labels, granular:metadata)")
	}
	strict := mustTable(t, permissionObject("n", ".spec.nodeName", "ex.com/place", exclusive, "pods"))
	h := holds("granular:nodeAssignment", "granular:specification")
	expect(t, strict.Decide(Request{Target: Target{Resource: pods, Subresource: "binding"}, Mode: General, Check: h.check, Objects: standIns(t, nil, binding)}),
		"field .target needs granular:ex.com/place")
}

// standIns hands over objects of which the type converter at hand may know nothing.
func standIns(t *testing.T, old, new runtime.Object) func() (*typed.TypedValue, *typed.TypedValue, error) {
	return func() (before, after *typed.TypedValue, err error) {
		if old != nil {
			if before, err = (&Schemas{}).ObjectToTyped(old); err != nil {
				return nil, nil, err
			}
		}
		after, err = (&Schemas{}).ObjectToTyped(new)
		return before, after, err
	}
}
