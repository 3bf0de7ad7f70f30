package server

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	access "proviso.dev/proviso/api/access/v1alpha1"
)

// TM-11, RD-12: what is granted in a namespace is part of what is shown of all of them, while it counts.
func TestUnionsShowWhatIsGranted(t *testing.T) {
	t.Parallel()
	w := newAccessWorld(t, united.get(t), "ac-u")
	w.rule(t, "ac-u", nil)
	alice := w.oncall("acu-alice")
	reads := newReader(t, alice)
	made, err := w.ask(t, alice, "ac-u", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := reads.get("/api/v1/configmaps"); got.code != http.StatusForbidden {
		t.Errorf("before anything is granted: %d", got.code)
	}
	if _, err := w.decide(t.Context(), w.lead("acu-bob"), made, access.Approve); err != nil {
		t.Fatal(err)
	}
	w.await("the union", func() (bool, error) {
		got := reads.get("/api/v1/configmaps")
		return got.code == http.StatusOK && strings.Contains(got.body, `"namespace":"ac-u"`) && !strings.Contains(got.body, `"namespace":"kube-system"`), nil
	})
	if got := reads.get("/api/v1/namespaces"); got.code != http.StatusOK || !strings.Contains(got.body, `"name":"ac-u"`) || strings.Contains(got.body, `"name":"kube-system"`) {
		t.Errorf("the namespaces: %d %s", got.code, got.body)
	}
	if _, err := w.requests(alice).Revoke(t.Context(), made.Name, &access.AccessDecision{RequestUID: made.UID}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.await("the end", func() (bool, error) {
		return reads.get("/api/v1/configmaps").code == http.StatusForbidden && reads.get("/api/v1/namespaces/ac-u").code == http.StatusForbidden, nil
	})
}

// TM-14: the audit event names the grant also if it allows only what a request needs beside its own verb.
func TestWhatARequestNeedsBesideIsRecorded(t *testing.T) {
	t.Parallel()
	w := newAccessWorld(t, audited.get(t), "ac-v")
	w.rule(t, "ac-v", nil)
	alice := w.oncall("acv-alice")
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "peek", Namespace: "ac-v"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods/exec"}}}}
	if _, err := w.core.RbacV1().Roles("ac-v").Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bound := &rbacv1.RoleBinding{ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "peek"}, Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "acv-alice"}}}
	if _, err := w.core.RbacV1().RoleBindings("ac-v").Create(t.Context(), bound, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	reads := newReader(t, alice)
	const exec = "/api/v1/namespaces/ac-v/pods/none/exec?command=ps"
	w.await("the refusal of create", func() (bool, error) {
		got := reads.get(exec)
		return got.code == http.StatusForbidden && strings.Contains(got.body, "create"), nil
	})
	made, err := w.ask(t, alice, "ac-v", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.decide(t.Context(), w.lead("acv-bob"), made, access.Approve); err != nil {
		t.Fatal(err)
	}
	var got shown
	w.await("the grant", func() (bool, error) {
		got = reads.get(exec)
		return got.code == http.StatusNotFound, nil
	})
	w.await("the audit event", func() (bool, error) {
		trail.mu.Lock()
		defer trail.mu.Unlock()
		return trail.annotations[got.header.Get("Audit-Id")][access.AnnotationRequest] == "ac-v/"+made.Name, nil
	})
}

// TM-10, TM-17: of a flood of requests at once, as many pass as the rule allows.
func TestAFloodOfAccessRequests(t *testing.T) {
	t.Parallel()
	w := newAccessWorld(t, plain.get(t), "ac-g")
	active := int32(2)
	w.rule(t, "ac-g", func(s *access.AccessRuleSpec) { s.Limits = &access.AccessLimits{Active: &active} })
	alice := w.oncall("acg-alice")
	first, err := w.ask(t, alice, "ac-g", nil)
	if err != nil {
		t.Fatal(err)
	}
	var passed atomic.Int32
	var sending sync.WaitGroup
	for range 30 {
		sending.Go(func() {
			r := &access.AccessRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "ac-g-"}, Spec: access.AccessRequestSpec{RuleRef: access.AccessRuleRef{Name: "ac-g"}, DurationSeconds: 60}}
			switch _, err := w.requests(alice).Create(t.Context(), r, metav1.CreateOptions{}); {
			case err == nil:
				passed.Add(1)
			case !apierrors.IsForbidden(err) && !apierrors.IsConflict(err) && !apierrors.IsTooManyRequests(err):
				t.Errorf("one of a flood: %v", err)
			}
		})
	}
	sending.Wait()
	all, err := w.requests(w.instance.admin).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) > int(active) || int(passed.Load()) != len(all.Items)-1 {
		t.Errorf("%d passed beside %s, %d are stored: %v", passed.Load(), first.Name, len(all.Items), err)
	}
}
