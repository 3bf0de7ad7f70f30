package server

import (
	"fmt"
	"strings"
	"testing"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
)

// PO-15, CA-11: content is read as the body of a request is, in any version that is served: a condition sees the
// preferred version, with defaults. What cannot be read is a 422.
func (p *policyServer) content(t *testing.T) {
	p.admin.must(t, "POST", viewsIn("hammer", "roles"), roleYAML("scaler",
		`{verbs: [create], resourceKinds: [horizontalpodautoscalers], when: 'object.spec.metrics[0].resource.target.averageUtilization <= 80 && object.spec.minReplicas == 1'}`))
	p.admin.must(t, "POST", viewsIn("hammer", "rolebindings"), bindingYAML("scalers", "hammer", "scaler"))
	autoscaler := func(version, spec string) string {
		return fmt.Sprintf("verb: create, resourceKind: horizontalpodautoscalers.autoscaling, userName: edgar, "+
			"content: {apiVersion: autoscaling/%s, kind: HorizontalPodAutoscaler, metadata: {name: a}, spec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: web}%s}}", version, spec)
	}
	p.s.await("the role", func() (bool, error) {
		return p.admin.ask(t, "hammer", autoscaler("v1", ", targetCPUUtilizationPercentage: 70")).Allowed, nil
	})
	for spec, want := range map[string]bool{
		autoscaler("v1", ", targetCPUUtilizationPercentage: 90"):                                                                      false,
		autoscaler("v2", ", metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 70}}}]"): true,
		autoscaler("v2", ", metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 90}}}]"): false,
		autoscaler("v1", ", targetCPUUtilizationPercentage: 70, minReplicas: 2"):                                                      false,
	} {
		if status := p.admin.ask(t, "hammer", spec); status.Allowed != want {
			t.Errorf("%s: allowed is %v: %+v", spec, status.Allowed, status)
		}
	}
	for spec, want := range map[string]string{
		autoscaler("v7", ""):                    `no kind "HorizontalPodAutoscaler" is registered for version "autoscaling/v7"`,
		autoscaler("v2", ", maxReplicas: many"): "cannot be read as autoscaling/v2",
		"verb: create, resourceKind: pods, userName: edgar, content: {apiVersion: v1, kind: Secret}": "is Secret, but pods are Pod",
	} {
		code, message, _ := p.admin.do(t, "POST", viewsIn("hammer", "subjectaccessreviews"), "{apiVersion: authorization.proviso.dev/v1alpha1, kind: SubjectAccessReview, spec: {"+spec+"}}")
		if code != 422 || !strings.Contains(message, "spec.content") || !strings.Contains(message, want) {
			t.Errorf("%s:\n%d %s", spec, code, message)
		}
	}
}

// PO-15, PA-8: what the enforcer refuses whatever the chain says counts in a review with content, and shows in the
// trace.
func (p *policyServer) protected(t *testing.T) {
	p.admin.must(t, "POST", "/apis/policy.proviso.dev/v1alpha1/clusterprotectedattributes", "{apiVersion: policy.proviso.dev/v1alpha1, kind: ClusterProtectedAttribute, metadata: {name: env-prod}, "+
		"attributeKind: Label, attributeName: env, protectedValues: [prod], roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}}")
	question := func(env string) string {
		return "verb: create, resourceKind: configmaps, userName: edgar, trace: true, content: {metadata: {name: mine, labels: {env: " + env + "}}}"
	}
	p.s.await("the protection", func() (bool, error) { return !p.admin.ask(t, "hammer", question("prod")).Allowed, nil })
	status := p.admin.ask(t, "hammer", question("prod"))
	if status.Trace.DecidedBy != "protected-attributes" || status.Trace.Decision != authz.AnswerDeny || !strings.Contains(status.DenyReason, "env-prod") {
		t.Errorf("got %+v", status)
	}
	if status := p.admin.ask(t, "hammer", question("dev")); !status.Allowed || status.Trace.Decision != authz.AnswerAllow {
		t.Errorf("got %+v", status)
	}
}

// SV-6: the trace of the real chain names every authorizer in its order, and the grant that it suggests makes it
// allowed.
func (p *policyServer) explain(t *testing.T) {
	const question = "verb: get, resourceKind: secrets, resourceName: s, userName: edgar, trace: true"
	status := p.admin.ask(t, "hammer", question)
	var names []string
	for _, a := range status.Trace.Authorizers {
		names = append(names, a.Name)
	}
	if got := strings.Join(names, " "); got != "system-masters replicas policy-sync node-restriction policy-master policy-namespace node rbac access" {
		t.Errorf("the chain is %s", got)
	}
	if status.Allowed || status.Trace.Decision != authz.AnswerNoOpinion || status.Trace.Remedy == nil {
		t.Fatalf("got %+v", status)
	}
	role, binding, _ := strings.Cut(status.Trace.Remedy.Grant, "---\n")
	p.admin.must(t, "POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/hammer/roles", role)
	p.admin.must(t, "POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/hammer/rolebindings", binding)
	p.s.await("the grant", func() (bool, error) { return p.admin.ask(t, "hammer", question).Allowed, nil })
	status = p.admin.ask(t, "hammer", question)
	if last := status.Trace.Authorizers[len(names)-2]; status.Trace.DecidedBy != "rbac" || len(last.Rules) != 1 || !last.Rules[0].Decides || last.Rules[0].Subject.Name != "edgar" {
		t.Errorf("got %+v", status.Trace)
	}
	if other := p.admin.ask(t, "hammer", strings.Replace(question, "resourceName: s,", "resourceName: t,", 1)); other.Allowed {
		t.Error("the grant reaches another secret")
	}

	// A question about the policy of the master namespace is decided cluster-wide, and so is the grant (PO-6).
	status = p.admin.ask(t, "master", "verb: create, resourceKind: roles.authorization.proviso.dev, userName: edgar, trace: true")
	if !strings.Contains(status.Trace.Remedy.Grant, "kind: ClusterRoleBinding") {
		t.Errorf("got\n%s", status.Trace.Remedy.Grant)
	}
	status = p.admin.ask(t, "master", "verb: create, resourceKind: pods, userName: edgar, trace: true")
	if strings.Contains(status.Trace.Remedy.Grant, "Cluster") {
		t.Errorf("got\n%s", status.Trace.Remedy.Grant)
	}
}

// PO-15, CA-10: everybody may ask about themselves, and nobody about others without the right to; what they see is
// about them.
func (p *policyServer) self(t *testing.T) {
	edgar := newCaller(t, p.s.as("edgar", "team-a"))
	status := edgar.ask(t, "hammer", "verb: create, resourceKind: configmaps, trace: true")
	if status.Trace == nil || status.Trace.Decision != authz.AnswerConditional {
		t.Fatalf("got %+v", status)
	}
	for _, a := range status.Trace.Authorizers {
		for _, r := range a.Rules {
			if r.Subject.Name != "edgar" {
				t.Errorf("%s shows a rule of %s", a.Name, r.Subject.Name)
			}
		}
	}
	code, message, _ := edgar.do(t, "POST", viewsIn("hammer", "subjectaccessreviews"),
		"{apiVersion: authorization.proviso.dev/v1alpha1, kind: SubjectAccessReview, spec: {verb: get, resourceKind: pods, userName: hubert, trace: true}}")
	if code != 403 || !strings.Contains(message, "ask only about yourself") {
		t.Errorf("about somebody else: %d %s", code, message)
	}
}

// PO-12: who may delete bindings, and not deny, cannot take a deny away; who may deny, can. A binding that denies
// nothing needs the right to delete alone.
func (p *policyServer) unbind(t *testing.T) {
	p.admin.must(t, "POST", viewsIn("hammer", "roles"), roleYAML("no-secrets", "{deny: true, verbs: [get], resourceKinds: [secrets]}"))
	p.admin.must(t, "POST", viewsIn("hammer", "rolebindings"), bindingYAML("no-secrets", "hammer", "no-secrets"))
	p.admin.must(t, "POST", viewsIn("hammer", "rolebindings"), bindingYAML("spare", "hammer", "dev"))
	p.admin.must(t, "POST", viewsIn("hammer", "roles"), roleYAML("cleaner", "{verbs: [delete, update], resourceKinds: [rolebindings.authorization.proviso.dev]}"))
	p.admin.must(t, "POST", viewsIn("hammer", "rolebindings"), bindingYAML("cleaners", "hammer", "cleaner"))
	edgar := newCaller(t, p.s.as("edgar"))
	p.s.await("the role", func() (bool, error) {
		code, _, _ := edgar.do(t, "DELETE", viewsIn("hammer", "rolebindings")+"/spare", "")
		return code == 200, nil
	})
	const want = `needs the verb deny on roles.authorization.proviso.dev "no-secrets" in namespace hammer`
	if code, message, _ := edgar.do(t, "DELETE", viewsIn("hammer", "rolebindings")+"/no-secrets", ""); code != 403 || !strings.Contains(message, want) {
		t.Errorf("delete: %d %s", code, message)
	}
	if code, message, _ := edgar.do(t, "PUT", viewsIn("hammer", "rolebindings")+"/no-secrets", strings.Replace(bindingYAML("no-secrets", "hammer", "no-secrets"), "[edgar]", "[mallory]", 1)); code != 403 || !strings.Contains(message, want) {
		t.Errorf("update: %d %s", code, message)
	}
	p.admin.must(t, "PUT", viewsIn("hammer", "roles")+"/cleaner", roleYAML("cleaner",
		"{verbs: [delete, update], resourceKinds: [rolebindings.authorization.proviso.dev]}, {verbs: [deny], resourceKinds: [roles.authorization.proviso.dev], resourceNames: [no-secrets]}"))
	p.s.await("the verb deny", func() (bool, error) {
		code, _, _ := edgar.do(t, "DELETE", viewsIn("hammer", "rolebindings")+"/no-secrets", "")
		return code == 200, nil
	})
}
