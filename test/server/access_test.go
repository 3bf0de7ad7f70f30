package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	access "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/client/clientset/versioned"
	accessclient "proviso.dev/proviso/client/clientset/versioned/typed/access/v1alpha1"
)

// accessWorld is a server with people who ask and people who approve.
type accessWorld struct {
	*instance
	namespace string
	admin     accessclient.AccessV1alpha1Interface
	core      kubernetes.Interface
}

func newAccessWorld(t *testing.T, s *instance, namespace string) *accessWorld {
	t.Helper()
	w := &accessWorld{instance: s, namespace: namespace, admin: versioned.NewForConfigOrDie(s.admin).AccessV1alpha1(), core: kubernetes.NewForConfigOrDie(s.admin)}
	if _, err := w.core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.core.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	approve := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: namespace + "-approver"}, Rules: []rbacv1.PolicyRule{
		{Verbs: []string{"create"}, APIGroups: []string{access.GroupName}, Resources: []string{"accessrequests/approval", "accessrequests/revocation"}},
		{Verbs: []string{"approve"}, APIGroups: []string{access.GroupName}, Resources: []string{"accessrules"}},
	}}
	if _, err := w.core.RbacV1().ClusterRoles().Create(t.Context(), approve, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bound := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: namespace + "-approver"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: approve.Name},
		Subjects: []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: namespace + "-leads"}}}
	if _, err := w.core.RbacV1().ClusterRoleBindings().Create(t.Context(), bound, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.await("the leads to be bound", func() (bool, error) {
		review, err := w.core.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "lead", Groups: []string{namespace + "-leads"}, ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "approve", Group: access.GroupName, Resource: "accessrules"},
		}}, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed, err
	})
	return w
}

// rule creates a rule by which members of the group NAMESPACE-oncall ask for cluster-admin.
func (w *accessWorld) rule(t *testing.T, name string, change func(*access.AccessRuleSpec)) *access.AccessRule {
	t.Helper()
	r := &access.AccessRule{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: access.AccessRuleSpec{
		Subjects:   access.Subjects{GroupNames: []string{w.namespace + "-oncall"}},
		RoleRef:    access.AccessRoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Namespaces: []string{w.namespace}, MaxDurationSeconds: 7200,
		Approvals: &access.ApprovalRule{Count: 1, Subjects: access.Subjects{GroupNames: []string{w.namespace + "-leads"}}},
	}}
	if change != nil {
		change(&r.Spec)
	}
	var made *access.AccessRule
	w.await("the role of the rule to be known", func() (known bool, err error) {
		made, err = w.admin.AccessRules().Create(t.Context(), r, metav1.CreateOptions{})
		if apierrors.IsInvalid(err) && strings.Contains(err.Error(), "there is no such ClusterRole") {
			return false, nil
		}
		return true, err
	})
	return made
}

func (w *accessWorld) oncall(user string) *rest.Config { return w.as(user, w.namespace+"-oncall") }
func (w *accessWorld) lead(user string) *rest.Config   { return w.as(user, w.namespace+"-leads") }

func (w *accessWorld) requests(as *rest.Config) accessclient.AccessRequestInterface {
	return versioned.NewForConfigOrDie(as).AccessV1alpha1().AccessRequests(w.namespace)
}

// ask asks as soon as the server knows the rule.
func (w *accessWorld) ask(t *testing.T, as *rest.Config, rule string, change func(*access.AccessRequestSpec)) (*access.AccessRequest, error) {
	t.Helper()
	r := &access.AccessRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: rule + "-"}, Spec: access.AccessRequestSpec{RuleRef: access.AccessRuleRef{Name: rule}, DurationSeconds: 3600}}
	if change != nil {
		change(&r.Spec)
	}
	var made *access.AccessRequest
	var err error
	w.await("the right to ask", func() (bool, error) {
		made, err = w.requests(as).Create(t.Context(), r, metav1.CreateOptions{})
		return !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "cannot create resource"), nil
	})
	return made, err
}

func (w *accessWorld) decide(ctx context.Context, as *rest.Config, r *access.AccessRequest, said access.AccessVerdict) (*access.AccessRequest, error) {
	return w.requests(as).Approve(ctx, r.Name, &access.AccessDecision{RequestUID: r.UID, Decision: said}, metav1.CreateOptions{})
}

func code(err error) int32 {
	if status, ok := err.(apierrors.APIStatus); ok {
		return status.Status().Code
	}
	return 0
}

// TM-9, TM-10, TM-11, TM-12, TM-14, TM-15, PO-22: a user asks, a colleague approves, it counts at once and until it is
// revoked; and the audit event says what made it possible.
func TestAccessIsAskedForAndApproved(t *testing.T) {
	t.Parallel()
	w := newAccessWorld(t, audited.get(t), "ac-a")
	w.rule(t, "ac-a", func(s *access.AccessRuleSpec) { s.Reason = &access.ReasonRule{Required: true, Pattern: "^INC-[0-9]+"} })
	alice := w.oncall("aca-alice")
	reads := newReader(t, alice)
	if got := reads.get("/api/v1/namespaces/ac-a/configmaps/one").code; got != http.StatusForbidden {
		t.Fatalf("before anything was granted: %d", got)
	}
	w.await("the advice", func() (bool, error) {
		return strings.Contains(reads.get("/api/v1/namespaces/ac-a/configmaps/one").body, "proviso access request ac-a -n ac-a"), nil
	})
	if _, err := w.ask(t, alice, "ac-a", nil); code(err) != http.StatusUnprocessableEntity || !strings.Contains(err.Error(), "spec.reason") {
		t.Errorf("without a reason: %v", err)
	}
	if _, err := w.ask(t, alice, "ac-a", func(s *access.AccessRequestSpec) { s.Reason, s.DurationSeconds = "INC-1", 7201 }); code(err) != http.StatusUnprocessableEntity || !strings.Contains(err.Error(), "durationSeconds") {
		t.Errorf("longer than the rule allows: %v", err)
	}
	made, err := w.ask(t, alice, "ac-a", func(s *access.AccessRequestSpec) {
		s.Reason, s.Requester.Username = "INC-4711", "somebody-else"
	})
	if err != nil {
		t.Fatal(err)
	}
	if made.Spec.Requester.Username != "aca-alice" || made.Spec.RuleRef.UID == "" || made.Status.State != access.AccessPending {
		t.Errorf("what was stored is %+v, %+v", made.Spec, made.Status)
	}
	if got := reads.get("/api/v1/namespaces/ac-a/configmaps/one").code; got != http.StatusForbidden {
		t.Errorf("a request that is pending counts: %d", got)
	}
	if _, err := w.decide(t.Context(), w.as("aca-nobody"), made, access.Approve); code(err) != http.StatusForbidden {
		t.Errorf("nobody in particular approves: %v", err)
	}
	other := made.DeepCopy()
	other.UID = types.UID("another")
	if _, err := w.decide(t.Context(), w.lead("aca-bob"), other, access.Approve); code(err) != http.StatusConflict {
		t.Errorf("an approval of another request of the name: %v", err)
	}
	began := time.Now()
	done, err := w.decide(t.Context(), w.lead("aca-bob"), made, access.Approve)
	if err != nil {
		t.Fatal(err)
	}
	if done.Status.State != access.AccessActive || done.Status.Until == nil || done.Status.Until.Sub(done.Status.From.Time) != time.Hour {
		t.Errorf("what was approved is %+v", done.Status)
	}
	var got shown
	w.await("the grant", func() (bool, error) {
		got = reads.get("/api/v1/namespaces/ac-a/configmaps/one")
		return got.code == http.StatusOK, nil
	})
	t.Logf("from approval to effect: %s", time.Since(began))
	if reads.get("/api/v1/namespaces/default/configmaps").code != http.StatusForbidden || reads.get("/api/v1/nodes").code != http.StatusForbidden {
		t.Error("the grant counts elsewhere")
	}
	w.await("the audit event", func() (bool, error) {
		trail.mu.Lock()
		defer trail.mu.Unlock()
		return trail.annotations[got.header.Get("Audit-Id")][access.AnnotationRequest] == "ac-a/"+made.Name, nil
	})
	own, err := w.requests(alice).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(own.Items) != 1 {
		t.Errorf("her own requests: %v, %v", own, err)
	}
	if others, err := w.requests(w.oncall("aca-carl")).List(t.Context(), metav1.ListOptions{}); err != nil || len(others.Items) != 0 {
		t.Errorf("those of others: %v, %v", others, err)
	}
	if _, err := w.requests(w.lead("aca-bob")).Revoke(t.Context(), made.Name, &access.AccessDecision{RequestUID: made.UID, Comment: "that is enough"}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.await("the end", func() (bool, error) {
		return reads.get("/api/v1/namespaces/ac-a/configmaps/one").code == http.StatusForbidden, nil
	})
	if _, err := w.decide(t.Context(), w.lead("aca-bob"), made, access.Approve); code(err) != http.StatusConflict {
		t.Errorf("an approval that is replayed: %v", err)
	}
}

// TM-12, TM-17: nobody approves their own request, by whatever disguise.
func TestNobodyApprovesTheirOwn(t *testing.T) {
	t.Parallel()
	w := newAccessWorld(t, plain.get(t), "ac-b")
	w.rule(t, "ac-b", func(s *access.AccessRuleSpec) {
		s.Approvals.Count, s.Approvals.IdentityExtra = 2, "authentication.kubernetes.io/credential-id"
		s.Approvals.Subjects.UserNames = []string{"acb-alice"}
	})
	both := w.as("acb-alice", "ac-b-oncall", "ac-b-leads")
	// Nobody can be told apart by what they do not have.
	w.rule(t, "ac-b-persons", func(s *access.AccessRuleSpec) { s.Approvals.IdentityExtra = "example.com/person" })
	w.await("the other rule", func() (bool, error) {
		_, err := w.ask(t, both, "ac-b-persons", nil)
		return code(err) == http.StatusForbidden && strings.Contains(err.Error(), "example.com/person"), nil
	})
	made, err := w.ask(t, both, "ac-b", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.decide(t.Context(), both, made, access.Approve); code(err) != http.StatusForbidden || !strings.Contains(err.Error(), "own request") {
		t.Errorf("her own: %v", err)
	}
	// The administrator impersonates a lead.
	impersonating := rest.CopyConfig(w.instance.admin)
	impersonating.Impersonate = rest.ImpersonationConfig{UserName: "acb-bob", Groups: []string{"ac-b-leads", "system:authenticated"}}
	if _, err := w.decide(t.Context(), impersonating, made, access.Approve); code(err) != http.StatusForbidden || !strings.Contains(err.Error(), "another user") {
		t.Errorf("an impersonated approval: %v", err)
	}
	impersonating.Impersonate.Groups = []string{"ac-b-oncall", "system:authenticated"}
	if _, err := w.ask(t, impersonating, "ac-b", nil); code(err) != http.StatusForbidden || !strings.Contains(err.Error(), "another user") {
		t.Errorf("an impersonated request: %v", err)
	}
	// Two approvals of one person are one.
	for range 2 {
		if made, err = w.decide(t.Context(), w.lead("acb-bob"), made, access.Approve); err != nil {
			t.Fatal(err)
		}
	}
	if made.Status.State != access.AccessPending {
		t.Errorf("two approvals of one person: %+v", made.Status)
	}
	// A service account that is not listed by name does not count, though its group is.
	account := w.as("system:serviceaccount:ac-b:robot", "ac-b-leads", "system:serviceaccounts")
	if _, err := w.decide(t.Context(), account, made, access.Approve); code(err) != http.StatusForbidden {
		t.Errorf("a service account: %v", err)
	}
	// An approval is void once the rule has changed.
	rule, err := w.admin.AccessRules().Get(t.Context(), "ac-b", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rule.Spec.MaxDurationSeconds = 7000
	if _, err := w.admin.AccessRules().Update(t.Context(), rule, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if made, err = w.decide(t.Context(), w.lead("acb-dora"), made, access.Approve); err != nil || made.Status.State != access.AccessPending {
		t.Errorf("one approval of the rule as it is, one of the rule as it was: %+v, %v", made, err)
	}
	if made, err = w.decide(t.Context(), w.lead("acb-bob"), made, access.Approve); err != nil || made.Status.State != access.AccessActive {
		t.Errorf("two people: %+v, %v", made, err)
	}
}

// TM-11: a grant for one write is used up by one of two writes at the same time, and not by a dry run.
func TestOnceIsOnce(t *testing.T) {
	t.Parallel()
	w := newAccessWorld(t, plain.get(t), "ac-c")
	w.rule(t, "ac-c", nil)
	alice := w.oncall("acc-alice")
	made, err := w.ask(t, alice, "ac-c", func(s *access.AccessRequestSpec) {
		s.Once, s.Verbs, s.ResourceKinds = true, []string{"delete", "get"}, []string{"configmaps"}
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.decide(t.Context(), w.lead("acc-bob"), made, access.Approve); err != nil {
		t.Fatal(err)
	}
	maps := kubernetes.NewForConfigOrDie(alice).CoreV1().ConfigMaps("ac-c")
	w.await("the grant", func() (bool, error) {
		_, err := maps.Get(t.Context(), "one", metav1.GetOptions{})
		return err == nil, nil
	})
	for i := range 8 {
		if _, err := w.core.CoreV1().ConfigMaps("ac-c").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i)}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{}); code(err) != http.StatusForbidden {
		t.Errorf("what was not asked for: %v", err)
	}
	if err := maps.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); code(err) != http.StatusForbidden {
		t.Errorf("a collection: %v", err)
	}
	if err := maps.Delete(t.Context(), "c0", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	var mu sync.Mutex
	var taken []string
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			if maps.Delete(t.Context(), fmt.Sprint("c", i), metav1.DeleteOptions{}) == nil {
				mu.Lock()
				defer mu.Unlock()
				taken = append(taken, fmt.Sprint("c", i))
			}
		})
	}
	wait.Wait()
	if len(taken) != 1 {
		t.Errorf("%d of 8 writes at once passed: %v", len(taken), taken)
	}
	left, err := w.core.CoreV1().ConfigMaps("ac-c").List(t.Context(), metav1.ListOptions{})
	if err != nil || slices.ContainsFunc(left.Items, func(m corev1.ConfigMap) bool { return slices.Contains(taken, m.Name) }) {
		t.Errorf("what was deleted is there: %v", err)
	}
	used, err := w.requests(alice).Get(t.Context(), made.Name, metav1.GetOptions{})
	if err != nil || used.Status.State != access.AccessEnded {
		t.Errorf("the request is %+v, %v", used.Status, err)
	}
}

// TM-10, TM-11, TM-17: limits are counted whatever is deleted, and a grant ends with its rule, with the membership of
// its user, and with time.
func TestAccessEnds(t *testing.T) {
	t.Parallel()
	w := newAccessWorld(t, plain.get(t), "ac-d")
	active, perDay := int32(1), int32(3)
	rule := w.rule(t, "ac-d", func(s *access.AccessRuleSpec) { s.Limits = &access.AccessLimits{Active: &active, PerDay: &perDay} })
	alice := w.oncall("acd-alice")
	first, err := w.ask(t, alice, "ac-d", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.ask(t, alice, "ac-d", nil); code(err) != http.StatusForbidden || !strings.Contains(err.Error(), "not ended") {
		t.Errorf("two at a time: %v", err)
	}
	w.await("the right to withdraw", func() (bool, error) {
		return w.requests(alice).Delete(t.Context(), first.Name, metav1.DeleteOptions{}) == nil, nil
	})
	second, err := w.ask(t, alice, "ac-d", func(s *access.AccessRequestSpec) { s.DurationSeconds = 4 })
	if err != nil {
		t.Fatal(err)
	}
	approved, err := w.decide(t.Context(), w.lead("acd-bob"), second, access.Approve)
	if err != nil {
		t.Fatal(err)
	}
	reads, outside := newReader(t, alice), newReader(t, w.as("acd-alice"))
	w.await("the grant", func() (bool, error) {
		return reads.get("/api/v1/namespaces/ac-d/configmaps/one").code == http.StatusOK, nil
	})
	if got := outside.get("/api/v1/namespaces/ac-d/configmaps/one").code; got != http.StatusForbidden && time.Now().Before(approved.Status.Until.Time) {
		t.Errorf("without the group that may ask: %d", got)
	}
	time.Sleep(time.Until(approved.Status.Until.Time)) // an instant is what is tested
	if got := reads.get("/api/v1/namespaces/ac-d/configmaps/one").code; got != http.StatusForbidden {
		t.Errorf("after its end the grant counts: %d", got)
	}
	w.await("the end to be written down", func() (bool, error) {
		stored, err := w.requests(w.instance.admin).Get(t.Context(), second.Name, metav1.GetOptions{})
		return err == nil && stored.Status.State == access.AccessEnded && len(stored.Status.Conditions) > 1, err
	})
	third, err := w.ask(t, alice, "ac-d", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.decide(t.Context(), w.lead("acd-bob"), third, access.Approve); err != nil {
		t.Fatal(err)
	}
	w.await("the grant", func() (bool, error) {
		return reads.get("/api/v1/namespaces/ac-d/configmaps/one").code == http.StatusOK, nil
	})
	// A rule that is deleted and made again is another one.
	if err := w.admin.AccessRules().Delete(t.Context(), rule.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.await("the end of the rule", func() (bool, error) {
		return reads.get("/api/v1/namespaces/ac-d/configmaps/one").code == http.StatusForbidden, nil
	})
	w.rule(t, "ac-d", nil)
	w.await("the new rule", func() (bool, error) {
		_, err := w.requests(alice).List(t.Context(), metav1.ListOptions{})
		return err == nil, nil
	})
	if got := reads.get("/api/v1/namespaces/ac-d/configmaps/one").code; got != http.StatusForbidden {
		t.Errorf("a grant of a rule of the same name counts: %d", got)
	}
}

// TM-8, TM-9, TM-11: every deny wins over a grant, a grant hands out nothing, and writing a rule takes what binding its
// role takes.
func TestGrantsAreBounded(t *testing.T) {
	t.Parallel()
	w := newAccessWorld(t, plain.get(t), "ac-e")
	w.rule(t, "ac-e", nil)
	alice := w.oncall("ace-alice")
	made, err := w.ask(t, alice, "ac-e", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.decide(t.Context(), w.lead("ace-bob"), made, access.Approve); err != nil {
		t.Fatal(err)
	}
	as := kubernetes.NewForConfigOrDie(alice)
	w.await("the grant", func() (bool, error) {
		_, err := as.CoreV1().ConfigMaps("ac-e").Get(t.Context(), "one", metav1.GetOptions{})
		return err == nil, nil
	})
	forever := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "forever"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "ace-alice"}}}
	if _, err := as.RbacV1().RoleBindings("ac-e").Create(t.Context(), forever, metav1.CreateOptions{}); code(err) != http.StatusForbidden {
		t.Errorf("a grant made itself permanent: %v", err)
	}
	role := &access.AccessRule{ObjectMeta: metav1.ObjectMeta{Name: "ace-own"}, Spec: access.AccessRuleSpec{
		Subjects: access.Subjects{UserNames: []string{"ace-alice"}}, RoleRef: access.AccessRoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Namespaces: []string{"ac-e"}, MaxDurationSeconds: 60, Approvals: &access.ApprovalRule{Count: 1, Subjects: access.Subjects{UserNames: []string{"ace-alice"}}},
	}}
	writer := w.as("ace-writer")
	writes := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "ace-writes"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{access.GroupName}, Resources: []string{"accessrules"}}}}
	if _, err := w.core.RbacV1().ClusterRoles().Create(t.Context(), writes, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.core.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "ace-writes"},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "ace-writes"}, Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "ace-writer"}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.await("the refusal of a rule", func() (bool, error) {
		_, err := versioned.NewForConfigOrDie(writer).AccessV1alpha1().AccessRules().Create(t.Context(), role, metav1.CreateOptions{})
		if err == nil {
			t.Fatal("a rule grants what its writer does not hold")
		}
		return code(err) == http.StatusForbidden && !strings.Contains(err.Error(), "cannot create"), nil
	})
	for what, spoil := range map[string]func(*access.AccessRuleSpec){
		"spec.subjects":           func(s *access.AccessRuleSpec) { s.Subjects = access.Subjects{} },
		"spec.roleRef.name":       func(s *access.AccessRuleSpec) { s.RoleRef.Name = "ace-no-such-role" },
		"spec.namespaces":         func(s *access.AccessRuleSpec) { s.Namespaces = nil },
		"spec.maxDurationSeconds": func(s *access.AccessRuleSpec) { s.MaxDurationSeconds = 0 },
		"spec.approvals":          func(s *access.AccessRuleSpec) { s.Approvals = nil },
		"spec.auditSinks":         func(s *access.AccessRuleSpec) { s.Approvals, s.BreakGlass = nil, true },
		"spec.reason.pattern":     func(s *access.AccessRuleSpec) { s.Reason = &access.ReasonRule{Pattern: "("} },
	} {
		bad := role.DeepCopy()
		spoil(&bad.Spec)
		if _, err := w.admin.AccessRules().Create(t.Context(), bad, metav1.CreateOptions{}); code(err) != http.StatusUnprocessableEntity || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
