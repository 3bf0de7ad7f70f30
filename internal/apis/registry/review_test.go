package registry

import (
	"fmt"
	"strings"
	"testing"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
)

// PO-14: who-can is asked in a namespace or for the cluster, answered, and stored nowhere.
func TestResourceAccessReviews(t *testing.T) {
	w := &world{whoCan: authz.ResourceAccessReviewStatus{
		UserNames: []string{"clark", "hubert"}, GroupNames: []string{"system:masters"}, Incomplete: true, IncompleteReason: "webhook",
		Conditional: []authz.ConditionalSubject{{UserName: "edgar", Conditions: []authz.Condition{{ID: "a/b", Effect: authz.EffectAllow, Condition: "x"}}}},
	}}
	s := serve(t, w)
	ask := func(spec string) string {
		return "{apiVersion: authorization.proviso.dev/v1alpha1, kind: ResourceAccessReview, metadata: {name: create-pod-check}, spec: {" + spec + "}}"
	}
	got := s.must("POST", authzAPI+"/namespaces/hammer/resourceaccessreviews", ask("verb: update, resourceKind: deployments.apps, resourceName: web"))
	if got.code != 201 || fmt.Sprint(got.at("status", "userNames")) != "[clark hubert]" || got.at("metadata", "namespace") != "hammer" || got.at("spec", "resourceName") != "web" {
		t.Errorf("%d %v", got.code, got.body)
	}
	got = s.must("POST", authzAPI+"/resourceaccessreviews", ask("verb: get, resourceKind: nodes"))
	if got.at("metadata", "namespace") != nil || got.at("status", "incompleteReason") != "webhook" {
		t.Errorf("%v", got.body)
	}
	if asked := strings.Join(w.questions, "; "); asked != `update deployments.apps in "hammer"; get nodes in ""` {
		t.Errorf("asked %s", asked)
	}
	for _, path := range []string{"/namespaces/hammer/resourceaccessreviews", "/resourceaccessreviews"} {
		s.refuse(422, "POST", authzAPI+path, ask("resourceKind: pods"), "spec.verb")
		s.refuse(422, "POST", authzAPI+path, ask("verb: get"), "spec.resourceKind")
		s.refuse(422, "POST", authzAPI+path, ask(`verb: "-get", resourceKind: pods`), "one verb")
		s.refuse(422, "POST", authzAPI+path, ask(`verb: get, resourceKind: "po*"`), "one resource")
		s.refuse(405, "GET", authzAPI+path, nil)
	}
}

// PO-15
func TestSubjectAccessReviews(t *testing.T) {
	w := &world{subject: authz.SubjectAccessReviewStatus{Allowed: true, AllowReason: "rule", DenyReason: "another"}}
	s := serve(t, w)
	ask := func(spec string) string {
		return "{apiVersion: authorization.proviso.dev/v1alpha1, kind: SubjectAccessReview, spec: {verb: create, resourceKind: pods, " + spec + "}}"
	}
	path := authzAPI + "/namespaces/hammer/subjectaccessreviews"
	got := s.must("POST", path, ask(`userName: edgar, content: {kind: Pod, apiVersion: v1, metadata: {name: x}, spec: {nodeName: n1}}`), "X-User", "hubert")
	if got.at("status", "allowed") != true || got.at("status", "denyReason") != "another" || got.at("spec", "content", "spec", "nodeName") != "n1" {
		t.Errorf("%v", got.body)
	}
	s.must("POST", authzAPI+"/subjectaccessreviews", ask("groupName: team"))
	if asked := strings.Join(w.questions, "; "); asked != `hubert: create pods in "hammer"; tester: create pods in ""` {
		t.Errorf("asked %s", asked)
	}
	s.refuse(422, "POST", path, ask("userName: edgar, groupName: team"), "spec.groupName")
}

// A configuration in which a check would be skipped is refused.
func TestConfigNeedsEverything(t *testing.T) {
	whole := (&world{}).config()
	if err := whole.validate(); err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(*Config){
		"master namespace":       func(c *Config) { c.MasterNamespace = "" },
		"maximum of audit sinks": func(c *Config) { c.MaxAuditSinks = -1 },
		"authorizer":             func(c *Config) { c.Authorizer = nil },
		"escalation check":       func(c *Config) { c.Escalation = nil },
		"turns":                  func(c *Config) { c.Turns = nil },
		"namespaces":             func(c *Config) { c.Namespaces = nil },
		"roles":                  func(c *Config) { c.Roles = nil },
		"reviewer":               func(c *Config) { c.Reviewer = nil },
		"rule check":             func(c *Config) { c.Rules = nil },
		"field permission check": func(c *Config) { c.FieldPermissions = nil },
	} {
		c := whole
		damage(&c)
		if err := c.validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
		if _, err := APIGroupInfos(c, nil); err == nil {
			t.Errorf("without %s: groups are made", name)
		}
	}
}
