package fieldperm

import (
	"math/rand"
	"os"
	"strconv"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/yaml"
)

// builtin converts built-in objects with the schemas that Kubernetes ships.
var builtin = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(scheme.Scheme) })

// typedOf makes a value of a built-in object.
func typedOf(t testing.TB, obj runtime.Object) *typed.TypedValue {
	t.Helper()
	if _, ok := obj.(*unstructured.Unstructured); !ok {
		kinds, _, err := scheme.Scheme.ObjectKinds(obj)
		if err != nil {
			t.Fatal(err)
		}
		obj.GetObjectKind().SetGroupVersionKind(kinds[0])
	}
	v, err := builtin().ObjectToTyped(obj, typed.AllowDuplicates)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// objects hands a pair of built-in objects to a request; old may be nil.
func objects(t testing.TB, old, new runtime.Object) func() (*typed.TypedValue, *typed.TypedValue, error) {
	t.Helper()
	var before *typed.TypedValue
	if old != nil {
		before = typedOf(t, old)
	}
	after := typedOf(t, new)
	return func() (*typed.TypedValue, *typed.TypedValue, error) { return before, after, nil }
}

// holding answers checks from a set of verbs and counts them.
type holding struct {
	verbs map[string]bool
	asked []string
}

func holds(verbs ...string) *holding {
	h := &holding{verbs: map[string]bool{}}
	for _, v := range verbs {
		h.verbs[v] = true
	}
	return h
}

func (h *holding) check(verb string) (bool, error) {
	h.asked = append(h.asked, verb)
	return h.verbs[verb], nil
}

// widgets is a custom resource with one field of each sort that a schema can have.
const widgetSchema = `
type: object
x-kubernetes-group-version-kind: [{group: example.com, version: v1, kind: Widget}]
properties:
  apiVersion: {type: string}
  kind: {type: string}
  metadata: {type: object}
  spec:
    type: object
    properties:
      nodeName: {type: string}
      level: {type: string}
      count: {type: integer}
      triggerSelfDestruct: {type: boolean}
      tags: {type: array, items: {type: string}, x-kubernetes-list-type: set}
      args: {type: array, items: {type: string}}
      limits: {type: object, additionalProperties: {type: string}}
      parts:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [name]
        items: {type: object, properties: {name: {type: string}, size: {type: integer}, secret: {type: string}}}
      ports:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [port, protocol]
        items: {type: object, properties: {port: {type: integer}, protocol: {type: string, default: TCP}, note: {type: string}}}
      colour: {type: object, x-kubernetes-map-type: atomic, properties: {r: {type: integer}, g: {type: integer}, secret: {type: string}}}
      config: {type: object, x-kubernetes-preserve-unknown-fields: true}
      partly: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {known: {type: string}}}
      work: {type: object, properties: {metadata: {type: object, properties: {labels: {type: object, additionalProperties: {type: string}}}}, spec: {type: object, properties: {nodeName: {type: string}}}}}
      maybe: {type: array, nullable: true, items: {type: string}, x-kubernetes-list-type: set}
  status:
    type: object
    properties:
      conditions:
        type: array
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [type]
        items: {type: object, properties: {type: {type: string}, status: {type: string}}}
`

var widgets = Resource{"example.com", "widgets"}

// widgetSchemas reads the schema as the server does from a CRD.
var widgetSchemas = sync.OnceValues(func() (*Schemas, error) {
	var s spec.Schema
	if err := yaml.Unmarshal([]byte(widgetSchema), &s); err != nil {
		return nil, err
	}
	return NewSchemas(map[string]*spec.Schema{"com.example.v1.Widget": &s}, false)
})

// widget makes a value of YAML; empty YAML is no object.
func widget(t testing.TB, text string) *typed.TypedValue {
	t.Helper()
	if text == "" {
		return nil
	}
	schemas, err := widgetSchemas()
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetAPIVersion("example.com/v1")
	u.SetKind("Widget")
	v, err := schemas.ObjectToTyped(u)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.Intn(len(list))] }

func some(r *rand.Rand) bool { return r.Intn(2) == 0 }

// randomDeployment draws from few values, so that two of them are much alike.
func randomDeployment(r *rand.Rand) *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "hammer", ResourceVersion: pick(r, "1", "2"), Generation: int64(r.Intn(3))}}
	d.Labels, d.Annotations = randomMap(r), randomMap(r)
	for _, f := range []string{"super.safe.com/a", "other.com/b", "plain"} {
		if some(r) {
			d.Finalizers = append(d.Finalizers, f)
		}
	}
	for _, uid := range []types.UID{"u1", "u2"} {
		if r.Intn(3) == 0 {
			d.OwnerReferences = append(d.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "X", Name: pick(r, "x", "y"), UID: uid})
		}
	}
	if some(r) {
		d.Spec.Replicas = new(int32(r.Intn(2)))
	}
	d.Spec.Paused = some(r)
	if some(r) {
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: randomMap(r)}
	}
	d.Spec.Template.Labels = randomMap(r)
	randomPodSpec(r, &d.Spec.Template.Spec)
	for _, kind := range []appsv1.DeploymentConditionType{"SuperSafe", "Available"} {
		if some(r) {
			d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: kind, Status: pick(r, corev1.ConditionTrue, corev1.ConditionFalse)})
		}
	}
	d.Status.Replicas = int32(r.Intn(2))
	r.Shuffle(len(d.Finalizers), func(i, j int) { d.Finalizers[i], d.Finalizers[j] = d.Finalizers[j], d.Finalizers[i] })
	return d
}

func randomPodSpec(r *rand.Rand, s *corev1.PodSpec) {
	*s = corev1.PodSpec{NodeName: pick(r, "", "", "n1", "n2")}
	s.HostNetwork = r.Intn(3) == 0
	s.NodeSelector = randomMap(r)
	if r.Intn(3) == 0 {
		s.Tolerations = []corev1.Toleration{{Key: pick(r, "a", "b")}}
	}
	for _, name := range []string{"app", "proxy"} {
		if some(r) {
			c := corev1.Container{Name: name, Image: pick(r, "i:1", "i:2")}
			for _, port := range []int32{80, 443} {
				if some(r) {
					c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: port, Protocol: pick(r, corev1.ProtocolTCP, corev1.ProtocolUDP), Name: pick(r, "", "p")})
				}
			}
			if some(r) {
				c.Args = []string{pick(r, "-a", "-b")}
			}
			s.Containers = append(s.Containers, c)
		}
	}
	if some(r) && len(s.Containers) == 2 {
		s.Containers[0], s.Containers[1] = s.Containers[1], s.Containers[0]
	}
	if some(r) {
		s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	}
}

func randomMap(r *rand.Rand) map[string]string {
	var m map[string]string
	for _, key := range []string{"super.safe.com/a", "super.safe.com/b", "other.com/x", "env"} {
		if some(r) {
			if m == nil {
				m = map[string]string{}
			}
			m[key] = pick(r, "1", "2")
		}
	}
	return m
}

func lawRuns(def int) int {
	if n, err := strconv.Atoi(os.Getenv("PROVISO_LAW_RUNS")); err == nil {
		return n
	}
	return def
}
