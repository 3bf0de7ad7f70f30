package registry

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
)

const (
	uidOf       = "policy.proviso.dev/namespace-uid"
	denyPods    = `{deny: true, verbs: [delete], resourceKinds: [pods]}`
	asTheServer = user.APIServerUser
)

func policiesIn(ns string) string   { return policyAPI + "/namespaces/" + ns + "/policies" }
func containersIn(ns string) string { return policyAPI + "/namespaces/" + ns + "/policybindings" }
func attributesIn(ns string) string { return policyAPI + "/namespaces/" + ns + "/protectedattributes" }

func attributeYAML(name string) string {
	return fmt.Sprintf("{apiVersion: policy.proviso.dev/v1alpha1, kind: ProtectedAttribute, metadata: {name: %s}, attributeKind: Label, attributeName: env, roleRef: {kind: Role, name: r}}", name)
}

func (a answer) uid() any { return a.at("metadata", "annotations", uidOf) }

// PO-20: what restricts a namespace carries its UID, which nobody but the server sets.
func TestPlacesCarryTheirNamespace(t *testing.T) {
	w := &world{}
	s := serve(t, w)
	forged := fmt.Sprintf("{apiVersion: policy.proviso.dev/v1alpha1, kind: Policy, metadata: {name: default, annotations: {%q: mine}, finalizers: [policy.proviso.dev/namespace, example.com/x]}}", uidOf)
	made := s.must("POST", policiesIn("hammer"), forged)
	if made.uid() != "hammer-0" || fmt.Sprint(made.at("metadata", "finalizers")) != "[example.com/x]" {
		t.Errorf("created as %v", made.at("metadata"))
	}
	s.must("POST", containersIn("hammer"), `{apiVersion: policy.proviso.dev/v1alpha1, kind: PolicyBinding, metadata: {name: hammer}}`)
	s.must("POST", attributesIn("hammer"), attributeYAML("env"))
	applied := s.must("PATCH", attributesIn("hammer")+"/applied?fieldManager=t", attributeYAML("applied"), "Content-Type", applyPatch)
	if applied.uid() != "hammer-0" {
		t.Errorf("applied as %v", applied.at("metadata"))
	}
	for _, path := range []string{policiesIn("hammer") + "/default", containersIn("hammer") + "/hammer", attributesIn("hammer") + "/env"} {
		if got := s.must("GET", path, nil).uid(); got != "hammer-0" {
			t.Errorf("%s belongs to %v", path, got)
		}
		for _, patch := range []string{`{metadata: {annotations: {"%s": other}}}`, `{metadata: {annotations: {"%s": null}, finalizers: []}}`, `{metadata: {annotations: null}}`, `{metadata: {finalizers: [policy.proviso.dev/namespace]}}`} {
			if strings.Contains(patch, "%s") {
				patch = fmt.Sprintf(patch, uidOf)
			}
			changed := s.must("PATCH", path, patch, "Content-Type", mergePatch)
			if changed.uid() != "hammer-0" || strings.Contains(fmt.Sprint(changed.at("metadata", "finalizers")), "proviso") {
				t.Errorf("%s with %s: %v", path, patch, changed.at("metadata"))
			}
		}
	}
	// A binding to the master namespace makes its container.
	s.containers("master")
	s.must("POST", rolesIn("master"), roleYAML("view", readPods))
	s.must("POST", bindingsIn("anvil"), bindingYAML("viewers", "master", "view", "edgar"))
	if got := s.must("GET", containersIn("anvil")+"/master", nil).uid(); got != "anvil-0" {
		t.Errorf("the container belongs to %v", got)
	}
	// Nothing is made in a namespace that is not, or is going.
	w.set(func() { w.gone["void"], w.terminating["dying"] = true, true })
	for ns, code := range map[string]int{"void": 404, "dying": 403} {
		s.refuse(code, "POST", policiesIn(ns), `{apiVersion: policy.proviso.dev/v1alpha1, kind: Policy, metadata: {name: default}}`, ns)
		s.refuse(code, "POST", attributesIn(ns), attributeYAML("a"), ns)
		s.refuse(code, "POST", bindingsIn(ns), bindingYAML("viewers", "master", "view", "edgar"), ns)
	}
}

// PO-20: while its namespace is deleted, a container is released and not removed. Nobody sees it, nobody can take from
// it, and the server goes on reading it.
func TestReleasedContainersStay(t *testing.T) {
	w := &world{}
	s := serve(t, w)
	s.containers("hammer")
	s.must("POST", rolesIn("hammer"), roleYAML("denies", denyPods))
	s.must("POST", bindingsIn("hammer"), bindingYAML("denied", "hammer", "denies", "edgar"))
	s.must("POST", attributesIn("hammer"), attributeYAML("env"))
	all := []string{policiesIn("hammer"), containersIn("hammer"), attributesIn("hammer")}
	w.set(func() {
		w.terminating["hammer"] = true
		w.escalation = func(what string) error { return fmt.Errorf("no: %s", what) }
	})

	// What denies cannot be unbound or removed on its own, even if its policy went first.
	// That holds for the namespace controller too, which may do everything where it runs beside the server.
	s.refuse(409, "DELETE", bindingsIn("hammer")+"/denied", nil, "is deleted with the namespace")
	w.set(func() { w.escalation = nil })
	if got := s.call("DELETE", bindingsIn("hammer")+"/denied", nil, "X-User", asTheServer, "X-Controller", "yes"); got.code != 409 {
		t.Errorf("the namespace controller unbinds what denies: %d", got.code)
	}
	s.refuse(409, "DELETE", rolesIn("hammer")+"/denies", nil, "denied")
	s.must("DELETE", policiesIn("hammer"), nil)
	s.refuse(409, "DELETE", bindingsIn("hammer")+"/denied", nil, "is deleted with the namespace")
	s.must("DELETE", containersIn("hammer")+"/hammer", nil)
	s.must("DELETE", attributesIn("hammer"), nil)

	for _, path := range append(all, rolesIn("hammer"), bindingsIn("hammer")) {
		for _, header := range [][]string{nil, {"X-User", asTheServer, "X-Controller", "yes"}} {
			if items, _ := s.must("GET", path, nil, header...).at("items").([]any); len(items) != 0 {
				t.Errorf("%s shows %d items: the namespace controller would wait for them", path, len(items))
			}
		}
	}
	for _, path := range []string{policiesIn("hammer") + "/default", containersIn("hammer") + "/hammer", attributesIn("hammer") + "/env", rolesIn("hammer") + "/denies", bindingsIn("hammer") + "/denied"} {
		s.refuse(404, "GET", path, nil)
		s.refuse(404, "DELETE", path, nil)
	}
	if got := s.call("PATCH", policiesIn("hammer")+"/default", `{metadata: {finalizers: null}}`, "Content-Type", mergePatch); got.code != 404 {
		t.Errorf("a released container was changed: %d", got.code)
	}
	for _, path := range all {
		items, _ := s.must("GET", path, nil, "X-User", asTheServer).at("items").([]any)
		if len(items) != 1 {
			t.Fatalf("%s: the server itself reads %d", path, len(items))
		}
		meta, _ := items[0].(map[string]any)["metadata"].(map[string]any)
		if meta["deletionTimestamp"] == nil || fmt.Sprint(meta["finalizers"]) != "[policy.proviso.dev/namespace]" {
			t.Errorf("%s: %v", path, meta)
		}
	}

	// When the namespace is gone, the server removes them; so it does if a new one has their name.
	w.set(func() { w.gone["hammer"] = true })
	s.must("DELETE", policiesIn("hammer")+"/default", nil, "X-User", asTheServer)
	w.set(func() { w.gone["hammer"], w.terminating["hammer"], w.again["hammer"] = false, false, 1 })
	s.must("DELETE", attributesIn("hammer")+"/env", nil, "X-User", asTheServer)
	for _, path := range []string{policiesIn("hammer"), attributesIn("hammer")} {
		if items, _ := s.must("GET", path, nil, "X-User", asTheServer).at("items").([]any); len(items) != 0 {
			t.Errorf("%s is left", path)
		}
	}
}

// PO-20: in a namespace made again nothing of the earlier one counts, or stands in the way.
func TestSuccessorsInheritNothing(t *testing.T) {
	w := &world{}
	s := serve(t, w)
	s.containers("master", "hammer")
	s.must("POST", rolesIn("master"), roleYAML("admin", readPods))
	s.must("POST", rolesIn("hammer"), roleYAML("old", readPods))
	s.must("POST", bindingsIn("hammer"), bindingYAML("admins", "master", "admin", "hubert"))
	s.must("POST", bindingsIn("hammer"), bindingYAML("olds", "hammer", "old", "hubert"))
	s.must("POST", attributesIn("hammer"), attributeYAML("env"))

	// `finalize` with an empty list: the namespace is gone, and nothing in it was deleted.
	w.set(func() { w.gone["hammer"] = true })
	for _, path := range []string{rolesIn("hammer") + "/old", bindingsIn("hammer") + "/admins", policiesIn("hammer") + "/default"} {
		s.refuse(404, "GET", path, nil)
	}
	s.refuse(404, "DELETE", bindingsIn("hammer")+"/olds", nil)
	s.refuse(422, "POST", rolesIn("hammer"), roleYAML("new", readPods))
	// A role of the master namespace is not held by bindings that count no more.
	s.must("DELETE", rolesIn("master")+"/admin", nil)
	s.must("POST", rolesIn("master"), roleYAML("admin", readPods))

	w.set(func() { w.gone["hammer"], w.again["hammer"] = false, 1 })
	for _, path := range []string{policiesIn("hammer"), containersIn("hammer"), attributesIn("hammer"), rolesIn("hammer"), bindingsIn("hammer")} {
		if items, _ := s.must("GET", path, nil).at("items").([]any); len(items) != 0 {
			t.Errorf("%s shows %d items of the earlier namespace", path, len(items))
		}
	}
	s.refuse(422, "POST", rolesIn("hammer"), roleYAML("new", readPods), "a cluster admin has to create its Policy")
	s.containers("hammer")
	s.must("POST", rolesIn("hammer"), roleYAML("new", readPods))
	s.must("POST", bindingsIn("hammer"), bindingYAML("news", "master", "admin", "edgar"))
	s.must("POST", attributesIn("hammer"), attributeYAML("env"))
	if got := s.must("GET", policiesIn("hammer")+"/default", nil); got.uid() != "hammer-1" || got.at("roles", "old") != nil || got.at("roles", "new") == nil {
		t.Errorf("the new policy: %v", got.body)
	}
	if items, _ := s.must("GET", bindingsIn("hammer"), nil).at("items").([]any); len(items) != 1 {
		t.Errorf("%d bindings in the new namespace", len(items))
	}
}

// PO-20: what was stored before belongs to a namespace that was there before it, until the server has said so.
func TestAdoption(t *testing.T) {
	w := &world{}
	s := serve(t, w)
	s.containers("hammer")
	path := policiesIn("hammer") + "/default"
	forget := fmt.Sprintf(`{metadata: {annotations: {%q: null}}}`, uidOf)
	if got := s.must("PATCH", path, forget, "Content-Type", mergePatch, "X-User", asTheServer); got.uid() != nil {
		t.Fatalf("the server cannot take the UID away: %v", got.at("metadata"))
	}
	s.must("GET", path, nil)
	s.must("POST", rolesIn("hammer"), roleYAML("reader", readPods))
	w.set(func() { w.created["hammer"] = metav1.NewTime(time.Now().Add(time.Hour)) })
	s.refuse(404, "GET", path, nil)
	s.refuse(404, "GET", rolesIn("hammer")+"/reader", nil)
	w.set(func() { delete(w.created, "hammer") })
	s.must("PATCH", path, fmt.Sprintf(`{metadata: {annotations: {%q: hammer-0}}}`, uidOf), "Content-Type", mergePatch, "X-User", asTheServer)
	w.set(func() { w.created["hammer"] = metav1.NewTime(time.Now().Add(time.Hour)) })
	s.must("GET", path, nil)
	// An informer that lags behind hides nothing and keeps nothing.
	w.set(func() { w.unknown["hammer"] = true })
	s.must("GET", rolesIn("hammer")+"/reader", nil)
}
