package enforce

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
)

// debugOnly allows connections to pods with debug=yes.
type debugOnly struct{ requestctx.Pending }

func (debugOnly) Resolve(ctx context.Context, data authorizer.ConditionsData) requestctx.Outcome {
	target, err := authorize.FactsOf(ctx, data).Target("")
	pod, ok := target.(*corev1.Pod)
	if err != nil || !ok || pod.Labels["debug"] != "yes" {
		return requestctx.Outcome{Decision: authorizer.DecisionNoOpinion, Detail: err}
	}
	return allow
}

// podReader gives one pod, or fails.
type podReader struct {
	pod *corev1.Pod
	err error
}

func (r podReader) Target(context.Context, schema.GroupResource, string, string) (runtime.Object, error) {
	return r.pod, r.err
}

func podOf(version, debug string) *corev1.Pod {
	return &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u", ResourceVersion: version, Labels: map[string]string{"debug": debug}}}
}

func execOf() admission.Attributes {
	return admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{Version: "v1", Kind: "PodExecOptions"}, "hammer", "p",
		schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "exec", admission.Connect, nil, false, &user.DefaultInfo{Name: "edgar"})
}

// CA-26: a connection is decided on what it goes to before the handler begins, and again on each other state that the
// handler reads. Whatever goes wrong is answered as if there was no such pod.
func TestConnectionsAreDecidedOnTheirTarget(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	objects := admission.NewObjectInterfacesFromScheme(scheme)
	for _, c := range []struct {
		name    string
		targets Targets
		found   bool // it is let through
		hidden  bool // it is not found
	}{
		{"met", podReader{pod: podOf("1", "yes")}, true, false},
		{"not met", podReader{pod: podOf("1", "no")}, false, true},
		{"unreadable", podReader{pod: podOf("1", "yes"), err: errors.New("etcd is away")}, false, true},
		{"nobody reads", nil, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld("create", requestctx.Conditional(debugOnly{}))
			w.plugin.cfg.Targets = c.targets
			ctx := w.context(t)
			err := w.plugin.Validate(ctx, execOf(), objects)
			if (err == nil) != c.found || apierrors.IsNotFound(err) != c.hidden || !c.found && !c.hidden && !apierrors.IsForbidden(err) {
				t.Fatalf("got %v", err)
			}
			waiting := requestctx.From(ctx).Connection()
			if (waiting != nil) != c.found {
				t.Fatalf("what is left for the storage: %v", waiting)
			}
			if waiting == nil {
				return
			}
			for _, state := range []struct {
				pod *corev1.Pod
				ok  bool
			}{{podOf("1", "yes"), true}, {podOf("2", "no"), false}, {podOf("2", "no"), false}, {podOf("3", "yes"), true}} {
				if err := waiting.Decide(ctx, state.pod); (err == nil) != state.ok {
					t.Errorf("state %s: %v", state.pod.ResourceVersion, err)
				}
			}
		})
	}
}
