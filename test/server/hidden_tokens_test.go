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

// HF-5: neither a rule nor a link of a token reads what kubectl applied, or a label that is hidden.
func TestConditionsDoNotReadCopiesOfHiddenFields(t *testing.T) {
	f, s := hiding(t)
	w := tokenWorld{t, s}
	f.namespace(t, "copyrules")
	f.openPolicy(t, "copyrules")
	const secrets = "/api/v1/namespaces/copyrules/secrets"
	f.apply(t, fieldsGroup+"/tier", fmt.Sprintf(hidingRules, "tier", "secrets", ".metadata.labels[example.com/tier]", "tier", "Nothing"))
	defer f.admin(t, http.MethodDelete, fieldsGroup+"/tier", jsonBody, "")
	f.admin(t, http.MethodPost, secrets, jsonBody,
		clientApplied(t, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","labels":{"example.com/tier":"gold","team":"a"},"annotations":{"team":"a"}},"data":{"code":"MTIzNA=="}}`))
	rhea := w.can("hc-rhea", rbacv1.PolicyRule{Verbs: []string{"get", "list", "update", "patch"}, APIGroups: []string{""}, Resources: []string{"secrets"}},
		rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{"authorization.proviso.dev"}, Resources: []string{"roles"}})
	f.settled(t, "the hidden label", func() bool {
		a := w.send(rhea, "", "GET", secrets+"/s", "")
		return a.code == http.StatusOK && !strings.Contains(a.message, "gold")
	})
	conditions := map[string]bool{
		`"where":"resource.metadata.annotations[\"` + appliedKey + `\"].contains(\"MTIzNA==\")"`:    false,
		`"where":"resource.metadata.annotations.exists(k, k != \"team\")"`:                          false,
		`"where":"resource.metadata.annotations[request.user] == \"a\""`:                            false,
		`"where":"resource.metadata.managedFields.size() > 1"`:                                      false,
		`"where":"resource.metadata == resource.metadata"`:                                          false,
		`"attributeRestrictions":{"labelsContain":["example.com/tier=gold"]}`:                       false,
		`"where":"has(resource.metadata.annotations) && \"team\" in resource.metadata.annotations"`: true,
		`"where":"resource.metadata.annotations[\"team\"] == \"a\""`:                                true,
		`"where":"resource.metadata.?annotations[?\"team\"].orValue(\"\") == \"a\""`:                true,
		`"attributeRestrictions":{"labelsContain":["team=a"]}`:                                      true,
	}
	n := 0
	for condition, harmless := range conditions {
		n++
		role := fmt.Sprintf(`{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"Role","metadata":{"name":"r%d"},"rules":[{"verbs":["update"],"resourceKinds":["secrets"],%s}]}`, n, condition)
		token, _ := w.issue(rhea, "", fmt.Sprintf(`{"rules":[{"verbs":["get"],"resourceKinds":["secrets"],%s}]}`, condition))
		code := http.StatusForbidden
		if harmless {
			code = http.StatusOK
		}
		if a := w.send(rhea, token, "GET", secrets+"/s", ""); a.code != code || !harmless && !strings.Contains(a.message, "hidden") {
			t.Errorf("a token with %s: %d %s", condition, a.code, a.message)
		}
		a := w.send(rhea, "", "POST", fmt.Sprintf(policyRoles, "copyrules", "roles"), role)
		if harmless && a.code != http.StatusCreated || !harmless && (a.code != http.StatusForbidden || !strings.Contains(a.message, "reveal:example.com/")) {
			t.Errorf("a rule with %s: %d %s", condition, a.code, a.message)
		}
	}
}
