package server

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/client/clientset/versioned"
	"proviso.dev/proviso/internal/hosts/apiserver"
)

// localSink is a sink of the namespace team.
func localSink(name, account, url string) *policyv1alpha1.NamespaceAuditSink {
	qps := int64(1000)
	return &policyv1alpha1.NamespaceAuditSink{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team"}, Spec: policyv1alpha1.NamespaceAuditSinkSpec{
		ServiceAccountName: account, Policy: auditv1alpha1.Policy{Level: auditv1alpha1.LevelRequestResponse},
		Webhook: &auditv1alpha1.Webhook{Throttle: &auditv1alpha1.WebhookThrottleConfig{QPS: &qps, Burst: &qps}, ClientConfig: auditv1alpha1.WebhookClientConfig{URL: &url}},
	}}
}

// DA-17: a team has a sink of its own. Its writer must be able to act as the account that it names, also when that
// changes; it gets events about its namespace only, and of them what the account may read at that moment.
func TestSinksOfNamespaces(t *testing.T) {
	s := start(t, func(o *apiserver.Options) {
		o.AuditDynamic.AllowInsecureSinks = true
		o.AuditDynamic.NamespaceSinksAllow = []string{"127.0.0.1/32"}
	})
	ctx := t.Context()
	admin := kubernetes.NewForConfigOrDie(s.admin)
	furnish(t, admin, "team", "other")
	account := func(name string) {
		_, err := admin.CoreV1().ServiceAccounts("team").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		fine(t, "the account "+name, err)
	}
	account("reader")
	account("boss")
	bind := func(name string, subject rbacv1.Subject, rules ...rbacv1.PolicyRule) {
		_, err := admin.RbacV1().Roles("team").Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
		fine(t, "the role "+name, err)
		_, err = admin.RbacV1().RoleBindings("team").Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}, Subjects: []rbacv1.Subject{subject}}, metav1.CreateOptions{})
		fine(t, "the binding "+name, err)
	}
	bind("reader", rbacv1.Subject{Kind: "ServiceAccount", Name: "reader", Namespace: "team"}, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps", "secrets", "serviceaccounts", "serviceaccounts/token", "pods"}})
	writes := rbacv1.PolicyRule{Verbs: []string{"get", "create", "update", "patch", "delete"}, APIGroups: []string{policyv1alpha1.GroupName}, Resources: []string{"namespaceauditsinks"}}
	bind("lead", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: "lead"}, writes,
		rbacv1.PolicyRule{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{"reader"}})
	bind("helper", rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: "helper"}, writes)
	lead, helper := versioned.NewForConfigOrDie(s.as("lead")).PolicyV1alpha1().NamespaceAuditSinks("team"), versioned.NewForConfigOrDie(s.as("helper")).PolicyV1alpha1().NamespaceAuditSinks("team")

	r := newReceiver(t)
	s.await("the rights of lead", func() (bool, error) {
		_, err := lead.Create(ctx, localSink("one", "reader", r.URL), metav1.CreateOptions{DryRun: []string{"All"}})
		return err == nil, nil
	})
	for what, tc := range map[string]struct {
		change func(*policyv1alpha1.NamespaceAuditSink)
		want   string
	}{
		"another account":      {func(s *policyv1alpha1.NamespaceAuditSink) { s.Spec.ServiceAccountName = "boss" }, `needs the verb "impersonate" on serviceaccounts "boss"`},
		"no account":           {func(s *policyv1alpha1.NamespaceAuditSink) { s.Spec.ServiceAccountName = "" }, "spec.serviceAccountName: Required"},
		"an account not there": {func(s *policyv1alpha1.NamespaceAuditSink) { s.Spec.ServiceAccountName = "ghost" }, "spec.serviceAccountName: Not found"},
		"a host not allowed": {func(s *policyv1alpha1.NamespaceAuditSink) {
			url := "https://10.1.2.3/x"
			s.Spec.Webhook.ClientConfig.URL = &url
		}, "--audit-namespace-sinks-allow"},
		"another team's service": {func(s *policyv1alpha1.NamespaceAuditSink) {
			s.Spec.Webhook.ClientConfig = auditv1alpha1.WebhookClientConfig{Service: &auditv1alpha1.ServiceReference{Namespace: "other", Name: "x"}}
		}, "must be the namespace of the sink"},
		"a level that is none": {func(s *policyv1alpha1.NamespaceAuditSink) { s.Spec.Policy.Level = "All" }, "spec.policy.level"},
	} {
		bad := localSink("bad", "reader", r.URL)
		tc.change(bad)
		_, err := lead.Create(ctx, bad, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v; want %q", what, err, tc.want)
		}
	}
	_, err := helper.Create(ctx, localSink("one", "reader", r.URL), metav1.CreateOptions{})
	refusedWith(t, "a writer who cannot act as the account", err, `needs the verb "impersonate"`)
	forged := localSink("one", "reader", r.URL)
	forged.Spec.ServiceAccountUID = "forged"
	made, err := lead.Create(ctx, forged, metav1.CreateOptions{})
	fine(t, "the sink", err)
	if made.Spec.ServiceAccountUID == "" || made.Spec.ServiceAccountUID == "forged" {
		t.Errorf("the uid of the account is %q", made.Spec.ServiceAccountUID)
	}
	_, err = lead.Create(ctx, localSink("two", "reader", r.URL), metav1.CreateOptions{})
	fine(t, "a second sink", err)
	_, err = lead.Create(ctx, localSink("three", "reader", r.URL), metav1.CreateOptions{})
	refusedWith(t, "a third sink", err, "--audit-namespace-sinks-max")
	fine(t, "deleting the second", lead.Delete(ctx, "two", metav1.DeleteOptions{}))
	_, err = helper.Patch(ctx, "one", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	fine(t, "a label by the helper", err)
	elsewhere := newReceiver(t)
	for what, patch := range map[string]string{"the account": `{"spec":{"serviceAccountName":"boss"}}`, "the receiver": fmt.Sprintf(`{"spec":{"webhook":{"clientConfig":{"url":%q}}}}`, elsewhere.URL)} {
		_, err = helper.Patch(ctx, "one", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		refusedWith(t, what+" by the helper", err, `needs the verb "impersonate"`)
	}
	_, err = lead.Patch(ctx, "one", types.MergePatchType, []byte(`{"spec":{"serviceAccountName":"boss"}}`), metav1.PatchOptions{})
	refusedWith(t, "another account, by an update", err, `needs the verb "impersonate" on serviceaccounts "boss"`)

	n := 0
	seen := func() bool {
		n++
		name := fmt.Sprintf("probe-%d", n)
		_, _ = admin.CoreV1().ConfigMaps("team").Get(ctx, name, metav1.GetOptions{})
		time.Sleep(50 * time.Millisecond)
		return len(r.of("get", "/configmaps/"+name)) > 0
	}
	s.await("events", func() (bool, error) { return seen(), nil })

	// A condition on the object is not decided for a sink: what is allowed under one has no bodies.
	grantPolicy(t, dynamic.NewForConfigOrDie(s.admin), "team", "sometimes", "system:serviceaccount:team:reader",
		map[string]any{"verbs": []any{"get"}, "resourceKinds": []any{"services"}, "when": `object.metadata.name == "early"`})
	_, err = admin.CoreV1().Services("team").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "early", Annotations: map[string]string{"k": "early-word"}}, Spec: corev1.ServiceSpec{ClusterIP: "None"}}, metav1.CreateOptions{})
	fine(t, "an early service", err)
	self := kubernetes.NewForConfigOrDie(s.as("system:serviceaccount:team:reader", "system:serviceaccounts"))
	s.await("the right under a condition", func() (bool, error) {
		_, err := self.CoreV1().Services("team").Get(ctx, "early", metav1.GetOptions{})
		return err == nil, nil
	})
	// A hidden field is hidden from the account.
	hidden := &policyv1alpha1.FieldPermission{ObjectMeta: metav1.ObjectMeta{Name: "binary"}, Spec: policyv1alpha1.FieldPermissionSpec{
		Resources: []string{"configmaps"}, Field: ".binaryData", Permission: "example.com/binary", ReadExclusive: true}}
	_, err = versioned.NewForConfigOrDie(s.admin).PolicyV1alpha1().FieldPermissions().Create(ctx, hidden, metav1.CreateOptions{})
	fine(t, "hiding a field", err)
	binary := func(name, text string) {
		_, err := admin.CoreV1().ConfigMaps("team").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, BinaryData: map[string][]byte{"b": []byte(text)}}, metav1.CreateOptions{})
		fine(t, "creating "+name, err)
	}
	binary("veiled", "unseen")
	s.await("the field to be hidden", func() (bool, error) {
		got, err := self.CoreV1().ConfigMaps("team").Get(ctx, "veiled", metav1.GetOptions{})
		return err == nil && len(got.BinaryData) == 0, nil
	})
	r.forget()
	binary("veiled-again", "unseen")

	const word = "open-sesame"
	config := func(ns, name string) {
		_, err := admin.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": "visible-" + name}}, metav1.CreateOptions{})
		fine(t, "creating "+name, err)
	}
	config("team", "mine")
	_, err = admin.CoreV1().ConfigMaps("team").Get(ctx, "mine", metav1.GetOptions{})
	fine(t, "reading mine", err)
	_, err = admin.CoreV1().ConfigMaps("team").List(ctx, metav1.ListOptions{LabelSelector: "x!=y"})
	fine(t, "listing", err)
	config("other", "theirs")
	_, err = admin.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
	fine(t, "listing everywhere", err)
	_, err = admin.CoreV1().Secrets("team").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "safe"}, StringData: map[string]string{"k": word}}, metav1.CreateOptions{})
	fine(t, "a secret", err)
	_, err = admin.CoreV1().Services("team").Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "unread", Annotations: map[string]string{"k": word}}, Spec: corev1.ServiceSpec{ClusterIP: "None"}}, metav1.CreateOptions{})
	fine(t, "a service", err)
	token, err := admin.CoreV1().ServiceAccounts("team").CreateToken(ctx, "reader", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	fine(t, "a token", err)
	_, err = kubernetes.NewForConfigOrDie(s.as("nobody")).CoreV1().ConfigMaps("team").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "refused"}}, metav1.CreateOptions{})
	refusedWith(t, "nobody", err, "forbidden")
	_, err = admin.CoreV1().Namespaces().Get(ctx, "team", metav1.GetOptions{})
	fine(t, "reading the namespace", err)
	config("team", "last")
	s.await("the last event", func() (bool, error) { return r.said("visible-last"), nil })

	for _, tc := range []struct {
		verb, uri string
		bodies    bool
	}{
		{"get", "/configmaps/mine", true},
		{"list", "/namespaces/team/configmaps", false},
		{"create", "/namespaces/team/secrets", false},
		{"create", "/namespaces/team/services", false},
		{"create", "/serviceaccounts/reader/token", false},
		{"get", "/api/v1/namespaces/team", false},
	} {
		events := r.of(tc.verb, tc.uri)
		if len(events) == 0 {
			t.Errorf("%s %s: no event", tc.verb, tc.uri)
			continue
		}
		if e := events[len(events)-1]; tc.uri != "/api/v1/namespaces/team" && (len(e.RequestObject)+len(e.ResponseObject) > 0) != tc.bodies || strings.Contains(e.RequestURI, "?") {
			t.Errorf("%s %s: %+v", tc.verb, tc.uri, e)
		}
	}
	for what, text := range map[string]string{"what the account may not read": word, "a token": token.Status.Token, "another namespace": "theirs", "what is allowed under a condition": "early-word", "a hidden field": "dW5zZWVu", "a role of somebody": "ClusterRoleBinding", "a query": "labelSelector"} {
		if r.said(text) {
			t.Errorf("the sink got %s", what)
		}
	}
	if !r.said("visible-mine") {
		t.Error("no body of what the account may read")
	}
	if len(r.of("list", "/api/v1/configmaps")) > 0 {
		t.Error("the sink got a list of all namespaces")
	}
	s.await("the status", func() (bool, error) {
		got, err := lead.Get(ctx, "one", metav1.GetOptions{})
		return err == nil && meta.IsStatusConditionTrue(got.Status.Conditions, auditv1alpha1.ConditionActive) && got.Status.Delivered > 0, err
	})

	// Who may see the field gets it.
	bind("revealer", rbacv1.Subject{Kind: "ServiceAccount", Name: "reader", Namespace: "team"}, rbacv1.PolicyRule{Verbs: []string{"reveal:example.com/binary"}, APIGroups: []string{""}, Resources: []string{"configmaps"}})
	s.await("the field to be shown", func() (bool, error) {
		got, err := self.CoreV1().ConfigMaps("team").Get(ctx, "veiled", metav1.GetOptions{})
		return err == nil && len(got.BinaryData) > 0, nil
	})
	s.await("the sink to get it", func() (bool, error) { return r.said("dW5zZWVu"), nil })

	// The account loses its right: no bodies from then on.
	fine(t, "taking the right", admin.RbacV1().RoleBindings("team").Delete(ctx, "reader", metav1.DeleteOptions{}))
	s.await("the right to be gone", func() (bool, error) {
		_, err := kubernetes.NewForConfigOrDie(s.as("system:serviceaccount:team:reader", "system:serviceaccounts")).CoreV1().ConfigMaps("team").Get(ctx, "mine", metav1.GetOptions{})
		return err != nil, nil
	})
	config("team", "later")
	s.await("the event of later", func() (bool, error) { return len(r.of("create", "/configmaps")) >= 4, nil })
	if r.said("visible-later") {
		t.Error("bodies are sent without the right to get them")
	}

	// An account of the same name is another one.
	fine(t, "deleting the account", admin.CoreV1().ServiceAccounts("team").Delete(ctx, "reader", metav1.DeleteOptions{}))
	account("reader")
	s.await("the sink to be inactive", func() (bool, error) {
		got, err := lead.Get(context.Background(), "one", metav1.GetOptions{})
		return err == nil && meta.IsStatusConditionFalse(got.Status.Conditions, auditv1alpha1.ConditionActive), err
	})
	if seen() {
		t.Error("a sink gets events without its account")
	}
}
