package server

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/kubernetes"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
)

// TR-12, PO-20: a review about the deletion of a namespace says what the deletion is answered: a deny of something
// inside refuses it.
func TestReviewsOfNamespaceDeletion(t *testing.T) {
	t.Parallel()
	s := plain.get(t)
	admin := newCaller(t, s.admin)
	client := kubernetes.NewForConfigOrDie(s.admin)
	admin.must(t, "POST", "/api/v1/namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: quay}}")
	for _, name := range []string{"nina", "olaf"} {
		grantRBAC(t, client, "", "quay-"+name, toUser(name), rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"delete"}, ResourceNames: []string{"quay"}})
	}
	admin.must(t, "POST", viewsIn("master", "roles"), roleYAML("quay-keeps", "{deny: true, verbs: [delete], resourceKinds: [configmaps]}"))
	admin.must(t, "POST", viewsIn("master", "rolebindings"), strings.Replace(bindingYAML("quay-keeps", "master", "quay-keeps"), "edgar", "nina", 1))

	nina, olaf := newCaller(t, s.as("nina")), newCaller(t, s.as("olaf"))
	const request = "/api/v1/namespaces/quay?dryRun=All"
	s.await("the rules", func() (bool, error) {
		allowed, _, _ := olaf.do(t, "DELETE", request, "")
		code, message, _ := nina.do(t, "DELETE", request, "")
		return allowed == 200 && code == 403 && strings.Contains(message, "everything in the namespace"), nil
	})
	const question = "verb: delete, resourceKind: namespaces, resourceName: quay, trace: true"
	status := nina.ask(t, "", question)
	if status.Allowed || status.Trace == nil || status.Trace.Decision != authz.AnswerDeny || !strings.Contains(status.DenyReason, "denies you delete on configmaps in it") {
		t.Errorf("a review about what is refused: %+v %+v", status, status.Trace)
	}
	if status := olaf.ask(t, "", question); !status.Allowed || status.Trace.Decision != authz.AnswerAllow {
		t.Errorf("a review about what is allowed: %+v %+v", status, status.Trace)
	}
	const access = "{apiVersion: authorization.k8s.io/v1, kind: SelfSubjectAccessReview, spec: {resourceAttributes: {verb: delete, version: v1, resource: namespaces, name: quay}, conditionalAuthorization: {mode: HumanReadable}}}"
	for who, want := range map[*caller]string{nina: `"allowed":false`, olaf: `"allowed":true`} {
		if got := who.must(t, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", access); !strings.Contains(string(got), want) {
			t.Errorf("want %s in %s", want, got)
		}
	}
}
