package expr

import (
	"context"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
)

// peerCases are expressions and the same in the words of a
// ValidatingAdmissionPolicy, where the user is elsewhere in `request`.
var peerCases = []struct{ name, ours, theirs string }{
	{"object", `object.spec.nodeName == "n1"`, `object.spec.nodeName == "n1"`},
	{"labels", `has(object.metadata.labels) && object.metadata.labels["env"] == "dev" && object.spec.restartPolicy != "Never"`,
		`has(object.metadata.labels) && object.metadata.labels["env"] == "dev" && object.spec.restartPolicy != "Never"`},
	{"loop", `object.spec.containers.all(c, c.image.startsWith("registry/"))`,
		`object.spec.containers.all(c, c.image.startsWith("registry/"))`},
	{"user", `request.user.startsWith("bot-") && object.spec.nodeName == "n1"`,
		`request.userInfo.username.startsWith("bot-") && object.spec.nodeName == "n1"`},
	{"groups", `request.groups.exists(g, g == "dev") && object.spec.nodeName == "n1"`,
		`request.userInfo.groups.exists(g, g == "dev") && object.spec.nodeName == "n1"`},
	{"both", `object.metadata.labels["owner"] == request.user && object.spec.nodeName == "n1"`,
		`object.metadata.labels["owner"] == request.userInfo.username && object.spec.nodeName == "n1"`},
}

func benchPod() *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", Namespace: "ns", Labels: map[string]string{"env": "dev", "owner": "bot-1"},
		},
		Spec: corev1.PodSpec{NodeName: "n1", RestartPolicy: "Always", Containers: []corev1.Container{
			{Name: "a", Image: "registry/a"}, {Name: "b", Image: "registry/b"}, {Name: "c", Image: "registry/c"},
		}},
	}
}

type vapExpression string

func (e vapExpression) GetExpression() string  { return string(e) }
func (vapExpression) ReturnTypes() []*cel.Type { return []*cel.Type{cel.BoolType} }

// BenchmarkPeer runs authorize + enforce of one condition and the same
// expression through the machinery of ValidatingAdmissionPolicy, alternately in
// one run, and reports the ratio (CA-13). Both start from what the API server
// hands them, and both see the object for the first time.
func BenchmarkPeer(b *testing.B) {
	ctx := context.Background()
	bot := &user.DefaultInfo{Name: "bot-1", Groups: []string{"system:authenticated", "dev"}}
	pod := benchPod()
	gvk, gvr := corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithResource("pods")
	attrs := admission.NewAttributesRecord(pod, nil, gvk, "ns", "p", gvr, "", admission.Create, &metav1.CreateOptions{}, false, bot)
	authz := authorizer.AttributesRecord{
		User: bot, Verb: "create", Namespace: "ns", APIVersion: "v1", Resource: "pods", Name: "p", ResourceRequest: true,
	}
	vap := plugincel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	for _, tc := range peerCases {
		b.Run(tc.name, func(b *testing.B) {
			theirs := vap.CompileCondition([]plugincel.ExpressionAccessor{vapExpression(tc.theirs)},
				plugincel.OptionalVariableDeclarations{}, environment.StoredExpressions)
			if errs := theirs.CompilationErrors(); len(errs) > 0 {
				b.Fatal(errs)
			}
			program := compile(b, When, tc.ours)
			runTheirs := func() {
				va := &admission.VersionedAttributes{Attributes: attrs, VersionedKind: gvk, VersionedObject: admission.NewLazyObject(pod)}
				req := plugincel.CreateAdmissionRequest(attrs, gvrOf(gvr), gvkOf(gvk))
				res, _, err := theirs.ForInput(ctx, va, req, plugincel.OptionalVariableBindings{}, nil, celconfig.RuntimeCELCostBudget)
				if err != nil || res[0].Error != nil || res[0].EvalResult.Value() != true {
					b.Fatal(err, res)
				}
			}
			runOurs := func() {
				out := program.Decide(NewRequest(authz), Allow)
				d := NewData(DataConfig{Operation: "CREATE", OwnKind: true, Objects: Static{New: pod}})
				if ok, err := out.Residual().Evaluate(ctx, d); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
			var ours, peer time.Duration
			n := 0
			for b.Loop() {
				const batch = 50
				start := time.Now()
				for range batch {
					runTheirs()
				}
				mid := time.Now()
				for range batch {
					runOurs()
				}
				peer += mid.Sub(start)
				ours += time.Since(mid)
				n += batch
			}
			b.ReportMetric(float64(ours)/float64(n), "ours-ns")
			b.ReportMetric(float64(peer)/float64(n), "vap-ns")
			b.ReportMetric(float64(ours)/float64(peer), "ours/vap")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func gvrOf(r schema.GroupVersionResource) metav1.GroupVersionResource {
	return metav1.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
}

func gvkOf(k schema.GroupVersionKind) metav1.GroupVersionKind {
	return metav1.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}
}

// BenchmarkDecide is the first step alone.
func BenchmarkDecide(b *testing.B) {
	for _, tc := range []struct{ name, source string }{
		{"object only", `object.spec.nodeName == "n1"`},
		{"request only", `request.user == "edgar"`},
		{"request first", `request.user == "eve" && object.spec.nodeName == "n1"`},
		{"mixed", `object.metadata.labels["owner"] == request.user && object.spec.nodeName == "n1"`},
	} {
		b.Run(tc.name, func(b *testing.B) {
			p, req := compile(b, When, tc.source), edgar()
			b.ReportAllocs()
			for b.Loop() {
				p.Decide(req, Allow)
			}
		})
	}
}

// BenchmarkMany evaluates many conditions of one request: the object is
// converted once.
func BenchmarkMany(b *testing.B) {
	p, req, pod := compile(b, When, `object.spec.nodeName == "n1"`), edgar(), benchPod()
	b.ReportAllocs()
	for b.Loop() {
		d := NewData(DataConfig{Operation: "CREATE", OwnKind: true, Objects: Static{New: pod}})
		for range 100 {
			if ok, err := p.Evaluate(context.Background(), req, Allow, d); !ok || err != nil {
				b.Fatal(ok, err)
			}
		}
	}
}

func BenchmarkText(b *testing.B) {
	p, req := compile(b, When, `object.metadata.labels["owner"] == request.user && object.spec.nodeName == "n1"`), edgar()
	for b.Loop() {
		p.Text(req, Allow)
	}
}

func BenchmarkImplied(b *testing.B) {
	for _, source := range []string{`resource.spec.nodeName == "n1"`, `resource.spec.nodeName == request.user && resource.metadata.labels.env == "dev"`} {
		b.Run(source[:len(source)/2], func(b *testing.B) {
			p, req := compile(b, Where, source), selecting(b, "", "env=dev", "spec.nodeName=n1")
			b.ReportAllocs()
			for b.Loop() {
				if !Implied(p, req, podFields) {
					b.Fatal("not implied")
				}
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		compile(b, When, `object.metadata.labels["owner"] == request.user && object.spec.nodeName == "n1"`)
	}
}
