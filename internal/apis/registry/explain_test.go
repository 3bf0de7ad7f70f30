package registry

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	restclient "k8s.io/client-go/rest"
	explain "k8s.io/kubectl/pkg/explain/v2"

	audit "proviso.dev/proviso/api/auditregistration/v1alpha1"
	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// `kubectl explain` works on every kind, down into what the accepted spellings have opened.
func TestExplain(t *testing.T) {
	s := serve(t, &world{})
	client, err := discovery.NewDiscoveryClientForConfig(&restclient.Config{Host: s.url})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		resource schema.GroupVersionResource
		path     string
		want     []string
	}{
		{policy.SchemeGroupVersion.WithResource("policies"), "", []string{"KIND:       Policy", "container of the roles", "roles\t<map[string]PolicyRole>"}},
		{authz.SchemeGroupVersion.WithResource("roles"), "rules", []string{"FIELD: rules <[]PolicyRule>", "where\t<string>", "attributeRestrictions\t<AttributeRestrictions>"}},
		{authz.SchemeGroupVersion.WithResource("roles"), "rules.attributeRestrictions.fieldsMutable", []string{"only field paths that may change"}},
		{authz.SchemeGroupVersion.WithResource("resourceaccessreviews"), "status", []string{"conditional\t<[]ConditionalSubject>"}},
		{authz.SchemeGroupVersion.WithResource("permissions"), "", []string{"KIND:       Permission", "field selector resource=deployments.apps", "fields\t<[]PermissionField> -required-", "verbs\t<[]string> -required-"}},
		{authz.SchemeGroupVersion.WithResource("permissions"), "fields", []string{"exclusiveWhen\t<string>", "broken\t<boolean>", "source\t<string> -required-"}},
		{policy.SchemeGroupVersion.WithResource("fieldpermissions"), "spec", []string{"permission\t<string> -required-"}},
		{policy.SchemeGroupVersion.WithResource("clusterprotectedattributes"), "scope", []string{"IncludeTemplates"}},
		{audit.SchemeGroupVersion.WithResource("auditsinks"), "status", []string{"delivered\t<integer>", "dropped\t<integer>"}},
		{audit.SchemeGroupVersion.WithResource("auditclasses"), "spec.rules", []string{"nonResourceSelectors", "groupResourceSelectors\t<[]GroupResourceSelector>"}},
		{audit.SchemeGroupVersion.WithResource("auditclasses"), "spec.rules.nonResourceSelectors.urls", []string{"urls"}},
		{audit.SchemeGroupVersion.WithResource("auditclasses"), "spec.rules.groupResourceSelectors.namespaces", []string{"name"}},
	} {
		t.Run(tc.resource.Resource+"."+tc.path, func(t *testing.T) {
			var path []string
			if tc.path != "" {
				path = strings.Split(tc.path, ".")
			}
			var out bytes.Buffer
			if err := explain.PrintModelDescription(path, &out, client.OpenAPIV3(), tc.resource, false, 0, "plaintext"); err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("lacks %q:\n%s", want, out.String())
				}
			}
		})
	}
}
