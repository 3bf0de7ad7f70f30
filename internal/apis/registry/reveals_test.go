package registry

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	audit "proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/engine/auditrule"
)

// known is what a test knows of fields and of what is served.
type known struct{}

func (known) Hiding(permission string) []schema.GroupResource {
	if permission != "example.com/data" {
		return nil
	}
	return []schema.GroupResource{{Resource: "secrets"}, {Group: "apps", Resource: "deployments"}}
}

func (known) IsDeclared(permission string) bool { return permission == "example.com/data" }

func (known) Unserved(c *audit.AuditClass) (all []auditrule.Unserved) {
	for i := range c.Spec.Rules {
		all = append(all, auditrule.Unserved{Path: []any{"spec", "rules", i}, Message: "nothing"})
	}
	return all
}

// HF-8: a sink that reveals a field is written by a caller who holds the verb on all resources that have it, in the
// whole cluster; one that hides nothing yet takes the verb on every resource.
func TestSinksThatRevealTakeTheRight(t *testing.T) {
	held := map[string]bool{}
	w := &world{authorize: func(a authorizer.Attributes) authorizer.Decision {
		if held[fmt.Sprintf("%s %s.%s %q", a.GetVerb(), a.GetResource(), a.GetAPIGroup(), a.GetNamespace())] {
			return authorizer.DecisionAllow
		}
		return authorizer.DecisionNoOpinion
	}, audit: known{}}
	s := serve(t, w)
	sink := func(reveal, level string) string {
		return fmt.Sprintf("{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditSink, metadata: {name: r}, spec: {policy: {level: %s}, reveal: [%s]}}", level, reveal)
	}
	path := auditAPI + "/auditsinks"
	s.refuse(403, "POST", path, sink("example.com/data", "None"), "spec.reveal[0]")
	held[`reveal:example.com/data secrets. ""`] = true
	s.refuse(403, "POST", path, sink("example.com/data", "None"), "deployments.apps")
	held[`reveal:example.com/data deployments.apps ""`] = true
	s.must("POST", path, sink("example.com/data", "None"))
	s.refuse(403, "PUT", path+"/r", sink("example.com/data, example.com/later", "None"), "spec.reveal[1]")
	held[`reveal:example.com/later *.* ""`] = true
	got := s.must("PUT", path+"/r", sink("example.com/data, example.com/later", "None"))
	if !strings.Contains(strings.Join(got.warnings, " "), "example.com/later hides a field now") {
		t.Errorf("warnings %v", got.warnings)
	}
	clear(held)
	s.must("PUT", path+"/r", sink("example.com/data, example.com/later", "None")) // nothing changes
	s.refuse(403, "PUT", path+"/r", sink("example.com/data", "Metadata"), "spec.reveal[0]")
	s.must("PUT", path+"/r", sink("", "Metadata"))
}

// DA-16, DA-18: what has no effect, or another than it seems, is a warning.
func TestAuditWarnings(t *testing.T) {
	s := serve(t, &world{audit: known{}})
	sink := s.must("POST", auditAPI+"/auditsinks", `{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditSink, metadata: {name: w}, spec: {notAfter: "2020-01-01T00:00:00Z", redact: {permissions: [example.com/data, example.com/none]}}}`)
	if text := strings.Join(sink.warnings, " "); !strings.Contains(text, "spec.notAfter: it is past") || !strings.Contains(text, "spec.redact.permissions[1]") || strings.Contains(text, "permissions[0]") {
		t.Errorf("warnings %s", text)
	}
	class := s.must("POST", auditAPI+"/auditclasses", "{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditClass, metadata: {name: w}, spec: {rules: ["+strings.Repeat("{verbs: [get]},", 20)+"]}}")
	if len(class.warnings) != maxClassWarnings+1 || !strings.Contains(class.warnings[1], "spec.rules[1]: nothing") {
		t.Errorf("warnings %v", class.warnings)
	}
}
