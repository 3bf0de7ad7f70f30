package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// HF-5: what a link of a token says about a hidden field does not tell the field, and a token of an admin reveals what
// its links name.
func TestTokensDoNotReadHiddenFields(t *testing.T) {
	f, s := hiding(t)
	w := tokenWorld{t, s}
	f.namespace(t, "hidden-tokens")
	const secrets = "/api/v1/namespaces/hidden-tokens/secrets"
	f.admin(t, http.MethodPost, secrets, jsonBody, `{"metadata":{"name":"s"},"data":{"password":"c2VjcmV0"}}`)
	tina := w.can("ht-tina", rbacv1.PolicyRule{Verbs: []string{"get", "list", "update", "delete"}, APIGroups: []string{""}, Resources: []string{"secrets"}})
	rule := func(where string) string {
		return fmt.Sprintf(`{"rules":[{"verbs":["get","list","delete","reveal:example.com/secretdata"],"resourceKinds":["secrets"],"where":%q}]}`, where)
	}
	for _, guess := range []string{"secret", "guess"} {
		for _, where := range []string{`resource.data["password"] == b"` + guess + `"`, `resource.data["password"] != b"` + guess + `"`} {
			token, _ := w.issue(tina, "", rule(where))
			for _, request := range [][2]string{{"GET", secrets + "/s"}, {"GET", secrets}, {"DELETE", secrets + "/s?dryRun=All"}} {
				if a := w.send(tina, token, request[0], request[1], ""); a.code != http.StatusForbidden || !strings.Contains(a.message, "hidden") {
					t.Errorf("%s by %s: %d %s", request[0], where, a.code, a.message)
				}
			}
		}
	}
	token, _ := w.issue(tina, "", rule(`resource.type == "Opaque"`))
	w.expect("another condition", w.send(tina, token, "GET", secrets+"/s", ""), http.StatusOK, `"name":"s"`)

	master := s.admin
	token, _ = w.issue(master, "", `{"rules":[{"verbs":["get"],"resourceKinds":["secrets"]}]}`)
	if a := w.send(master, token, "GET", secrets+"/s", ""); a.code != http.StatusOK || strings.Contains(a.message, "c2VjcmV0") {
		t.Errorf("an admin's token without reveal: %d %s", a.code, a.message)
	}
	token, _ = w.issue(master, "", `{"rules":[{"verbs":["get","reveal:example.com/secretdata"],"resourceKinds":["secrets"]}]}`)
	w.expect("an admin's token with it", w.send(master, token, "GET", secrets+"/s", ""), http.StatusOK, "c2VjcmV0")
}

// HF-5: conditions see the namespace of an object, too: what is hidden of it is told neither by tokens nor by rules.
func TestConditionsDoNotReadHiddenNamespaces(t *testing.T) {
	f, s := hiding(t)
	w := tokenWorld{t, s}
	f.apply(t, fieldsGroup+"/costs", `{"apiVersion":"policy.proviso.dev/v1alpha1","kind":"FieldPermission","metadata":{"name":"costs"},
"spec":{"resources":["namespaces"],"field":".metadata.annotations[costs.example.com/center]","permission":"example.com/costs","readExclusive":true}}`)
	f.apply(t, "/api/v1/namespaces/hidden-place", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"hidden-place","annotations":{"costs.example.com/center":"4711"}}}`)
	f.openPolicy(t, "hidden-place")
	const maps = "/api/v1/namespaces/hidden-place/configmaps"
	tom := w.can("ht-tom", rbacv1.PolicyRule{Verbs: []string{"get", "create"}, APIGroups: []string{""}, Resources: []string{"configmaps", "namespaces"}},
		rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{"authorization.proviso.dev"}, Resources: []string{"roles"}})
	f.settled(t, "the hidden annotation", func() bool {
		a := w.send(tom, "", "GET", "/api/v1/namespaces/hidden-place", "")
		return a.code == http.StatusOK && !strings.Contains(a.message, "4711")
	})
	for _, when := range []string{`namespaceObject.metadata.annotations["costs.example.com/center"] == "4711"`, `.namespaceObject.metadata.annotations.exists(k, k.startsWith("costs"))`} {
		token, _ := w.issue(tom, "", fmt.Sprintf(`{"rules":[{"verbs":["create"],"resourceKinds":["configmaps"],"when":%q}]}`, when))
		w.expect("a token that reads it", w.send(tom, token, "POST", maps+"?dryRun=All", `{"metadata":{"name":"n"}}`), http.StatusForbidden, "hidden")
		rule := fmt.Sprintf(`{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"Role","metadata":{"name":"reads"},"rules":[{"verbs":["create"],"resourceKinds":["configmaps"],"when":%q}]}`, when)
		w.expect("a rule that reads it", w.send(tom, "", "POST", fmt.Sprintf(policyRoles, "hidden-place", "roles"), rule), http.StatusForbidden, "reveal:example.com/costs")
	}
	f.admin(t, http.MethodDelete, fieldsGroup+"/costs", jsonBody, "")
}
