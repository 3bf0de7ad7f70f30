package registry

import (
	"strings"
	"testing"
	"time"
)

func timed(name, role, more string) string {
	return `{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: ` + name + `}, roleRef: ` + role + `, userNames: [edgar], ` + more + `}`
}

// TM-1, TM-7: a binding says when it counts in whole seconds, is stored and shown so, and its state is computed when it
// is read. An end that is past is a warning.
func TestBindingsBeginAndEnd(t *testing.T) {
	s := serve(t, &world{})
	s.containers("hammer", "master")
	s.must("POST", rolesIn("hammer"), roleYAML("reader", readPods))
	const reader = `{name: reader}`
	for more, field := range map[string]string{
		`notBefore: "2031-01-01T00:00:00.5Z"`:                                      "notBefore",
		`notAfter: "2031-01-01T00:00:00.000001Z"`:                                  "notAfter",
		`notBefore: "2031-01-01T00:00:00Z", notAfter: "2030-01-01T00:00:00Z"`:      "notAfter",
		`notBefore: "2031-01-01T00:00:00Z", notAfter: "2031-01-01T01:00:00+01:00"`: "notAfter",
	} {
		s.refuse(422, "POST", bindingsIn("hammer"), timed("bad", reader, more), field)
	}
	s.refuse(400, "POST", bindingsIn("hammer"), timed("bad", reader, `notAfter: tomorrow`), "tomorrow")
	for name, tc := range map[string]struct{ more, state, until string }{
		"gone":   {`notAfter: "2020-01-01T00:00:00Z"`, "Expired", "2020-01-01T00:00:00Z"},
		"later":  {`notBefore: "2999-01-01T00:00:00Z"`, "Pending", ""},
		"now":    {`notBefore: "2020-01-01T00:00:00Z", notAfter: "2999-01-01T02:00:00+02:00"`, "Active", "2999-01-01T00:00:00Z"},
		"always": {`groupNames: []`, "Active", ""},
	} {
		got := s.must("POST", bindingsIn("hammer"), timed(name, reader, tc.more))
		if warned := strings.Contains(strings.Join(got.warnings, " "), "it is past"); warned != (tc.state == "Expired") {
			t.Errorf("%s: warnings %v", name, got.warnings)
		}
		_, rows := s.table(bindingsIn("hammer") + "/" + name)
		if want := name + " | hammer/reader | edgar |  | " + tc.state + " | " + tc.until + " | _"; len(rows) != 1 || rows[0] != want {
			t.Errorf("rows %q\nwant %q", rows, want)
		}
	}
	stored := s.must("GET", policyAPI+"/namespaces/hammer/policybindings/hammer", nil)
	end, err := time.Parse(time.RFC3339, stored.at("roleBindings", "now", "notAfter").(string))
	if err != nil || end.Year() != 2999 {
		t.Errorf("stored %v", stored.at("roleBindings", "now"))
	}
}

// TM-1: a binding can name a ClusterRole of RBAC, and nothing else of it.
func TestBindingsToClusterRoles(t *testing.T) {
	s := serve(t, &world{})
	s.containers("hammer", "master")
	const view = `{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}`
	for role, field := range map[string]string{
		`{apiGroup: rbac.authorization.k8s.io, kind: Role, name: view}`:                           "roleRef.kind",
		`{apiGroup: rbac.authorization.k8s.io, name: view}`:                                       "roleRef.kind",
		`{kind: ClusterRole, name: view}`:                                                         "roleRef.apiGroup",
		`{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view, namespace: hammer}`: "roleRef.namespace",
		`{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole}`:                                "roleRef.name",
	} {
		s.refuse(422, "POST", bindingsIn("hammer"), timed("bad", role, `groupNames: []`), field)
	}
	made := s.must("POST", bindingsIn("hammer"), timed("viewers", view, `notAfter: "2999-01-01T00:00:00Z"`))
	if made.at("roleRef", "kind") != "ClusterRole" || made.at("roleRef", "namespace") != nil {
		t.Errorf("made %v", made.body)
	}
	stored := s.must("GET", policyAPI+"/namespaces/hammer/policybindings/master", nil)
	if stored.at("roleBindings", "viewers", "roleRef", "name") != "view" {
		t.Errorf("stored %v", stored.body)
	}
	s.refuse(422, "PUT", bindingsIn("hammer")+"/viewers", timed("viewers", `{namespace: master, name: view}`, `groupNames: []`), "roleRef")
	if _, rows := s.table(bindingsIn("hammer") + "/viewers"); len(rows) != 1 || !strings.HasPrefix(rows[0], "viewers | ClusterRole/view | edgar") {
		t.Errorf("rows %q", rows)
	}
	s.must("DELETE", bindingsIn("hammer")+"/viewers", nil)
}
