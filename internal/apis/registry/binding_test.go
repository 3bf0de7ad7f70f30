package registry

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// PO-5, PO-10: until a cluster admin has made the containers, writing a role or a local binding says so.
func TestNamespaceWithoutContainers(t *testing.T) {
	s := serve(t, &world{})
	s.containers("master")
	s.must("POST", rolesIn("master"), roleYAML("view", readPods))
	s.refuse(422, "POST", rolesIn("hammer"), roleYAML("reader", readPods), "metadata.namespace", "cluster admin", `Policy "default"`)
	if got := s.call("PATCH", rolesIn("hammer")+"/reader?fieldManager=me", roleYAML("reader", readPods), "Content-Type", applyPatch); got.code != 422 {
		t.Errorf("apply: %d %s", got.code, got.message())
	}
	s.refuse(404, "GET", rolesIn("hammer")+"/reader", nil, "not found")

	s.must("POST", policyAPI+"/namespaces/hammer/policies", `{apiVersion: policy.proviso.dev/v1alpha1, kind: Policy, metadata: {name: default}}`)
	s.must("POST", rolesIn("hammer"), roleYAML("reader", readPods))
	s.refuse(422, "POST", bindingsIn("hammer"), bindingYAML("readers", "hammer", "reader", "edgar"), "roleRef.namespace", "cluster admin", `PolicyBinding "hammer"`)

	// A binding to the master namespace makes its container itself.
	s.refuse(404, "GET", policyAPI+"/namespaces/hammer/policybindings/master", nil)
	s.must("POST", bindingsIn("hammer"), bindingYAML("viewers", "master", "view", "edgar"))
	made := s.must("GET", policyAPI+"/namespaces/hammer/policybindings/master", nil)
	if made.at("policyRef", "namespace") != "master" || made.at("roleBindings", "viewers", "roleName") != "view" {
		t.Errorf("container %v", made.body)
	}
}

// PO-5: a roleRef points to the own or to the master namespace, to a role that exists, and stays.
func TestRoleReferences(t *testing.T) {
	s := serve(t, &world{})
	s.containers("hammer", "nail", "master")
	s.must("POST", rolesIn("master"), roleYAML("view", readPods))
	s.must("POST", rolesIn("hammer"), roleYAML("reader", readPods))
	s.must("POST", rolesIn("nail"), roleYAML("reader", readPods))

	s.refuse(422, "POST", bindingsIn("hammer"), bindingYAML("a", "nail", "reader", "edgar"), "roleRef.namespace", "hammer", "master")
	s.refuse(422, "POST", bindingsIn("hammer"), bindingYAML("a", "hammer", "writer", "edgar"), "roleRef.name", "writer", "hammer")
	s.refuse(422, "POST", bindingsIn("hammer"), bindingYAML("a", "hammer", "view", "edgar"), "roleRef.name")
	s.refuse(422, "POST", bindingsIn("hammer"), bindingYAML("a", "hammer", "", "edgar"), "roleRef.name")
	s.refuse(422, "POST", bindingsIn("hammer"), bindingYAML("a", "hammer", "reader", "edgar, edgar"), "userNames[1]", "Duplicate")
	s.refuse(422, "POST", bindingsIn("hammer"), bindingYAML("a", "hammer", "reader", `""`), "userNames[0]")

	// The namespace defaults to the own one.
	got := s.must("POST", bindingsIn("hammer"), `{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: a}, roleRef: {name: reader}, groupNames: [team]}`)
	if got.at("roleRef", "namespace") != "hammer" {
		t.Errorf("roleRef %v", got.at("roleRef"))
	}
	// The original design's spelling is a roleRef to the master namespace, and is shown as it was written.
	for name, spelling := range map[string]string{"seed": `referencesGlobalRole: true, roleName: view`, "half": `referencesGlobalRole: true, roleRef: {name: view}`, "own": `roleName: reader`} {
		want := map[string]string{"seed": "master", "half": "master", "own": "hammer"}[name]
		object := `{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: ` + name + `}, ` + spelling + `, userNames: [edgar]}`
		for _, got := range []answer{s.must("POST", bindingsIn("hammer")+"?fieldValidation=Strict", object), s.must("PUT", bindingsIn("hammer")+"/"+name, object)} {
			if got.at("roleRef", "namespace") != want || (got.at("referencesGlobalRole") == true) != strings.Contains(spelling, "referencesGlobalRole") || (got.at("roleName") != nil) != strings.Contains(spelling, "roleName") {
				t.Errorf("%s: %v", name, got.body)
			}
		}
		applied := s.must("PATCH", bindingsIn("hammer")+"/"+name+"?fieldManager=me&force=true", object, "Content-Type", applyPatch)
		if applied.at("roleRef", "namespace") != want {
			t.Errorf("%s, applied: %v", name, applied.body)
		}
		s.must("DELETE", bindingsIn("hammer")+"/"+name, nil)
	}
	s.refuse(422, "POST", bindingsIn("hammer"), `{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: x}, referencesGlobalRole: true, roleRef: {namespace: hammer, name: reader}}`, "referencesGlobalRole")
	s.refuse(422, "POST", bindingsIn("hammer"), `{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: x}, roleName: view, roleRef: {name: reader}}`, "roleName")
	// A name is taken in the namespace, whichever container holds it.
	s.refuse(409, "POST", bindingsIn("hammer"), bindingYAML("a", "master", "view", "edgar"), "already exists")
	s.must("POST", bindingsIn("hammer"), bindingYAML("b", "master", "view", "edgar"))
	s.refuse(409, "POST", bindingsIn("hammer"), bindingYAML("b", "hammer", "reader", "edgar"), "already exists")
	if items, _ := s.must("GET", bindingsIn("hammer"), nil).at("items").([]any); len(items) != 2 {
		t.Errorf("%d bindings, want those of both containers", len(items))
	}
	s.must("GET", bindingsIn("hammer")+"/b", nil)

	for _, patch := range []string{`{"roleRef":{"name":"other"}}`, `{"roleRef":{"namespace":"master","name":"view"}}`} {
		if got := s.call("PATCH", bindingsIn("hammer")+"/a", patch, "Content-Type", mergePatch); got.code != 422 || !strings.Contains(got.message(), "roleRef") {
			t.Errorf("%s: %d %s", patch, got.code, got.message())
		}
	}
	s.must("PATCH", bindingsIn("hammer")+"/a", `{"userNames":["hubert"]}`, "Content-Type", mergePatch)
	s.must("DELETE", bindingsIn("hammer")+"/b", nil)
	s.refuse(404, "GET", bindingsIn("hammer")+"/b", nil)
}

// PO-5: a role that is bound stays, and the refusal names the bindings, wherever they are.
func TestBoundRolesStay(t *testing.T) {
	s := serve(t, &world{})
	s.containers("hammer", "nail", "master")
	s.must("POST", rolesIn("master"), roleYAML("view", readPods))
	s.must("POST", rolesIn("hammer"), roleYAML("view", readPods))
	s.must("POST", rolesIn("hammer"), roleYAML("unbound", readPods))
	s.must("POST", bindingsIn("nail"), bindingYAML("viewers", "master", "view", "edgar"))
	s.must("POST", bindingsIn("hammer"), bindingYAML("master-viewers", "master", "view", "edgar"))
	s.must("POST", bindingsIn("hammer"), bindingYAML("locals", "hammer", "view", "edgar"))

	s.refuse(409, "DELETE", rolesIn("master")+"/view", nil, "hammer/master-viewers", "nail/viewers")
	got := s.refuse(409, "DELETE", rolesIn("hammer")+"/view", nil, "hammer/locals")
	if strings.Contains(got.message(), "master-viewers") {
		t.Errorf("a binding to another role of the same name is named: %s", got.message())
	}
	if role := s.must("GET", rolesIn("hammer")+"/view", nil); role.at("metadata", "deletionTimestamp") != nil {
		t.Error("a refused deletion left its mark")
	}
	s.must("DELETE", rolesIn("hammer")+"/unbound", nil)
	s.must("DELETE", bindingsIn("hammer")+"/locals", nil)
	s.must("DELETE", rolesIn("hammer")+"/view", nil)
	s.refuse(422, "POST", bindingsIn("hammer"), bindingYAML("locals", "hammer", "view", "edgar"), "roleRef.name")
}

// PO-12: the escalation check is asked for every new rule and every new subject, and for nothing else; its refusal is a
// 403.
func TestEscalationIsAsked(t *testing.T) {
	w := &world{}
	s := serve(t, w)
	s.containers("hammer")
	asked := func() string {
		w.mu.Lock()
		defer w.mu.Unlock()
		defer func() { w.asked = nil }()
		return strings.Join(slices.Compact(w.asked), "; ") // a write that starts again asks again
	}
	expect := func(want string) {
		t.Helper()
		if got := asked(); got != want {
			t.Errorf("asked %q, want %q", got, want)
		}
	}
	s.must("POST", rolesIn("hammer"), roleYAML("reader", readPods))
	expect("role hammer/reader new=true rules=1")
	s.must("PATCH", rolesIn("hammer")+"/reader", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", mergePatch)
	expect("")
	s.must("PATCH", rolesIn("hammer")+"/reader", `{"rules":[]}`, "Content-Type", mergePatch)
	expect("role hammer/reader new=false rules=0")
	s.must("PATCH", rolesIn("hammer")+"/applied?fieldManager=me", roleYAML("applied", readPods), "Content-Type", applyPatch)
	expect("role hammer/applied new=true rules=1")
	s.must("POST", bindingsIn("hammer"), bindingYAML("b", "hammer", "applied", "edgar"))
	expect("binding hammer/b new=true rules=1")
	s.must("PATCH", bindingsIn("hammer")+"/b", `{"metadata":{"labels":{"a":"b"}}}`, "Content-Type", mergePatch)
	expect("")
	s.must("PATCH", bindingsIn("hammer")+"/b", `{"groupNames":["team"]}`, "Content-Type", mergePatch)
	expect("binding hammer/b new=false rules=1")

	w.escalation = func(what string) error { return errors.New("you do not hold that: " + what) }
	s.refuse(403, "POST", rolesIn("hammer"), roleYAML("more", readPods), "you do not hold that", "more")
	s.refuse(403, "POST", bindingsIn("hammer"), bindingYAML("more", "hammer", "applied", "edgar"), "you do not hold that")
	if got := s.call("PATCH", bindingsIn("hammer")+"/b", `{"userNames":["mallory"]}`, "Content-Type", mergePatch); got.code != 403 {
		t.Errorf("a refused change: %d %s", got.code, got.message())
	}
	if got := fmt.Sprint(s.must("GET", bindingsIn("hammer")+"/b", nil).at("userNames")); got != "[edgar]" {
		t.Errorf("a refused change was written: %s", got)
	}
	s.refuse(404, "GET", rolesIn("hammer")+"/more", nil)

	// Taking a binding away can give power, if the role denies something: it is asked for as well.
	s.refuse(403, "DELETE", bindingsIn("hammer")+"/b", nil, "you do not hold that: unbinding hammer/b rules=1")
	s.must("GET", bindingsIn("hammer")+"/b", nil)
	asked()
	w.escalation = nil
	s.must("DELETE", bindingsIn("hammer")+"/b", nil)
	expect("unbinding hammer/b rules=1")

	// So it is while the namespace is being deleted: what denies, denies to the end (PO-20).
	s.must("POST", bindingsIn("hammer"), bindingYAML("b", "hammer", "applied", "edgar"))
	asked()
	w.set(func() { w.terminating["hammer"] = true })
	s.must("DELETE", bindingsIn("hammer")+"/b", nil) // it only allows
	expect("unbinding hammer/b rules=1")
}

// PO-13: the names of the seed's story are accepted.
func TestNamesOfTheSeed(t *testing.T) {
	s := serve(t, &world{})
	s.containers("hammer", "master")
	s.must("POST", rolesIn("master"), roleYAML("admin", `{verbs: ["*", "-create", "-update", "-delete"], resourceKinds: ["*"]}, {verbs: [create, update, delete], resourceKinds: ["*", "-roles", "-policyBindings"]}`))
	s.must("POST", bindingsIn("hammer"), bindingYAML("ProjectAdmins", "master", "admin", "Hubert"))
	s.must("POST", rolesIn("hammer"), roleYAML("deploymentConfigLabelers", `{verbs: [watch, list, get], resourceKinds: [DeploymentConfig]}, {verbs: [update], resourceKinds: [DeploymentConfig], attributeRestrictions: {fieldsMutatable: [labels]}}`))
	s.must("POST", bindingsIn("hammer"), bindingYAML("DeploymentConfigLabelerBots", "hammer", "deploymentConfigLabelers", "ProtectorBot, DeprotectorBot"))
	s.must("POST", rolesIn("hammer"), roleYAML("fatFingeredEditor", `{deny: true, verbs: [delete], resourceKinds: [DeploymentConfig], attributeRestrictions: {labelsContain: [protected]}}`))
	s.must("POST", bindingsIn("hammer"), bindingYAML("FatFingeredEditors", "hammer", "fatFingeredEditor", "Edgar"))
	s.must("POST", rolesIn("master"), roleYAML("kubelet", `{verbs: ["*"], resourceKinds: [Pod], attributeRestrictions: {kind: sameMinionRestriction}}`))
}
