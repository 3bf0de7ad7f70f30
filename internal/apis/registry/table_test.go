package registry

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io"

// table reads what `kubectl get` would print.
func (s *api) table(path string) (header string, rows []string) {
	s.t.Helper()
	var tab struct {
		ColumnDefinitions []struct {
			Name     string
			Priority int
		}
		Rows []struct{ Cells []any }
	}
	if err := json.Unmarshal(s.must("GET", path, nil, "Accept", asTable).raw, &tab); err != nil {
		s.t.Fatal(err)
	}
	var names []string
	for _, c := range tab.ColumnDefinitions {
		name := c.Name
		if c.Priority > 0 {
			name = "(" + name + ")"
		}
		names = append(names, name)
	}
	for _, r := range tab.Rows {
		var cells []string
		for i, c := range r.Cells {
			if names[i] == "Age" || names[i] == "Last Modified" {
				c = "_"
			}
			cells = append(cells, fmt.Sprint(c))
		}
		rows = append(rows, strings.Join(cells, " | "))
	}
	return strings.Join(names, " | "), rows
}

// DA-11, PO-3: what `kubectl get` shows of each kind.
func TestTables(t *testing.T) {
	s := serve(t, &world{})
	s.containers("hammer")
	s.must("POST", rolesIn("hammer"), roleYAML("dev", readPods+`, {deny: true, verbs: [delete], resourceKinds: [deployments.apps], attributeRestrictions: {labelsContain: [protected]}}`))
	s.must("POST", bindingsIn("hammer"), bindingYAML("devs", "hammer", "dev", "edgar, hubert"))
	s.must("POST", policyAPI+"/fieldpermissions", fieldPermissionYAML("pod-security-level", podSecurity))
	s.must("POST", policyAPI+"/clusterprotectedattributes", `{apiVersion: policy.proviso.dev/v1alpha1, kind: ClusterProtectedAttribute, metadata: {name: env}, attributeKind: Label, attributeName: env, roleRef: {kind: ClusterRole, name: rm}}`)
	s.must("POST", policyAPI+"/namespaces/hammer/protectedattributes", `{apiVersion: policy.proviso.dev/v1alpha1, kind: ProtectedAttribute, metadata: {name: env}, attributeKind: Label, attributeName: env, protectedValues: [a, b], roleRef: {kind: Role, name: rm}}`)
	s.must("POST", auditAPI+"/auditclasses", `{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditClass, metadata: {name: c}, spec: {rules: [{verbs: [get]}]}}`)
	s.must("POST", auditAPI+"/auditsinks", `{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditSink, metadata: {name: s}, spec: {policy: {level: Metadata}, webhook: {clientConfig: {url: "https://a.example/"}}}}`)
	s.must("PATCH", auditAPI+"/auditsinks/s/status", `{"status":{"compiledRules":4,"delivered":7,"spooled":2,"dropped":1,"setAside":1,"lagSeconds":3,"lastError":"no route","conditions":[{"type":"Active","status":"False","reason":"AuditClassesMissing","message":"x","lastTransitionTime":"2026-01-01T00:00:00Z"},{"type":"Delivering","status":"False","reason":"DeliveryFailed","message":"no route","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, "Content-Type", mergePatch)

	for _, tc := range []struct{ path, header, row string }{
		{policyAPI + "/policies", "Name | Roles | Unresolved | Last Modified | (Compiled) | Age", "default | 1 | 0 | _ | Unknown | _"},
		{policyAPI + "/policybindings", "Name | Policy | Bindings | Unresolved | Last Modified | Age", "hammer | hammer | 1 | 0 | _ | _"},
		{authzAPI + "/roles", "Name | Rules | Denies | Conditional | Unresolved | Age", "dev | 2 | 1 | 1 | 0 | _"},
		{authzAPI + "/rolebindings", "Name | Role | Users | Groups | State | Until | Age", "devs | hammer/dev | edgar,hubert |  | Active |  | _"},
		{policyAPI + "/fieldpermissions", "Name | Permission | Field | Resources | Exclusive | (Hidden) | (Parameter) | (Resolved) | Age",
			"pod-security-level | proviso.dev/podSecurityLevel | .metadata.labels[pod-security.kubernetes.io/enforce] | namespaces | true | false | key | Unknown | _"},
		{policyAPI + "/clusterprotectedattributes", "Name | Kind | Attribute | Values | Role | (Resources) | (Scope) | (Resolved) | Age", "env | Label | env | <all> | ClusterRole/rm | <all> | IncludeTemplates | Unknown | _"},
		{policyAPI + "/protectedattributes", "Name | Kind | Attribute | Values | Role | (Resources) | (Scope) | (Resolved) | Age", "env | Label | env | a,b | Role/rm | <all> | IncludeTemplates | Unknown | _"},
		{auditAPI + "/auditsinks", "Name | Active | Delivering | Level | Rules | Delivered | Spooled | Dropped | (Set Aside) | Lag | (Target) | (Last Error) | Age",
			"s | False (AuditClassesMissing) | False (DeliveryFailed) | Metadata | 4 | 7 | 2 | 1 | 1 | 3s | https://a.example/ | no route | _"},
		{auditAPI + "/auditclasses", "Name | Rules | Age", "c | 1 | _"},
		{rolesIn("hammer") + "/dev", "Name | Rules | Denies | Conditional | Unresolved | Age", "dev | 2 | 1 | 1 | 0 | _"},
	} {
		t.Run(tc.path, func(t *testing.T) {
			header, rows := s.table(tc.path)
			if header != tc.header {
				t.Errorf("header %q\nwant   %q", header, tc.header)
			}
			if len(rows) != 1 || rows[0] != tc.row {
				t.Errorf("rows %q\nwant %q", rows, tc.row)
			}
		})
	}
}
