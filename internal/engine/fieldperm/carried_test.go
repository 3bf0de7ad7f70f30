package fieldperm

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// FP-16: an exclusive field is guarded in everything that its value can come from, on the outer resource.
func TestCarried(t *testing.T) {
	for _, tc := range []struct {
		field, of, outer string
		want             []string
	}{
		{".metadata.labels[x]", "*", "cronjobs.batch", []string{".metadata.labels[x]", ".spec.jobTemplate.metadata.labels[x]",
			".spec.jobTemplate.spec.template.metadata.labels[x]", ".spec.jobTemplate.spec.template.spec.volumes[].ephemeral.volumeClaimTemplate.metadata.labels[x]"}},
		{".spec.parallelism", "jobs.batch", "cronjobs.batch", []string{".spec.jobTemplate.spec.parallelism"}},
		{".metadata.labels[x]", "persistentvolumeclaims", "statefulsets.apps", []string{".spec.selector.matchLabels[x]",
			".spec.template.spec.volumes[].ephemeral.volumeClaimTemplate.metadata.labels[x]", ".spec.volumeClaimTemplates[].metadata.labels[x]"}},
		{".spec.storageClassName", "persistentvolumeclaims", "pods", []string{
			".spec.volumes[].ephemeral.volumeClaimTemplate.metadata.annotations[volume.beta.kubernetes.io/storage-class]", ".spec.volumes[].ephemeral.volumeClaimTemplate.spec.storageClassName"}},
		{".spec.storageClassName", "*", "persistentvolumes", []string{".metadata.annotations[volume.beta.kubernetes.io/storage-class]", ".spec.storageClassName"}},
		{".spec.mountOptions[x]", "persistentvolumes", "persistentvolumes", []string{".metadata.annotations[volume.beta.kubernetes.io/mount-options]", ".spec.mountOptions[x]"}},
		{".spec.devices", "resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io", []string{".spec.spec.devices"}},
		{".metadata.annotations[x]", "replicasets.apps", "deployments.apps", []string{".metadata.annotations[" + rollbackKey + "]", ".metadata.annotations[x]"}},
		{".metadata.labels", "replicasets.apps", "deployments.apps", []string{".metadata.annotations[" + rollbackKey + "]", ".spec.template.metadata.labels"}},
		{".spec.template.spec.nodeName", "replicasets.apps", "deployments.apps", []string{".metadata.annotations[" + rollbackKey + "]", ".spec.template.spec.nodeName"}},
		{".spec.replicas", "replicasets.apps", "deployments.apps", []string{".spec.replicas"}},
		{".spec.nodeName", "pods", "controllerrevisions.apps", []string{".data.spec.template.spec.nodeName"}},
		{".spec.replicas", "statefulsets.apps", "controllerrevisions.apps", nil},
		{".metadata.labels[x]", "endpointslices.discovery.k8s.io", "services", []string{".metadata.labels[x]"}},
		{".spec.nodeName", "pods", "configmaps", nil},
	} {
		t.Run(tc.field+" of "+tc.of+" in "+tc.outer, func(t *testing.T) {
			table := mustTable(t, permissionObject("p", tc.field, "ex.com/p", exclusive, tc.of))
			r, err := ParseResource(tc.outer)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range table.For(r) {
				if e.Permission == "ex.com/p" {
					got = append(got, e.Field)
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

// FP-16: the server sets fields of a pod and of a claim from other ones when it creates them. In a template, those are
// guarded; in the object itself, the field is set by the time it is checked.
func TestDerived(t *testing.T) {
	const (
		prefix    = "container.apparmor.security.beta.kubernetes.io/"
		ephemeral = ".spec.volumes[].ephemeral.volumeClaimTemplate.spec."
	)
	for _, tc := range []struct {
		field, of, outer string
		want             []string
	}{
		{".spec.containers[web].securityContext.appArmorProfile", "pods", "jobs.batch",
			[]string{".spec.template.metadata.annotations[" + prefix + "web]", ".spec.template.spec.containers[web].securityContext.appArmorProfile"}},
		{".spec.containers[].securityContext.appArmorProfile.type", "pods", "jobs.batch",
			[]string{".spec.template.metadata.annotations[]", ".spec.template.spec.containers[].securityContext.appArmorProfile.type"}},
		{".spec.initContainers[web]", "pods", "podtemplates", []string{".template.metadata.annotations[" + prefix + "web]", ".template.spec.initContainers[web]"}},
		{".spec.containers[].image", "pods", "jobs.batch", []string{".spec.template.spec.containers[].image"}},
		{".spec.containers[].securityContext.appArmorProfile", "pods", "pods", []string{".spec.containers[].securityContext.appArmorProfile"}},
		{".spec.priority", "pods", "replicasets.apps", []string{".spec.template.spec.priority", ".spec.template.spec.priorityClassName"}},
		{".spec.priority", "pods", "priorityclasses.scheduling.k8s.io", []string{".value"}},
		{".spec.preemptionPolicy", "pods", "priorityclasses.scheduling.k8s.io", []string{".preemptionPolicy"}},
		{".spec.tolerations[]", "pods", "jobs.batch", []string{".spec.template.spec.runtimeClassName", ".spec.template.spec.tolerations[]"}},
		{".spec.overhead", "pods", "runtimeclasses.node.k8s.io", []string{".overhead.podFixed"}},
		{".spec.nodeSelector[x]", "pods", "runtimeclasses.node.k8s.io", []string{".scheduling.nodeSelector[x]"}},
		{".spec.tolerations", "pods", "runtimeclasses.node.k8s.io", []string{".scheduling.tolerations"}},
		{".spec.imagePullSecrets[x]", "pods", "serviceaccounts", []string{".imagePullSecrets[x]"}},
		{".spec.resources.requests[cpu]", "pods", "jobs.batch", []string{".spec.template.spec.resources.limits", ".spec.template.spec.resources.requests[cpu]"}},
		{".spec.topologySpreadConstraints[].labelSelector", "pods", "jobs.batch",
			[]string{".spec.template.spec.topologySpreadConstraints[].labelSelector", ".spec.template.spec.topologySpreadConstraints[].matchLabelKeys"}},
		{".spec.serviceAccountName", "pods", "controllerrevisions.apps", []string{".data.spec.template.spec.serviceAccount", ".data.spec.template.spec.serviceAccountName"}},
		{".spec.dataSourceRef", "persistentvolumeclaims", "pods", []string{ephemeral + "dataSource", ephemeral + "dataSourceRef"}},
		{".spec.dataSource.name", "persistentvolumeclaims", "pods", []string{ephemeral + "dataSource.name", ephemeral + "dataSourceRef.name"}},
		{".spec.dataSourceRef", "persistentvolumeclaims", "statefulsets.apps", []string{".spec.template" + ephemeral + "dataSource", ".spec.template" + ephemeral + "dataSourceRef",
			".spec.volumeClaimTemplates[].spec.dataSource", ".spec.volumeClaimTemplates[].spec.dataSourceRef"}},
		{".spec.dataSourceRef", "persistentvolumeclaims", "persistentvolumeclaims", []string{".spec.dataSourceRef"}},
		{".metadata.labels[x]", "jobs.batch", "jobs.batch", []string{".metadata.labels[x]", ".spec.template.metadata.labels[x]"}},
		{".metadata.labels[x]", "jobs.batch", "cronjobs.batch", []string{".spec.jobTemplate.metadata.labels[x]", ".spec.jobTemplate.spec.template.metadata.labels[x]"}},
		{".metadata.labels[x]", "replicationcontrollers", "replicationcontrollers", []string{".metadata.labels[x]", ".spec.template.metadata.labels[x]"}},
	} {
		t.Run(tc.field+" of "+tc.of+" in "+tc.outer, func(t *testing.T) {
			r, err := ParseResource(tc.outer)
			if err != nil {
				t.Fatal(err)
			}
			if got := fieldsOf(mustTable(t, permissionObject("p", tc.field, "ex.com/p", exclusive, tc.of)), r, "ex.com/p"); !slices.Equal(got, tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
			for _, at := range fieldsOf(mustTable(t, permissionObject("p", tc.field, "ex.com/p", nil, tc.of)), r, "ex.com/p") {
				if !strings.HasSuffix(at, tc.field) {
					t.Errorf("the right to the field gives %s", at)
				}
			}
		})
	}
}

// FP-16: the profile of a container of a pod is also set by an annotation with the name of the container, and by no
// other one.
func TestProfilesByAnnotation(t *testing.T) {
	const field = ".spec.containers[].securityContext.appArmorProfile"
	all := mustTable(t, permissionObject("p", field, "ex.com/p", exclusiveWhen("self == true"), "pods"))
	one := mustTable(t, permissionObject("p", strings.Replace(field, "[]", "[web]", 1), "ex.com/p", exclusive, "pods"))
	deployment := func(key string) runtime.Object {
		d := &appsv1.Deployment{}
		if key != "" {
			d.Spec.Template.Annotations = map[string]string{key: "unconfined"}
		}
		return d
	}
	const prefix = "container.apparmor.security.beta.kubernetes.io/"
	for _, tc := range []struct {
		name, key string
		table     *Table
		refused   bool
	}{
		{"of a container", prefix + "db", all, true},
		{"of the container", prefix + "web", one, true},
		{"of another container", prefix + "db", one, false},
		{"another annotation", "example.com/web", all, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			decide := func(mode Mode, old, new string, verbs ...string) Result {
				return tc.table.Decide(Request{Target: deploymentTarget, Mode: mode, Check: holds(verbs...).check, Objects: objects(t, deployment(old), deployment(new))})
			}
			want := ""
			if tc.refused {
				want = "field .spec.template.metadata.annotations[" + tc.key + "] needs granular:ex.com/p"
			}
			expect(t, decide(General, "", tc.key), want)
			expect(t, decide(General, tc.key, ""), want)
			expect(t, decide(General, "", tc.key, "granular:ex.com/p"), "")
			if !tc.refused {
				want = "field .spec.template.metadata.annotations[" + tc.key + "] needs granular:specification"
			}
			expect(t, decide(Granular, "", tc.key), want)
			if got := decide(Granular, "", tc.key, "granular:ex.com/p"); got.Allowed() != tc.refused {
				t.Errorf("the right to the field: %s", got.Reason())
			}
		})
	}
}

// FP-15: only templates hand on the right to change a field; what a controller copies is guarded, never given.
func TestCopiedFieldsGrantNothing(t *testing.T) {
	table := mustTable(t, permissionObject("p", ".metadata.annotations[x]", "ex.com/p", nil, "replicasets.apps"))
	for _, e := range table.For(Resource{"apps", "deployments"}) {
		if e.Permission == "ex.com/p" {
			t.Errorf("a permission on replica sets covers %s of deployments", e.Field)
		}
	}
}

// FP-16: a controller that makes objects is not asked about what was checked where it was carried, and about all else
// it is.
func TestCopiers(t *testing.T) {
	table := mustTable(t,
		permissionObject("n", ".spec.nodeName", "ex.com/node", exclusive, "pods"),
		permissionObject("l", ".metadata.labels[x]", "ex.com/label", exclusive, "*"),
		permissionObject("s", ".status.phase", "ex.com/phase", exclusive, "pods"),
		permissionObject("e", ".endpoints", "ex.com/endpoints", exclusive, "endpointslices.discovery.k8s.io"))
	slices := Resource{"discovery.k8s.io", "endpointslices"}
	for _, tc := range []struct {
		name     string
		target   Target
		old, new runtime.Object
		want     string
	}{
		{"pod", Target{Resource: pods, Copied: true}, &corev1.Pod{}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"x": "1"}}, Spec: corev1.PodSpec{NodeName: "n"}}, ""},
		{"status of a pod", Target{Resource: pods, Copied: true}, &corev1.Pod{}, &corev1.Pod{Status: corev1.PodStatus{Phase: "Running"}}, "field .status.phase needs granular:ex.com/phase"},
		{"another resource", Target{Resource: Resource{"", "configmaps"}, Copied: true}, &corev1.ConfigMap{}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"x": "1"}}}, "field .metadata.labels[x] needs granular:ex.com/label"},
		{"binding", Target{Resource: pods, Subresource: "binding", Copied: true}, nil, &corev1.Binding{Target: corev1.ObjectReference{Name: "n"}}, ""},
		{"another caller", Target{Resource: pods, Subresource: "binding"}, nil, &corev1.Binding{Target: corev1.ObjectReference{Name: "n"}}, "field .target needs granular:ex.com/node"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			expect(t, table.Decide(Request{Target: tc.target, Mode: General, Check: holds().check, Objects: standIns(t, tc.old, tc.new)}), tc.want)
		})
	}
	if !table.Guards(Target{Resource: slices, Copied: true}) {
		t.Error("the addresses in an endpoint slice are not checked anywhere else")
	}
}

// FP-16: a Scale writes the scale field wherever each version has it.
func TestScaleFieldOfEachVersion(t *testing.T) {
	table, issues := New(Config{
		Scaled:           map[Resource][]Path{widgets: {mustPath(t, ".spec.count"), mustPath(t, ".spec.limits.size")}},
		FieldPermissions: fps(permissionObject("a", ".spec.limits[size]", "ex.com/size", exclusive, "widgets.example.com")),
	})
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	scale := func(n int32) runtime.Object {
		return &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: n}}
	}
	target := Target{Resource: widgets, Subresource: "scale"}
	expect(t, table.Decide(Request{Target: target, Mode: General, Check: holds().check, Objects: standIns(t, scale(1), scale(2))}), "field .spec.replicas needs granular:ex.com/size")
	expect(t, table.Decide(Request{Target: target, Mode: General, Check: holds().check, Objects: standIns(t, scale(1), scale(1))}), "")
	expect(t, table.Decide(Request{Target: target, Mode: General, Check: holds().check, Objects: standIns(t, scale(1), scale(1)), Claimed: true}), "field .spec.replicas needs granular:ex.com/size")
}

// FP-16: a body that does not show what it writes may write every exclusive field.
func TestHidden(t *testing.T) {
	table := mustTable(t, permissionObject("n", ".spec.nodeName", "ex.com/node", exclusive, "pods"))
	req := Request{Target: Target{Resource: pods, Subresource: "teleport"}, Hidden: true}
	decide := func(mode Mode, verbs ...string) Result {
		req.Mode, req.Check = mode, holds(verbs...).check
		return table.Decide(req)
	}
	expect(t, decide(General), "field .spec.nodeName needs granular:ex.com/node")
	expect(t, decide(General, "granular:ex.com/node"), "")
	if decide(Granular, "granular:ex.com/node", "granular:specification", "granular:metadata", "granular:status").Allowed() {
		t.Error("a granular caller may write what nobody sees")
	}
}

// FP-7: inside of a list that is one value, a new object is looked at element by element, and what cannot be told apart
// counts.
func TestCreateInsideOfAtomicLists(t *testing.T) {
	table := mustTable(t,
		permissionObject("c", ".spec.storageClassName", "ex.com/class", exclusive, "persistentvolumeclaims"),
		permissionObject("n", ".spec.args[x]", "ex.com/arg", exclusive, "widgets.example.com"))
	set := func(class *string) runtime.Object {
		return &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{}, {Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: class}}}}}
	}
	same := func(m map[string]interface{}) (map[string]interface{}, error) { return m, nil }
	decide := func(new runtime.Object) Result {
		return table.Decide(Request{Target: Target{Resource: statefulSets}, Mode: General, Check: holds().check, Default: same, Objects: objects(t, nil, new)})
	}
	expect(t, decide(set(new("gold"))), "field .spec.volumeClaimTemplates[1].spec.storageClassName needs granular:ex.com/class")
	expect(t, decide(set(nil)), "")
	after := widget(t, "spec: {args: [x]}")
	expect(t, table.Decide(Request{Target: Target{Resource: widgets}, Mode: General, Check: holds().check, Default: same, Objects: pairOf(nil, after)}), "field .spec.args[x] needs granular:ex.com/arg")
}
