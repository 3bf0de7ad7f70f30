package server

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// HF-5: a selector that names a hidden field in another way than its path is refused, too.
func TestSelectorsByOtherNames(t *testing.T) {
	f, _ := hiding(t)
	f.namespace(t, "othernames")
	f.apply(t, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/vaults.example.com", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"vaults.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"vaults","singular":"vault","kind":"Vault","listKind":"VaultList"},"versions":[{"name":"v1","served":true,"storage":true,
		"selectableFields":[{"jsonPath":".spec.color"},{"jsonPath":".spec.secret.pin:code"}],
		"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"color":{"type":"string"},"secret":{"type":"object","properties":{"pin:code":{"type":"string"}}}}}}}}}]}}`)
	f.settled(t, "the custom resource", func() bool {
		return f.as(t, "admin", http.MethodGet, "/apis/example.com/v1/vaults", jsonBody, "").code == 200
	})
	f.apply(t, fieldsGroup+"/vaultpin", fmt.Sprintf(hidingRules, "vaultpin", "vaults.example.com", ".spec.secret", "vaultpin", "Nothing"))
	defer f.admin(t, http.MethodDelete, fieldsGroup+"/vaultpin", jsonBody, "")
	f.grant(t, "selector", []string{"batch", "example.com"}, []string{"jobs", "vaults"}, "get", "list", "watch", "deletecollection")
	jobs, vaults := "/apis/batch/v1/namespaces/othernames/jobs", "/apis/example.com/v1/namespaces/othernames/vaults"
	f.admin(t, http.MethodPost, jobs, jsonBody, `{"metadata":{"name":"j"},"spec":{"suspend":true,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`)
	f.settled(t, "the fields are hidden", func() bool {
		one, other := f.as(t, "selector", http.MethodGet, jobs, jsonBody, ""), f.as(t, "selector", http.MethodGet, vaults, jsonBody, "")
		return one.code == 200 && strings.Contains(one.warning, ".status.succeeded") && other.code == 200 && strings.Contains(other.warning, ".spec.secret")
	})
	for _, path := range []string{jobs, "/apis/batch/v1/jobs", vaults} {
		hidden, needs, harmless := []string{"status.successful=1", "status.successful!=0"}, "reveal:example.com/succeeded", []string{"metadata.name=j", "metadata.namespace=othernames"}
		if path == vaults {
			hidden, needs, harmless = []string{"spec.secret.pin:code=1"}, "reveal:example.com/vaultpin", append(harmless, "spec.color=red")
		}
		for _, selector := range hidden {
			query := "?timeoutSeconds=1&fieldSelector=" + url.QueryEscape(selector)
			for what, got := range map[string]answer{
				"list":             f.as(t, "selector", http.MethodGet, path+query, jsonBody, ""),
				"watch":            f.as(t, "selector", http.MethodGet, path+query+"&watch=true", jsonBody, ""),
				"deletecollection": f.as(t, "selector", http.MethodDelete, path+query+"&dryRun=All", jsonBody, ""),
			} {
				if got.code != 422 && !(what == "deletecollection" && path == "/apis/batch/v1/jobs") || got.code == 422 && !strings.Contains(got.message, needs) {
					t.Errorf("%s %s by %s: %d %s", what, path, selector, got.code, got.message)
				}
			}
		}
		for _, selector := range harmless {
			allowed(t, selector, f.as(t, "selector", http.MethodGet, path+"?fieldSelector="+url.QueryEscape(selector), jsonBody, ""))
		}
	}
	allowed(t, "who sees", f.as(t, "admin", http.MethodGet, jobs+"?fieldSelector=status.successful%3D0", jsonBody, ""))
}
