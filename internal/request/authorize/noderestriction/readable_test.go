package noderestriction

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	authenticationapi "k8s.io/kubernetes/pkg/apis/authentication"
	_ "k8s.io/kubernetes/pkg/apis/authentication/install"
	certapi "k8s.io/kubernetes/pkg/apis/certificates"
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"
	coordination "k8s.io/kubernetes/pkg/apis/coordination"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	api "k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	resourceapi "k8s.io/kubernetes/pkg/apis/resource"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	storageapi "k8s.io/kubernetes/pkg/apis/storage"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"

	"proviso.dev/proviso/internal/engine/expr"
)

var nobody = authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "", nil
})

// kind is a resource with random objects of it, in the version that conditions see.
type kind struct {
	resource    schema.GroupVersionResource
	subresource string
	namespace   string
	verbs       []string
	random      func(r *rand.Rand) runtime.Object
	internal    func() runtime.Object
	// changed is another state of the object.
	changed func(r *rand.Rand, obj runtime.Object) runtime.Object
}

func oneOf(r *rand.Rand, values ...string) string { return values[r.IntN(len(values))] }

var someLabels = []string{"app", "example.com/x", "kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/mine", "x.kubernetes.io/y", "k8s.io/z", "a.k8s.io/b", "notk8s.io/b",
	"node.kubernetes.io/instance-type", "node.kubernetes.io/x", "kubelet.kubernetes.io/x", "a.kubelet.kubernetes.io/x", "node-restriction.kubernetes.io/x", "a.node-restriction.kubernetes.io/x",
	"xnode-restriction.kubernetes.io/x", "beta.kubernetes.io/os", "topology.kubernetes.io/zone", "kubernetes.io/", "kubernetes.io"}

func randomLabels(r *rand.Rand) map[string]string {
	if r.IntN(3) == 0 {
		return nil
	}
	labels := map[string]string{}
	for range r.IntN(3) {
		labels[someLabels[r.IntN(len(someLabels))]] = oneOf(r, "a", "b")
	}
	return labels
}

func randomOwners(r *rand.Rand) []metav1.OwnerReference {
	var owners []metav1.OwnerReference
	for range r.IntN(3) {
		o := metav1.OwnerReference{APIVersion: oneOf(r, "v1", "v1", "v1", "apps/v1"), Kind: oneOf(r, "Node", "Node", "Node", "Pod"), Name: oneOf(r, "n1", "n1", "n2"), UID: "u1"}
		if r.IntN(4) > 0 {
			yes := r.IntN(5) > 0
			o.Controller = &yes
		}
		if r.IntN(3) == 0 {
			yes := r.IntN(2) == 0
			o.BlockOwnerDeletion = &yes
		}
		owners = append(owners, o)
	}
	return owners
}

func randomNode(r *rand.Rand) runtime.Object {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: oneOf(r, "n1", "n1", "n2"), Labels: randomLabels(r), OwnerReferences: randomOwners(r)[:0]}}
	if r.IntN(5) == 0 {
		n.OwnerReferences = randomOwners(r)
	}
	if r.IntN(4) == 0 {
		n.Spec.Taints = []corev1.Taint{{Key: oneOf(r, "a", "b"), Effect: "NoSchedule"}}
	}
	if r.IntN(5) == 0 {
		n.Spec.DoNotUseExternalID = "x"
		n.Spec.ConfigSource = &corev1.NodeConfigSource{ConfigMap: &corev1.ConfigMapNodeConfigSource{Name: oneOf(r, "a", "b"), KubeletConfigKey: "k", Namespace: "d"}}
	}
	return n
}

func randomPod(r *rand.Rand) runtime.Object {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", OwnerReferences: randomOwners(r), Labels: randomLabels(r)},
		Spec: corev1.PodSpec{NodeName: oneOf(r, "n1", "n1", "n1", "n2", "")}}
	if r.IntN(5) > 0 {
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: oneOf(r, "", "x")}
	}
	return p
}

func anotherOf(random func(*rand.Rand) runtime.Object) func(*rand.Rand, runtime.Object) runtime.Object {
	return func(r *rand.Rand, obj runtime.Object) runtime.Object {
		if r.IntN(3) == 0 {
			return obj.DeepCopyObject()
		}
		other := random(r)
		other.(metav1.Object).SetName(obj.(metav1.Object).GetName())
		return other
	}
}

var all = []string{"create", "update", "patch", "delete", "deletecollection"}

func kinds() map[string]kind {
	lease := func(r *rand.Rand) runtime.Object {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: oneOf(r, "n1", "n2"), Namespace: "kube-node-lease"}}
	}
	csi := func(r *rand.Rand) runtime.Object {
		return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: oneOf(r, "n1", "n2")}}
	}
	slice := func(r *rand.Rand) runtime.Object {
		s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
		if r.IntN(4) > 0 {
			name := oneOf(r, "n1", "n2", "")
			s.Spec.NodeName = &name
		}
		return s
	}
	token := func(r *rand.Rand) runtime.Object {
		t := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{}}}
		if r.IntN(5) > 0 {
			t.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: oneOf(r, "v1", "v1", "v1", "v2"), Kind: oneOf(r, "Pod", "Pod", "Secret"), Name: oneOf(r, "mine", "mine", ""), UID: types.UID(oneOf(r, "u1", "u1", ""))}
		}
		return t
	}
	csr := func(r *rand.Rand) runtime.Object {
		return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: oneOf(r, "a/b", certificatesv1.KubeletServingSignerName)}}
	}
	v1 := func(resource string) schema.GroupVersionResource {
		return corev1.SchemeGroupVersion.WithResource(resource)
	}
	return map[string]kind{
		"nodes":        {v1("nodes"), "", "", all, randomNode, func() runtime.Object { return &api.Node{} }, anotherOf(randomNode)},
		"nodes/status": {v1("nodes"), "status", "", []string{"update", "patch"}, randomNode, func() runtime.Object { return &api.Node{} }, anotherOf(randomNode)},
		"pods":         {v1("pods"), "", "default", all, randomPod, func() runtime.Object { return &api.Pod{} }, anotherOf(randomPod)},
		"pods/status":  {v1("pods"), "status", "default", []string{"update", "patch"}, randomPod, func() runtime.Object { return &api.Pod{} }, anotherOf(randomPod)},
		"pods/resize":  {v1("pods"), "resize", "default", []string{"update", "patch"}, randomPod, func() runtime.Object { return &api.Pod{} }, anotherOf(randomPod)},
		"leases":       {coordinationv1.SchemeGroupVersion.WithResource("leases"), "", "kube-node-lease", all, lease, func() runtime.Object { return &coordination.Lease{} }, anotherOf(lease)},
		"other leases": {coordinationv1.SchemeGroupVersion.WithResource("leases"), "", "default", all, lease, func() runtime.Object { return &coordination.Lease{} }, anotherOf(lease)},
		"csinodes":     {storagev1.SchemeGroupVersion.WithResource("csinodes"), "", "", all, csi, func() runtime.Object { return &storageapi.CSINode{} }, anotherOf(csi)},
		"slices":       {resourcev1.SchemeGroupVersion.WithResource("resourceslices"), "", "", all, slice, func() runtime.Object { return &resourceapi.ResourceSlice{} }, anotherOf(slice)},
		"tokens":       {v1("serviceaccounts"), "token", "default", []string{"create"}, token, func() runtime.Object { return &authenticationapi.TokenRequest{} }, nil},
		"csrs":         {certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests"), "", "", all, csr, func() runtime.Object { return &certapi.CertificateSigningRequest{} }, anotherOf(csr)},
	}
}

// CA-25: where the text is CEL, it says what the check decides; where it is only a part of it, the check refuses
// whatever meets it, and refuses nothing else that is not for the reason that the description gives.
func TestReadableSaysWhatIsDecided(t *testing.T) {
	factory := informers.NewSharedInformerFactory(nil, 0)
	restriction, err := New(factory, nobody)
	if err != nil {
		t.Fatal(err)
	}
	add := func(store interface{ Add(any) error }, obj any) {
		if err := store.Add(obj); err != nil {
			t.Fatal(err)
		}
	}
	add(factory.Core().V1().Nodes().Informer().GetStore(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1"}})
	for name, node := range map[string]string{"mine": "n1", "theirs": "n2"} {
		add(factory.Core().V1().Pods().Informer().GetStore(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: "u1"}, Spec: corev1.PodSpec{NodeName: node,
			Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}}}}}}}})
	}
	compiler, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	node := &user.DefaultInfo{Name: "system:node:n1", Groups: []string{user.NodesGroup}}
	programs := map[string]*expr.Program{}
	for name, k := range kinds() {
		t.Run(name, func(t *testing.T) {
			counts := map[bool]int{}
			r := rand.New(rand.NewPCG(25, 1))
			for i := range 4000 {
				verb := k.verbs[i%len(k.verbs)]
				obj, old, operation := runtime.Object(nil), runtime.Object(nil), admission.Create
				switch {
				case verb == "create" || (verb == "update" || verb == "patch") && k.subresource == "" && r.IntN(4) == 0:
					obj = k.random(r)
				case verb == "update" || verb == "patch":
					old, operation = k.random(r), admission.Update
					obj = k.changed(r, old)
				default:
					old, operation = k.random(r), admission.Delete
				}
				name := "sa"
				for _, o := range []runtime.Object{obj, old} {
					if m, ok := o.(metav1.Object); ok && m.GetName() != "" {
						name = m.GetName()
					}
				}
				if p, ok := old.(*corev1.Pod); ok && operation == admission.Delete { // the check looks at what the server knows
					p.Name = map[string]string{"n1": "mine", "n2": "theirs"}[p.Spec.NodeName]
					if name = p.Name; name == "" {
						continue
					}
				}
				attrs := authorizer.AttributesRecord{User: node, Verb: verb, APIGroup: k.resource.Group, APIVersion: k.resource.Version, Resource: k.resource.Resource,
					Subresource: k.subresource, Namespace: k.namespace, ResourceRequest: true}
				says := textOf("n1", attrs)
				program := programs[says.refusedIf]
				if program == nil && says.refusedIf != "" {
					var issues expr.Issues
					if program, issues = compiler.Compile(says.refusedIf, expr.Options{Kind: expr.When}); issues != nil {
						t.Fatalf("%s: %v", says.refusedIf, issues)
					}
					programs[says.refusedIf] = program
				}
				request := admission.NewAttributesRecord(k.convert(t, obj), k.convert(t, old), schema.GroupVersionKind{}, k.namespace, name, k.resource, k.subresource, operation, nil, false, node)
				refusal := restriction.refusal(t.Context(), request)
				said := false
				if program != nil {
					data := expr.NewData(expr.DataConfig{Operation: string(operation), Objects: expr.Static{New: obj, Old: old}, OwnKind: k.subresource != "token"})
					if said, err = program.Evaluate(t.Context(), expr.NewRequest(attrs), expr.Deny, data); err != nil {
						t.Fatalf("%s %s: %v\n%+v\n%+v", verb, says.refusedIf, err, obj, old)
					}
				}
				counts[said]++
				if said != (refusal != nil) && (said || says.and == "" || name != "c") {
					t.Fatalf("%s as %s: CEL says %v, the check says %v\n%s\n%+v\n%+v", verb, operation, said, refusal, says.refusedIf, obj, old)
				}
			}
			t.Logf("%v", counts)
		})
	}
}

func (k *kind) convert(t *testing.T, obj runtime.Object) runtime.Object {
	if obj == nil {
		return nil
	}
	into := k.internal()
	if err := legacyscheme.Scheme.Convert(obj.DeepCopyObject(), into, nil); err != nil {
		t.Fatal(err)
	}
	return into
}

// CA-25: every text fits into a condition, whatever the name of the node is, and says what it is about.
func TestReadableTexts(t *testing.T) {
	long := fmt.Sprintf("%0253d", 7)
	for _, k := range kinds() {
		for _, verb := range k.verbs {
			attrs := authorizer.AttributesRecord{Verb: verb, APIGroup: k.resource.Group, Resource: k.resource.Resource, Subresource: k.subresource, Namespace: k.namespace, ResourceRequest: true}
			for _, name := range []string{"", "n1", long, `"\`} {
				says := textOf(name, attrs)
				_, text, err := says.condition(name)
				if d := says.description(name); err != nil || text == "" || len(text) > expr.MaxLength || len(d) > expr.MaxDescription {
					t.Errorf("%s %s: %v, %d and %d bytes", verb, k.resource.Resource, err, len(text), len(d))
				}
				if name == "" && says != (readable{refusedIf: always}) {
					t.Errorf("%s %s: a node without a name: %+v", verb, k.resource.Resource, says)
				}
			}
		}
	}
}
