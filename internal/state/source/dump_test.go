package source

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/state/snapshot"
)

// TR-1: a dump holds nothing that is nobody's business, and all that is decided by.
func TestDisclosed(t *testing.T) {
	for _, test := range []struct {
		kind       snapshot.Kind
		text       string
		gone, kept []string
	}{
		{snapshot.Policies, `
metadata: {name: default, managedFields: [{manager: x}], annotations: {kubectl.kubernetes.io/last-applied-configuration: hush, policy.proviso.dev/namespace-uid: "1"}}
roles: {dev: {metadata: {name: dev, managedFields: [{manager: x}], annotations: {kubectl.kubernetes.io/last-applied-configuration: hush}}, rules: [{verbs: [get]}]}}
status: {observedGeneration: 1}`, []string{"managedFields", "hush", "status"}, []string{"namespace-uid", "verbs"}},
		{snapshot.PolicyBindings, `{metadata: {name: a}, roleBindings: {dev: {metadata: {managedFields: [{manager: x}]}, userNames: [edgar]}}}`, []string{"managedFields"}, []string{"edgar"}},
		{snapshot.AuditSinks, `{metadata: {name: a}, spec: {webhook: {clientConfig: {url: "https://collector/?token=hush"}}}, status: {message: x}}`, []string{"hush", "status"}, []string{"https://withheld.invalid"}},
		{snapshot.Definitions, `{metadata: {name: a}, spec: {group: g}, status: {acceptedNames: {kind: A}}}`, nil, []string{"acceptedNames"}},
		{snapshot.Namespaces, `{metadata: {name: a, labels: {team: x}}}`, nil, []string{"team"}},
	} {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(test.text), &object.Object); err != nil {
			t.Fatal(err)
		}
		text, err := yaml.Marshal(disclosed(test.kind, object).Object)
		if err != nil {
			t.Fatal(err)
		}
		for _, gone := range test.gone {
			if strings.Contains(string(text), gone) {
				t.Errorf("%s in %s", gone, text)
			}
		}
		for _, kept := range test.kept {
			if !strings.Contains(string(text), kept) {
				t.Errorf("no %s in %s", kept, text)
			}
		}
	}
}
