package registry

import (
	"strings"
	"testing"
)

// PO-25: a client cannot say what is harmless, whichever the kind and the way.
func TestClientsListNothingAsHarmless(t *testing.T) {
	s := serve(t, &world{rbac: map[string]bool{"ClusterRole//x": true}})
	for path, text := range map[string]string{
		policyAPI + "/fieldpermissions":                      fieldPermissionYAML("f", podSecurity),
		policyAPI + "/clusterprotectedattributes":            "{apiVersion: policy.proviso.dev/v1alpha1, kind: ClusterProtectedAttribute, metadata: {name: f}, attributeKind: Label, attributeName: env, roleRef: {kind: ClusterRole, name: x}}",
		policyAPI + "/namespaces/hammer/policies":            "{apiVersion: policy.proviso.dev/v1alpha1, kind: Policy, metadata: {name: default}}",
		policyAPI + "/namespaces/hammer/policybindings":      "{apiVersion: policy.proviso.dev/v1alpha1, kind: PolicyBinding, metadata: {name: hammer}}",
		auditAPI + "/auditclasses":                           "{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditClass, metadata: {name: f}, spec: {rules: [{verbs: [get]}]}}",
		auditAPI + "/auditsinks":                             "{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditSink, metadata: {name: f}}",
		policyAPI + "/namespaces/hammer/protectedattributes": "{apiVersion: policy.proviso.dev/v1alpha1, kind: ProtectedAttribute, metadata: {name: f}, attributeKind: Label, attributeName: env, roleRef: {kind: ClusterRole, name: x}}",
	} {
		with := func(list string) string { return strings.TrimSuffix(text, "}") + ", ignorable: [" + list + "]}" }
		s.refuse(422, "POST", path, with(`".metadata"`), "is a field that counts")
		s.refuse(422, "POST", path, with(`".note"`), "set by the server")
		made := s.must("POST", path, text)
		name, _ := made.at("metadata", "name").(string)
		if got := s.call("PATCH", path+"/"+name, `{"ignorable":[".note"]}`, "Content-Type", mergePatch); got.code != 422 {
			t.Errorf("%s: a patch: %d %s", path, got.code, got.message())
		}
		if got := s.must("GET", path+"/"+name, nil); got.at("ignorable") != nil {
			t.Errorf("%s: stored %v", path, got.body)
		}
		if !strings.HasSuffix(path, "classes") {
			s.call("PATCH", path+"/"+name+"/status", `{"ignorable":[".note"]}`, "Content-Type", mergePatch)
			if got := s.must("GET", path+"/"+name, nil); got.at("ignorable") != nil {
				t.Errorf("%s: stored through the status: %v", path, got.body)
			}
		}
	}
}
