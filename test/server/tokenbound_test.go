package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// TestTokensEndWithWhatBoundThem: a token that was asked for with one that is bound to a pod, a node or a secret ends
// with that object, and another object of its name does not bring it back (TK-1).
func TestTokensEndWithWhatBoundThem(t *testing.T) {
	w := tokenWorld{t, narrowed.get(t)}
	const ns = "tk-bound-objects"
	w.namespace(ns)
	w.can("system:serviceaccount:"+ns+":robot", anything())
	core, ctx := kubernetes.NewForConfigOrDie(w.s.admin).CoreV1(), t.Context()
	if _, err := core.ServiceAccounts(ns).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	meta, at, zero := metav1.ObjectMeta{Name: "tk-one"}, metav1.CreateOptions{}, int64(0)
	now := metav1.DeleteOptions{GracePeriodSeconds: &zero}
	for what, object := range map[string]struct {
		kind   string
		create func() (types.UID, error)
		remove func() error
	}{
		"pod": {"Pod", func() (types.UID, error) {
			made, err := core.Pods(ns).Create(ctx, &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{ServiceAccountName: "robot", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}, at)
			return made.UID, err
		}, func() error { return core.Pods(ns).Delete(ctx, meta.Name, now) }},
		"secret": {"Secret", func() (types.UID, error) {
			made, err := core.Secrets(ns).Create(ctx, &corev1.Secret{ObjectMeta: meta}, at)
			return made.UID, err
		}, func() error { return core.Secrets(ns).Delete(ctx, meta.Name, now) }},
		"node": {"Node", func() (types.UID, error) {
			made, err := core.Nodes().Create(ctx, &corev1.Node{ObjectMeta: meta}, at)
			return made.UID, err
		}, func() error { return core.Nodes().Delete(ctx, meta.Name, now) }},
	} {
		t.Run(what, func(t *testing.T) {
			w := tokenWorld{t, w.s}
			uid, err := object.create()
			if err != nil {
				t.Fatal(err)
			}
			jwt, err := core.ServiceAccounts(ns).CreateToken(ctx, "robot", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
				BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: object.kind, Name: meta.Name, UID: uid}}}, at)
			if err != nil {
				t.Fatal(err)
			}
			token, _ := w.issue(w.s.admin, jwt.Status.Token, `{"rules":[{"verbs":["list"],"resourceKinds":["configmaps"]}]}`)
			send := func() answer { return w.send(w.s.admin, token, "GET", "/api/v1/namespaces/default/configmaps", "") }
			w.expect("while it is there", send(), http.StatusOK, "")
			if err := object.remove(); err != nil {
				t.Fatal(err)
			}
			w.s.await("its end", func() (bool, error) { return send().code == http.StatusForbidden, nil })
			w.expect("after it", send(), http.StatusForbidden, "the "+what+" that it is bound to is gone")
			if _, err := object.create(); err != nil {
				t.Fatal(err)
			}
			w.s.await("another one", func() (bool, error) { return strings.Contains(send().message, "another one has its name"), nil })
		})
	}
}

// TestConfirmingEndsWithTheToken: a TokenReview that names the audience does not confirm a token that has been revoked
// (TK-5).
func TestConfirmingEndsWithTheToken(t *testing.T) {
	w := tokenWorld{t, narrowed.get(t)}
	token, status := w.issue(w.can("tk-theo", anything()), "", `{"audience":"dashboards","rules":[]}`)
	confirmed := func() bool {
		a := w.send(w.s.admin, "", "POST", "/apis/authentication.k8s.io/v1/tokenreviews", fmt.Sprintf(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":%q,"audiences":["dashboards"]}}`, token))
		w.expect("review", a, http.StatusCreated, "")
		said, _ := a.body["status"].(map[string]any)
		if echo := fmt.Sprint(said); strings.Contains(echo, token[10:]) {
			t.Errorf("the status has the token: %s", echo)
		}
		return said["authenticated"] == true
	}
	if !confirmed() {
		t.Fatal("it is not confirmed")
	}
	w.expect("revocation", w.send(w.s.admin, token, "POST", "/apis/access.proviso.dev/v1alpha1/tokenrevocations",
		`{"apiVersion":"access.proviso.dev/v1alpha1","kind":"TokenRevocation","metadata":{"generateName":"x-"},"spec":{"tokenIDs":["`+status.ID+`"]}}`), http.StatusCreated, "")
	w.s.await("the revocation", func() (bool, error) { return !confirmed(), nil })
}

// TestRevocationsEnd: a revocation that no token can be about any more can be deleted, and the server deletes it by
// itself (TK-6).
func TestRevocationsEnd(t *testing.T) {
	t.Parallel()
	w := tokenWorld{t, narrowed.get(t)}
	const path = "/apis/access.proviso.dev/v1alpha1/tokenrevocations"
	for _, name := range []string{"tk-over-one", "tk-over-two"} {
		w.expect("create", w.send(w.s.admin, "", "POST", path, fmt.Sprintf(`{"apiVersion":"access.proviso.dev/v1alpha1","kind":"TokenRevocation","metadata":{"name":%q},"spec":{"userNames":["tk-nobody"],"issuedBefore":%q}}`,
			name, time.Now().Add(-48*time.Hour).UTC().Format(time.RFC3339))), http.StatusCreated, "")
	}
	if a := w.send(w.s.admin, "", "DELETE", path+"/tk-over-one", ""); a.code != http.StatusOK && a.code != http.StatusNotFound {
		t.Errorf("by hand: %d %s", a.code, a.message)
	}
	for began := time.Now(); w.send(w.s.admin, "", "GET", path+"/tk-over-two", "").code != http.StatusNotFound; time.Sleep(time.Second) {
		if time.Since(began) > 5*time.Minute {
			t.Fatal("the server keeps a revocation that is over")
		}
	}
}
