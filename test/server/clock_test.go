package server

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/hosts/apiserver"
	"proviso.dev/proviso/internal/state/journal"
	"proviso.dev/proviso/internal/state/timekeeper"
	"proviso.dev/proviso/test/etcdtest"
)

// hands are those of a clock that a test sets.
type hands struct {
	timekeeper.Hands
	mu    sync.Mutex
	ahead time.Duration
}

func newHands(ahead time.Duration) *hands { return &hands{Hands: timekeeper.Machine(), ahead: ahead} }

// Now implements timekeeper.Hands.
func (h *hands) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.Hands.Now().Round(0).Add(h.ahead)
}

func (h *hands) set(ahead time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ahead = ahead
}

// sharedEtcd is an etcd for several servers of one test, and what makes a server use it, with the PKI of another one if
// there is one.
func sharedEtcd(t *testing.T) func(beside *instance, h *hands, configure ...func(*apiserver.Options)) func(*apiserver.Options) {
	t.Helper()
	etcd := etcdtest.Start(t)
	return func(beside *instance, h *hands, configure ...func(*apiserver.Options)) func(*apiserver.Options) {
		return func(o *apiserver.Options) {
			useEtcd(o, etcd)
			o.Give("controllers", "data-dir", "etcd-servers")
			o.TellTimeBy(h)
			if beside != nil {
				copyPKI(t, beside.dir, o.DataDir)
			}
			for _, c := range configure {
				c(o)
			}
		}
	}
}

// TM-4, TM-17: while the clocks of two replicas are apart, rights that begin or end count on neither, and denies that
// have ended deny; the servers stay ready and say so. A clock that was set back, with a restart, is not trusted until
// it has caught up, or until --agree.
func TestClocks(t *testing.T) {
	join := sharedEtcd(t)
	right, off := newHands(0), newHands(0)
	first := start(t, join(nil, right))
	second := start(t, join(first, off))
	admin, client := dynamic.NewForConfigOrDie(first.admin), kubernetes.NewForConfigOrDie(first.admin)
	furnish(t, client, "ck")
	grantFor(t, admin, "ck", "cka", "cluster-admin", time.Now().Add(2*time.Hour))
	grantPolicy(t, admin, "ck", "ckb", "ckb", map[string]any{"verbs": []any{"get"}, "resourceKinds": []any{"configmaps"}})
	grantPolicy(t, admin, "ck", "ck-not", "nobody-at-all", map[string]any{"verbs": []any{"get"}, "resourceKinds": []any{"configmaps"}, "deny": true})
	ended := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "authorization.proviso.dev/v1alpha1", "kind": "RoleBinding", "metadata": map[string]any{"name": "ck-ended", "namespace": "ck"},
		"roleRef": map[string]any{"namespace": "ck", "name": "ck-not"}, "userNames": []any{"ckb"}, "notAfter": time.Now().Add(-2 * time.Hour).UTC().Format(time.RFC3339)}}
	if _, err := admin.Resource(policyBind).Namespace("ck").Create(t.Context(), ended, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	const path = "/api/v1/namespaces/ck/configmaps/one"
	timed, denied := first.as("cka"), first.as("ckb")
	expect := func(what string, s *instance, want int) {
		t.Helper()
		s.await(what, func() (bool, error) {
			a, _ := s.get(timed, path)
			b, _ := s.get(denied, path)
			return a == want && b == want, nil
		})
		code, body := s.get(s.admin, "/readyz?verbose")
		if code != http.StatusOK || strings.Contains(body, "[!]clock: ") != (want == http.StatusForbidden) {
			t.Errorf("%s: /readyz answers %d %s", what, code, body)
		}
	}
	expect("rights with clocks in step", first, http.StatusOK)
	expect("rights with clocks in step", second, http.StatusOK)

	off.set(10 * time.Second)
	for who, as := range map[string]*rest.Config{"a right that ends": timed, "a deny that has ended": denied} {
		if code, body := second.get(as, path); code != http.StatusForbidden {
			t.Errorf("%s, as soon as the clock jumps: %d %s", who, code, body)
		}
	}
	expect("a clock that is ahead", second, http.StatusForbidden)
	expect("another replica's clock that is ahead", first, http.StatusForbidden)
	if code, _ := first.get(first.admin, path); code != http.StatusOK {
		t.Error("rights without a time do not count")
	}
	first.await("the event", func() (bool, error) {
		events, err := client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, e := range events.Items {
			if e.Reason == "ClockInDoubt" && e.InvolvedObject.Name == "master" && strings.Contains(e.Message, "--max-clock-skew=2s") {
				return true, nil
			}
		}
		return false, nil
	})
	first.await("the metric", func() (bool, error) {
		_, body := first.get(first.admin, "/metrics")
		return strings.Contains(body, "\nproviso_clock_trusted 0\n"), nil
	})
	off.set(0)
	expect("a clock that is right again", second, http.StatusOK)
	expect("another replica's clock that is right again", first, http.StatusOK)

	first.Stop()
	second.Stop()
	back := start(t, join(first, newHands(-time.Hour)))
	expect("a clock that was set back, with a restart", back, http.StatusForbidden)
	back.await("the warning", func() (bool, error) {
		return strings.Contains(back.Output.String(), "Warning: the clock of this server"), nil
	})
	back.Stop()
	agreed := start(t, join(first, newHands(-time.Hour), func(o *apiserver.Options) { o.Agree = true }))
	expect("a clock that was agreed on", agreed, http.StatusOK)
}

// TM-7: with --expired-bindings-ttl, role bindings are deleted some time after their end, in the journal like any
// change. Others stay.
func TestExpiredBindingsAreDeleted(t *testing.T) {
	s := start(t, func(o *apiserver.Options) { o.ExpiredBindingsTTL = time.Second })
	admin := dynamic.NewForConfigOrDie(s.admin)
	furnish(t, kubernetes.NewForConfigOrDie(s.admin), "xb")
	grantFor(t, admin, "xb", "xba", "view", time.Now().Add(-time.Minute))
	grantFor(t, admin, "xb", "xbb", "view", time.Now().Add(time.Hour))
	s.await("the deletion", func() (bool, error) {
		code, _ := s.get(s.admin, "/apis/authorization.proviso.dev/v1alpha1/namespaces/xb/rolebindings/xba")
		return code == http.StatusNotFound, nil
	})
	if code, _ := s.get(s.admin, "/apis/authorization.proviso.dev/v1alpha1/namespaces/xb/rolebindings/xbb"); code != http.StatusOK {
		t.Errorf("a binding that has not ended: %d", code)
	}
	if _, body := s.get(s.admin, journal.Path); !strings.Contains(body, `"system:proviso:expired-bindings"`) {
		t.Errorf("the journal does not have it: %s", body)
	}
	// NI-4: to whom the deletion of a binding is denied, does not get it by an end in the past.
	grantReads(t, admin, "xb-ann", "xb-ann", map[string]any{"verbs": []any{"*"}, "resourceKinds": []any{"*"}},
		map[string]any{"verbs": []any{"delete"}, "resourceKinds": []any{"rolebindings.authorization.proviso.dev"}, "resourceNames": []any{"xbb"}, "deny": true})
	grantFor(t, admin, "xb", "xbc", "view", time.Now().Add(time.Hour))
	ann := dynamic.NewForConfigOrDie(s.as("xb-ann"))
	end := func(name string, at time.Time) error {
		_, err := ann.Resource(policyBind).Namespace("xb").Patch(t.Context(), name, types.MergePatchType, []byte(`{"notAfter":"`+at.UTC().Format(time.RFC3339)+`"}`), metav1.PatchOptions{})
		return err
	}
	s.await("ann's rights", func() (bool, error) { return end("xbc", time.Now().Add(-time.Minute)) == nil, nil })
	for _, at := range []time.Time{time.Unix(0, 0), time.Now().Add(time.Minute)} {
		if err := end("xbb", at); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "some time after notAfter, the server deletes the binding") {
			t.Errorf("an end at %s: %v", at, err)
		}
	}
	if err := end("xbb", time.Now().Add(2*time.Hour)); err != nil {
		t.Errorf("a later end: %v", err)
	}
}
