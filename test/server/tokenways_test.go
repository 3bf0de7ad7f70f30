package server

import (
	"fmt"
	"strings"
	"testing"

	"proviso.dev/proviso/internal/engine/narrowedtoken"
)

// waysOut are the requests of TK-4 that a link gives only if it names them.
var waysOut = []struct{ verb, method, path, body, kind string }{
	{"get", "GET", "/api/v1/namespaces/tk-out/secrets/s", "", "secrets"},
	{"list", "GET", "/api/v1/namespaces/tk-out/secrets", "", "secrets"},
	{"watch", "GET", "/api/v1/namespaces/tk-out/secrets?watch=1&timeoutSeconds=1", "", "secrets"},
	{"create", "POST", "/api/v1/namespaces/tk-out/secrets", `{"metadata":{"generateName":"s-"}}`, "secrets"},
	{"create", "POST", "/api/v1/namespaces/tk-out/serviceaccounts/default/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":[]}}`, "serviceaccounts/token"},
	{"create", "POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", `{"metadata":{"generateName":"x-"},"spec":{"request":"aGVsbG8=","signerName":"x.io/x","usages":["client auth"]}}`, "certificatesigningrequests.certificates.k8s.io"},
	{"patch", "PATCH", "/apis/certificates.k8s.io/v1/certificatesigningrequests/x/approval", `{}`, "certificatesigningrequests.certificates.k8s.io/approval"},
	{"create", "POST", "/api/v1/namespaces/tk-out/pods", `{"metadata":{"generateName":"p-"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, "pods"},
	{"patch", "PATCH", "/api/v1/namespaces/tk-out/pods/p", `{}`, "pods"},
	{"create", "POST", "/api/v1/namespaces/tk-out/pods/p/exec?command=sh", "", "pods/exec"},
	{"create", "POST", "/api/v1/namespaces/tk-out/pods/p/attach", "", "pods/attach"},
	{"create", "POST", "/api/v1/namespaces/tk-out/pods/p/portforward", "", "pods/portforward"},
	{"create", "POST", "/api/v1/namespaces/tk-out/pods/p/proxy", "", "pods/proxy"},
	{"create", "POST", "/api/v1/namespaces/tk-out/services/s/proxy", "", "services/proxy"},
	{"create", "POST", "/api/v1/nodes/n/proxy", "", "nodes/proxy"},
	{"patch", "PATCH", "/api/v1/namespaces/tk-out/pods/p/ephemeralcontainers", `{}`, "pods/ephemeralcontainers"},
	{"create", "POST", "/api/v1/namespaces/tk-out/pods/p/binding", `{"metadata":{"name":"p"},"target":{"name":"n"}}`, "pods/binding"},
	{"create", "POST", "/apis/apps/v1/namespaces/tk-out/deployments", `{}`, "deployments.apps"},
	{"patch", "PATCH", "/apis/apps/v1/namespaces/tk-out/daemonsets/d", `{}`, "daemonsets.apps"},
	{"create", "POST", "/apis/batch/v1/namespaces/tk-out/cronjobs", `{}`, "cronjobs.batch"},
	{"create", "POST", "/api/v1/persistentvolumes", `{}`, "persistentvolumes"},
	{"create", "POST", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", `{"metadata":{"generateName":"w-"}}`, "mutatingwebhookconfigurations.admissionregistration.k8s.io"},
	{"create", "POST", "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", `{}`, "validatingadmissionpolicies.admissionregistration.k8s.io"},
	{"create", "POST", "/apis/apiregistration.k8s.io/v1/apiservices", `{}`, "apiservices.apiregistration.k8s.io"},
	{"create", "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{}`, "customresourcedefinitions.apiextensions.k8s.io"},
	{"create", "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"metadata":{"generateName":"r-"}}`, "clusterroles.rbac.authorization.k8s.io"},
	{"create", "POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/tk-out/rolebindings", `{}`, "rolebindings.rbac.authorization.k8s.io"},
	{"create", "POST", "/apis/authorization.proviso.dev/v1alpha1/namespaces/tk-out/roles", `{"metadata":{"name":"r"}}`, "roles.authorization.proviso.dev"},
	{"create", "POST", "/apis/policy.proviso.dev/v1alpha1/clusterprotectedattributes", `{}`, "clusterprotectedattributes.policy.proviso.dev"},
	{"create", "POST", "/apis/auditregistration.k8s.io/v1alpha1/auditsinks", `{}`, "auditsinks.auditregistration.k8s.io"},
	{"create", "POST", "/api/v1/namespaces/tk-out/serviceaccounts", `{"metadata":{"generateName":"a-"}}`, "serviceaccounts"},
}

// TestWaysOutOfATokenAreClosed tries them one by one, as a cluster admin with a token for everything: each is refused,
// and is not once the link names it (TK-4).
func TestWaysOutOfATokenAreClosed(t *testing.T) {
	w := tokenWorld{t, narrowed.get(t)}
	w.namespace("tk-out")
	all, _ := w.issue(w.s.admin, "", `{"description":"all","rules":[{"verbs":["*"],"resourceKinds":["*"]}]}`)
	butSome, _ := w.issue(w.s.admin, "", `{"description":"but some","rules":[{"verbs":["-use"],"resourceKinds":["-leases"]}]}`)
	w.expect("what it is for", w.send(w.s.admin, all, "GET", "/api/v1/namespaces/tk-out/configmaps", ""), 200, "")
	w.expect("what it is for", w.send(w.s.admin, butSome, "GET", "/api/v1/namespaces/tk-out/configmaps", ""), 200, "")
	for _, way := range waysOut {
		for name, token := range map[string]string{"all": all, "but some": butSome} {
			a := w.send(w.s.admin, token, way.method, way.path, way.body)
			w.expect(way.verb+" "+way.kind+" by "+name, a, 403, "link 1, *"+name+"* has a wildcard, which does not cover "+way.verb)
		}
		named, _ := w.issue(w.s.admin, "", fmt.Sprintf(`{"rules":[{"verbs":["*"],"resourceKinds":["*"]},{"verbs":[%q],"resourceKinds":[%q]}]}`, way.verb, way.kind))
		if a := w.send(w.s.admin, named, way.method, way.path, way.body); strings.Contains(a.message, "your token") {
			t.Errorf("%s %s by its name: %d %s", way.verb, way.kind, a.code, a.message)
		}
		both, err := narrowedtoken.Attenuate(named, narrowedtoken.Link{Rules: rulesOf(t, `[{"verbs":["*"],"resourceKinds":["*"]}]`)})
		if err != nil {
			t.Fatal(err)
		}
		w.expect(way.verb+" "+way.kind+" by one of two links", w.send(w.s.admin, both, way.method, way.path, way.body), 403, "link 2 has a wildcard")
	}
	t.Logf("%d ways out are closed", len(waysOut))
	w.expect("impersonation", w.send(w.s.admin, all, "GET", "/api/v1/nodes", "", "Impersonate-User", "anna", "Impersonate-Group", "system:masters"), 403, "your token does not allow it")
	for _, kind := range []string{"users", "groups"} {
		a := w.send(w.s.admin, all, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{"verb":"impersonate","resource":%q}}}`, kind))
		if status, _ := a.body["status"].(map[string]any); a.code != 201 || status["allowed"] != false {
			t.Errorf("a review about impersonate %s: %d %s", kind, a.code, a.message)
		}
	}
}
