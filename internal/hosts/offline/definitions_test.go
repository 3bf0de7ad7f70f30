package offline

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/state/source"
)

const missiles = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"missiles.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
"names":{"plural":"missiles","kind":"Missile"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
"selfDestruct":{"type":"boolean","x-kubernetes-permission-verb":"example.com/selfDestruct","x-kubernetes-permission-exclusive":true}}}}}}}]}}`

// FP-17: a definition that declares permissions in its schema is read from files as a server reads it. One such
// definition made plan, lint, matrix, test and rollback fail for the whole cluster.
func TestDefinitionsWithDeclarations(t *testing.T) {
	host, err := New(Config{MasterNamespace: "master", Texts: []source.Text{{Name: "missiles.json", Data: []byte(missiles)}}})
	if err != nil {
		t.Fatal(err)
	}
	if !host.Snapshot().Fields.Guards(fieldperm.Target{Resource: fieldperm.Resource{Group: "example.com", Resource: "missiles"}, Version: "v1"}) {
		t.Error("the exclusive field is lost")
	}
	if !host.Serves(schema.GroupResource{Group: "example.com", Resource: "missiles"}) {
		t.Error("the kind is lost")
	}
	broken := strings.Replace(missiles, `"x-kubernetes-permission-verb":"example.com/selfDestruct"`, `"x-kubernetes-permission-verb":7`, 1)
	if _, err := New(Config{MasterNamespace: "master", Texts: []source.Text{{Name: "missiles.json", Data: []byte(broken)}}}); err == nil || !strings.Contains(err.Error(), "missiles.example.com") {
		t.Errorf("a declaration that cannot be read: %v", err)
	}
}
