package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	access "proviso.dev/proviso/api/access/v1alpha1"
)

// TM-13: a request by break-glass counts once its audit sink was told, which then gets everything that the grant makes
// possible, also by impersonation. It never counts while the sink is down, nor once it is gone.
func TestBreakGlass(t *testing.T) {
	t.Parallel()
	w := newAccessWorld(t, bare.get(t), "ac-f")
	admin := newCaller(t, w.instance.admin)
	feed := &collector{}
	listener := httptest.NewServer(feed)
	t.Cleanup(listener.Close)
	sink := func(name, url string) {
		admin.must(t, "POST", "/apis/auditregistration.k8s.io/v1alpha1/auditsinks", fmt.Sprintf(`{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditSink, metadata: {name: %s},
			spec: {policy: {level: None}, webhook: {throttle: {qps: 1000, burst: 1000}, clientConfig: {url: %q}}}}`, name, url))
	}
	sink("acf-up", listener.URL)
	sink("acf-down", "http://127.0.0.1:1/")
	breaks := func(sink string, down access.WhenSinkDown) func(*access.AccessRuleSpec) {
		return func(s *access.AccessRuleSpec) {
			s.Approvals, s.BreakGlass, s.AuditSinks, s.WhenSinkDown = nil, true, []string{sink}, down
		}
	}
	for name, change := range map[string]func(*access.AccessRuleSpec){
		"acf-up": breaks("acf-up", ""), "acf-down": breaks("acf-down", ""), "acf-spool": breaks("acf-down", access.SinkDownSpool),
	} {
		r := &access.AccessRule{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: access.AccessRuleSpec{
			Subjects: access.Subjects{GroupNames: []string{"ac-f-oncall"}}, RoleRef: access.AccessRoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Namespaces: []string{"ac-f"}, MaxDurationSeconds: 7200}}
		change(&r.Spec)
		w.await("the sinks", func() (bool, error) {
			_, err := w.admin.AccessRules().Create(t.Context(), r, metav1.CreateOptions{})
			return err == nil, nil
		})
	}
	missing := &access.AccessRule{ObjectMeta: metav1.ObjectMeta{Name: "acf-none"}, Spec: access.AccessRuleSpec{
		Subjects: access.Subjects{GroupNames: []string{"ac-f-oncall"}}, RoleRef: access.AccessRoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Namespaces: []string{"ac-f"}, MaxDurationSeconds: 7200, BreakGlass: true, AuditSinks: []string{"acf-no-such-sink"}}}
	if _, err := w.admin.AccessRules().Create(t.Context(), missing, metav1.CreateOptions{}); code(err) != http.StatusUnprocessableEntity || !strings.Contains(err.Error(), "auditSinks[0]") {
		t.Errorf("a sink that does not exist: %v", err)
	}
	for _, tc := range []struct {
		rule, user string
		want       access.AccessState
	}{{"acf-up", "acf-alice", access.AccessActive}, {"acf-down", "acf-bob", access.AccessDenied}, {"acf-spool", "acf-carl", access.AccessActive}} {
		as := w.oncall(tc.user)
		made, err := w.ask(t, as, tc.rule, nil)
		if err != nil || made.Status.State != access.AccessPending {
			t.Fatalf("%s: %+v, %v", tc.rule, made, err)
		}
		w.await("a decision by "+tc.rule, func() (bool, error) {
			got, err := w.requests(as).Get(t.Context(), made.Name, metav1.GetOptions{})
			if err == nil && got.Status.State != access.AccessPending && got.Status.State != tc.want {
				t.Fatalf("%s is %+v", tc.rule, got.Status)
			}
			return err == nil && got.Status.State == tc.want, err
		})
	}
	if len(feed.of("acf-alice", "accessrequests")) == 0 {
		t.Error("the sink was not told who broke the glass")
	}
	reads := newReader(t, w.oncall("acf-alice"))
	w.await("the grant", func() (bool, error) {
		return reads.get("/api/v1/namespaces/ac-f/configmaps/one").code == http.StatusOK, nil
	})
	w.await("what was made possible", func() (bool, error) { return len(feed.of("acf-alice", "/configmaps/one")) > 0, nil })

	admin.must(t, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: acf-support},
		rules: [{verbs: [impersonate], apiGroups: [""], resources: [users, groups]}]}`)
	admin.must(t, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: acf-support},
		roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: acf-support}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: acf-support}]}`)
	support := w.as("acf-support")
	support.Impersonate = rest.ImpersonationConfig{UserName: "acf-alice", Groups: []string{"ac-f-oncall", "system:authenticated"}}
	as := newReader(t, support)
	w.await("the grant by impersonation", func() (bool, error) {
		return as.get("/api/v1/namespaces/ac-f/configmaps/one").code == http.StatusOK, nil
	})
	w.await("what was made possible by impersonation", func() (bool, error) { return len(feed.of("acf-support", "/configmaps/one")) > 0, nil })

	late := missing.DeepCopy()
	late.Name, late.Spec.AuditSinks = "acf-late", []string{"acf-ends"}
	admin.must(t, "POST", "/apis/auditregistration.k8s.io/v1alpha1/auditsinks", fmt.Sprintf(`{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditSink, metadata: {name: acf-ends},
		spec: {policy: {level: None}, notAfter: %q, webhook: {clientConfig: {url: %q}}}}`, time.Now().Add(time.Hour).UTC().Format(time.RFC3339), listener.URL))
	w.await("the sink that ends", func() (bool, error) {
		_, err := w.admin.AccessRules().Create(t.Context(), late, metav1.CreateOptions{})
		if code(err) != http.StatusUnprocessableEntity {
			t.Fatalf("a sink that ends before the longest grant: %v", err)
		}
		return strings.Contains(err.Error(), "ends at"), nil
	})

	admin.must(t, "DELETE", "/apis/auditregistration.k8s.io/v1alpha1/auditsinks/acf-up", "")
	w.await("the end of the grant with its sink", func() (bool, error) {
		return reads.get("/api/v1/namespaces/ac-f/configmaps/one").code == http.StatusForbidden, nil
	})
}
