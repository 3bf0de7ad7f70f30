package protectedattr

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// PA-5: every place where a type that Kubernetes ships holds metadata of other objects is in templateSites, and
// nothing else is. When this fails after an upgrade, a new kind carries metadata for others: add it.
func TestSitesAreComplete(t *testing.T) {
	found := map[groupResource][]string{}
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		if strings.HasSuffix(gvk.Kind, "List") || gvk.Version == runtime.APIVersionInternal || gvk.Group == "extensions" {
			continue // extensions has not been served since 1.22
		}
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		gr := groupResource{plural.Group, plural.Resource}
		for _, place := range metadataPlaces(typ, "", nil) {
			if place != ".metadata" && !slices.Contains(found[gr], place) {
				found[gr] = append(found[gr], place)
			}
		}
	}
	if len(found) < 10 {
		t.Fatalf("found %d resources with templates: the search is broken", len(found))
	}
	for gr, places := range found {
		for _, place := range places {
			if !slices.ContainsFunc(templateSites[gr], func(s site) bool { return sitePlace(s) == place }) {
				t.Errorf("%s.%s carries metadata at %s, which is not examined", gr.resource, gr.group, place)
			}
		}
	}
	for gr, sites := range templateSites {
		if len(sites) > maxSites {
			t.Errorf("%s.%s has %d sites, maxSites is %d", gr.resource, gr.group, len(sites), maxSites)
		}
		for _, s := range sites {
			if gr != revisions && !slices.Contains(found[gr], sitePlace(s)) {
				t.Errorf("%s.%s has no metadata at %s", gr.resource, gr.group, sitePlace(s))
			}
		}
	}
}

func sitePlace(s site) string {
	if s.isList() {
		return dotted(s.path) + "[]" + dotted(s.sub) + ".metadata"
	}
	return dotted(s.path) + ".metadata"
}

// metadataPlaces lists the JSON paths of every ObjectMeta inside a type.
func metadataPlaces(t reflect.Type, path string, inside []reflect.Type) []string {
	switch {
	case t == reflect.TypeFor[metav1.ObjectMeta]():
		return []string{path}
	case slices.Contains(inside, t):
		return nil // a recursive type
	}
	inside = append(slices.Clone(inside), t)
	var all []string
	switch t.Kind() {
	case reflect.Pointer:
		return metadataPlaces(t.Elem(), path, inside)
	case reflect.Slice, reflect.Map:
		return metadataPlaces(t.Elem(), path+"[]", inside)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			below := path
			if name != "" {
				below += "." + name
			}
			all = append(all, metadataPlaces(f.Type, below, inside)...)
		}
	}
	return all
}

func template(labels map[string]string, volumes ...corev1.Volume) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Volumes: volumes}}
}

func ephemeral(name string, labels map[string]string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{ObjectMeta: metav1.ObjectMeta{Labels: labels}},
	}}}
}

func plain(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
}

func claim(name string, labels map[string]string) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

// places is one object per place of PA-5, with labels in that place only.
var places = []struct {
	group, resource, where string
	make                   func(labels map[string]string) runtime.Object
}{
	{"", "pods", ".spec.volumes[data]", func(l map[string]string) runtime.Object {
		return &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{plain("tmp"), ephemeral("data", l)}}}
	}},
	{"", "podtemplates", ".template.metadata", func(l map[string]string) runtime.Object {
		return &corev1.PodTemplate{Template: template(l)}
	}},
	{"", "podtemplates", ".template.spec.volumes[data]", func(l map[string]string) runtime.Object {
		return &corev1.PodTemplate{Template: template(nil, ephemeral("data", l))}
	}},
	{"", "replicationcontrollers", ".spec.template.metadata", func(l map[string]string) runtime.Object {
		pt := template(l)
		return &corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Template: &pt}}
	}},
	{"", "replicationcontrollers", ".spec.template.spec.volumes[data]", func(l map[string]string) runtime.Object {
		pt := template(nil, ephemeral("data", l))
		return &corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Template: &pt}}
	}},
	{"apps", "deployments", ".spec.template.metadata", func(l map[string]string) runtime.Object {
		return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: template(l)}}
	}},
	{"apps", "deployments", ".spec.template.spec.volumes[data]", func(l map[string]string) runtime.Object {
		return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: template(nil, ephemeral("data", l))}}
	}},
	{"apps", "replicasets", ".spec.template.metadata", func(l map[string]string) runtime.Object {
		return &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Template: template(l)}}
	}},
	{"apps", "daemonsets", ".spec.template.metadata", func(l map[string]string) runtime.Object {
		return &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Template: template(l)}}
	}},
	{"apps", "statefulsets", ".spec.template.metadata", func(l map[string]string) runtime.Object {
		return &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: template(l)}}
	}},
	{"apps", "statefulsets", ".spec.volumeClaimTemplates[data]", func(l map[string]string) runtime.Object {
		return &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{VolumeClaimTemplates: []corev1.PersistentVolumeClaim{claim("tmp", nil), claim("data", l)}}}
	}},
	{"batch", "jobs", ".spec.template.metadata", func(l map[string]string) runtime.Object {
		return &batchv1.Job{Spec: batchv1.JobSpec{Template: template(l)}}
	}},
	{"batch", "cronjobs", ".spec.jobTemplate.metadata", func(l map[string]string) runtime.Object {
		return &batchv1.CronJob{Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: l}}}}
	}},
	{"batch", "cronjobs", ".spec.jobTemplate.spec.template.metadata", func(l map[string]string) runtime.Object {
		return &batchv1.CronJob{Spec: batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template(l)}}}}
	}},
	{"resource.k8s.io", "resourceclaimtemplates", ".spec.metadata", func(l map[string]string) runtime.Object {
		return &resourcev1.ResourceClaimTemplate{Spec: resourcev1.ResourceClaimTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: l}}}
	}},
}

func loosely(t testing.TB, obj runtime.Object) map[string]interface{} {
	t.Helper()
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// PA-5: metadata that an object carries for others counts, in structs and in decoded JSON, for the status subresource
// too, unless the scope is ObjectOnly.
func TestTemplates(t *testing.T) {
	included := mustIndex(t, clusterLabel("env-prod", "env", releaseManagers, "prod"))
	p := clusterLabel("env-prod", "env", releaseManagers, "prod")
	p.ObjectOnly = true
	objectOnly := mustIndex(t, p)

	for _, tc := range places {
		t.Run(tc.resource+tc.where, func(t *testing.T) {
			bare, prod, other := tc.make(nil), tc.make(kv{"env": "prod"}), tc.make(kv{"env": "dev"})
			for _, subresource := range []string{"", "status"} {
				for _, as := range []func(runtime.Object) any{
					func(o runtime.Object) any { return o },
					func(o runtime.Object) any { return loosely(t, o) },
					func(o runtime.Object) any { return &unstructured.Unstructured{Object: loosely(t, o)} },
				} {
					req := &Request{User: "edgar", Group: tc.group, Resource: tc.resource, Subresource: subresource, Namespace: "hammer"}
					refused := "label env=prod in " + tc.where + " is protected by ClusterProtectedAttribute"
					expect(t, included.Check(req, nil, as(prod)), refused)
					expect(t, included.Check(req, nil, as(other)), "")
					expect(t, included.Check(req, as(bare), as(prod)), refused)
					expect(t, included.Check(req, as(other), as(prod)), refused)
					expect(t, included.Check(req, as(prod), as(other)), refused)
					expect(t, included.Check(req, as(prod), as(bare)), refused)
					expect(t, included.Check(req, as(prod), as(prod)), "")
					expect(t, objectOnly.Check(req, nil, as(prod)), "")
					req.Member = members(releaseManagers)
					expect(t, included.Check(req, as(bare), as(prod)), "")
				}
			}
		})
	}
}

// PA-5: volumes are compared by name, so that reordering is no change, and dropping one is.
func TestListElementsByName(t *testing.T) {
	ix := mustIndex(t, clusterLabel("env-prod", "env", releaseManagers, "prod"))
	req := &Request{User: "edgar", Resource: "pods", Namespace: "hammer"}
	pod := func(v ...corev1.Volume) *corev1.Pod { return &corev1.Pod{Spec: corev1.PodSpec{Volumes: v}} }
	prod, dev := kv{"env": "prod"}, kv{"env": "dev"}
	for _, tc := range []struct {
		name     string
		old, new *corev1.Pod
		want     string
	}{
		{"reordered", pod(ephemeral("a", prod), ephemeral("b", dev)), pod(ephemeral("b", dev), ephemeral("a", prod)), ""},
		{"another in front", pod(ephemeral("a", prod)), pod(plain("x"), ephemeral("a", prod)), ""},
		{"labels swapped", pod(ephemeral("a", prod), ephemeral("b", dev)), pod(ephemeral("a", dev), ephemeral("b", prod)), "label env=prod in .spec.volumes[a]"},
		{"renamed", pod(ephemeral("a", prod)), pod(ephemeral("z", prod)), "label env=prod in .spec.volumes[z]"},
		{"dropped", pod(ephemeral("a", prod), plain("b")), pod(plain("b")), "label env=prod in .spec.volumes[a]"},
		{"no longer ephemeral", pod(ephemeral("a", prod)), pod(plain("a")), "label env=prod in .spec.volumes[a]"},
		{"free one dropped", pod(ephemeral("a", dev), plain("b")), pod(plain("b")), ""},
		{"doubled", pod(ephemeral("a", prod)), pod(ephemeral("a", prod), ephemeral("a", prod)), "label env=prod in .spec.volumes[a]"},
		{"second of a name changed", pod(ephemeral("a", dev), ephemeral("a", dev)), pod(ephemeral("a", dev), ephemeral("a", prod), plain("b")), "label env=prod in .spec.volumes[a]"},
		{"without a name", nil, pod(ephemeral("", prod)), "label env=prod in .spec.volumes[0]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			expect(t, ix.Check(req, tc.old, tc.new), tc.want)
			var old any
			if tc.old != nil {
				old = loosely(t, tc.old)
			}
			expect(t, ix.Check(req, old, loosely(t, tc.new)), tc.want)
		})
	}
}

// PA-5: what a binding carries is put on the pod, whatever the scope of the protection.
func TestBinding(t *testing.T) {
	p := Protection{Name: "n", Attribute: Annotation, Key: "example.com/rack", Role: testers, ObjectOnly: true}
	ix := mustIndex(t, p, clusterLabel("l", "topology.kubernetes.io/zone", testers))
	req := &Request{User: "edgar", Resource: "pods", Subresource: "binding", Namespace: "hammer"}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: kv{"example.com/rack": "7"}}}
	expect(t, ix.Check(req, nil, binding), "annotation example.com/rack=7 is protected")
	req.Member = members(testers)
	expect(t, ix.Check(req, nil, binding), "")
	zone := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: kv{"topology.kubernetes.io/zone": "z"}}}
	req.Member = nil
	expect(t, ix.Check(req, nil, zone), "label topology.kubernetes.io/zone=z is protected")
}

// Kubernetes hands admission its internal types: the same Go names without tags, and pointers in other places.
type internalDeployment struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec struct {
		Replicas int32
		Template *internalTemplate
	}
}

type internalTemplate struct {
	metav1.ObjectMeta
	Spec struct {
		Volumes []struct {
			Name string
			internalSource
		}
	}
}

type internalSource struct {
	EmptyDir  *struct{}
	Ephemeral *struct{ VolumeClaimTemplate *struct{ metav1.ObjectMeta } }
}

// PA-5: types are read by Go names, and a type that lacks a place where templates belong is refused, not skipped.
func TestTypesWithoutTags(t *testing.T) {
	ix := mustIndex(t, clusterLabel("env-prod", "env", releaseManagers, "prod"))
	req := &Request{User: "edgar", Group: "apps", Resource: "deployments", Namespace: "hammer"}
	d := &internalDeployment{}
	expect(t, ix.Check(req, nil, d), "")
	d.Spec.Template = &internalTemplate{ObjectMeta: metav1.ObjectMeta{Labels: kv{"env": "prod"}}}
	expect(t, ix.Check(req, nil, d), "label env=prod in .spec.template.metadata")

	expect(t, ix.Check(req, nil, &corev1.ConfigMap{}), "protected attributes could not be examined: .spec.template.metadata: v1.ConfigMap has no field Spec")
	req.Subresource = "scale"
	expect(t, ix.Check(req, nil, &corev1.ConfigMap{}), "")
	req.Subresource = ""
	expect(t, ix.Check(req, nil, map[string]interface{}{"spec": "x"}), "protected attributes could not be examined: .spec is not an object")
}
