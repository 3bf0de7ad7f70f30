package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// judge sends requests and looks at what a sink gets of them: requests that it must not get go first, so that they have
// been judged when the others arrive.
type judge struct {
	*seeds
	t    *testing.T
	at   *collector
	name string
	sent int
}

// request is one of them, and the level at which the sink must get it; none at all without one.
type request struct {
	by           *caller
	method, path string
	object       any
	level        string
}

// sink points a sink of the text, or a new one for a class, to a collector.
func (s *seeds) judge(t *testing.T, sinkName string, fresh m) *judge {
	t.Helper()
	j := &judge{seeds: s, t: t, at: collect(t, false), name: sinkName}
	if fresh != nil {
		fresh["spec"].(m)["webhook"] = j.at.webhook()
		s.caller().must("", "POST", auditSinks, fresh)
	} else {
		s.caller().must("", "PATCH", auditSinks+"/"+sinkName, m{"spec": m{"webhook": j.at.webhook()}})
	}
	t.Cleanup(func() { s.kubectl("delete", "auditsink", sinkName) })
	return j
}

// classSink is a sink that wants the metadata of one class.
func classSink(class string) m {
	return m{"apiVersion": auditGroup, "kind": "AuditSink", "metadata": m{"name": class}, "spec": m{"policy": m{"level": "None", "rules": []m{{"withAuditClass": class, "level": "Metadata"}}}}}
}

func (j *judge) send(r request) string {
	j.sent++
	id := fmt.Sprintf("%s-%d", j.name, j.sent)
	if code, answer := r.by.send(id, r.method, r.path, r.object); code == 0 || code >= 500 {
		j.t.Fatalf("%s %s: %d %s", r.method, r.path, code, answer)
	}
	return id
}

func (j *judge) want(requests ...request) {
	j.t.Helper()
	var wanted, unwanted []request
	for _, r := range requests {
		if r.level == "" {
			unwanted = append(unwanted, r)
		} else {
			wanted = append(wanted, r)
		}
	}
	// The sink takes effect soon after it was written.
	j.await("the sink to get events", func() bool { return len(j.at.of(j.send(wanted[0]))) > 0 })
	var never []string
	for _, r := range unwanted {
		never = append(never, j.send(r))
	}
	for _, r := range wanted {
		id := j.send(r)
		j.await("the event of "+r.method+" "+r.path, func() bool { return len(j.at.of(id)) > 0 })
		if e := j.at.of(id)[0]; string(e.Level) != r.level {
			j.t.Errorf("%s %s: level %s, want %s", r.method, r.path, e.Level, r.level)
		}
	}
	for i, id := range never {
		if len(j.at.of(id)) > 0 {
			j.t.Errorf("%s got %s %s", j.name, unwanted[i].method, unwanted[i].path)
		}
	}
}

const (
	inDefault = "/api/v1/namespaces/default/"
	inVault   = "/api/v1/namespaces/vault/"
)

func generated() m {
	return m{"apiVersion": "v1", "kind": "ConfigMap", "metadata": m{"generateName": "c-"}}
}

func (s *seeds) sinkAndClass(t *testing.T) {
	s.kubectl("apply", "-f", seedFile("audit/01-sink-and-class.yaml"))
	master, clark := s.caller(), s.ownCaller("Clark")
	s.judge(t, "mysink", nil).want(
		request{clark, "GET", inDefault + "configmaps", nil, ""},
		request{master, "GET", inDefault + "configmaps", nil, ""},
		request{master, "POST", inDefault + "configmaps", generated(), "Metadata"},
	)
}

func (s *seeds) minimalPolicy(t *testing.T) {
	s.kubectl("apply", "-f", seedFile("audit/02-minimal-policy.yaml"))
	s.judge(t, "minimal", nil).want(
		request{s.ownCaller("Clark"), "GET", inDefault + "configmaps", nil, "Metadata"},
		request{s.ownCaller("nobody"), "POST", inDefault + "configmaps", generated(), "Metadata"},
		request{s.caller(), "GET", "/version", nil, "Metadata"},
	)
}

// compiledPolicy: the policy of the sink before "translates in audit.k8s.io/v1 terms into" this one, and back (DA-5).
func (s *seeds) compiledPolicy(t *testing.T) {
	convert := func(file string) any {
		out, err := exec.Command(binary(t), "audit", "convert", "-f", seedFile(file)).Output()
		var object any
		if err == nil {
			err = yaml.Unmarshal(out, &object)
		}
		if err != nil {
			t.Fatalf("%s: %v\n%s", file, err, out)
		}
		return object
	}
	policy := fmt.Sprint(convert("audit/02-minimal-policy.yaml"))
	if !strings.Contains(policy, "kind:Policy") || !strings.Contains(policy, "rules:[map[level:Metadata") {
		t.Errorf("%s", policy)
	}
	if sink := fmt.Sprint(convert("audit/03-minimal-policy-compiled.yaml")); !strings.Contains(sink, "kind:AuditSink") || !strings.Contains(sink, "policy:map[level:Metadata]") {
		t.Errorf("%s", sink)
	}
}

func (s *seeds) sampleClass(t *testing.T) {
	s.kubectl("apply", "-f", seedFile("audit/04-sample-class.yaml"))
	admin := s.caller()
	s.judge(t, "sample", classSink("sample")).want(
		request{admin, "GET", inDefault + "secrets", nil, ""},
		request{admin, "GET", inVault + "configmaps", nil, ""},
		request{admin, "GET", inVault + "secrets", nil, "Metadata"},
	)
}

func (s *seeds) selectors(t *testing.T) {
	s.kubectl("apply", "-f", seedFile("audit/05-selectors.yaml"))
	clark := s.ownCaller("Clark")
	const services = "/api/v1/namespaces/my-namespace/services/"
	for class, requests := range map[string][]request{
		"api-verbs":  {{clark, "GET", inDefault + "configmaps", nil, ""}, {clark, "POST", inDefault + "configmaps", generated(), "Metadata"}},
		"http-verbs": {{clark, "DELETE", inDefault + "configmaps/x", nil, ""}, {clark, "POST", "/version", nil, "Metadata"}, {clark, "GET", "/version", nil, "Metadata"}},
		"resources": {{clark, "GET", services + "other", nil, ""}, {clark, "GET", inDefault + "services/my-service", nil, ""},
			{clark, "GET", services + "my-service", nil, "Metadata"}, {clark, "GET", "/api/v1/namespaces/my-namespace/endpoints", nil, "Metadata"}},
		"urls": {{clark, "GET", "/healthz", nil, ""}, {clark, "GET", "/version", nil, "Metadata"}, {clark, "GET", "/apis", nil, "Metadata"}},
	} {
		t.Run(class, func(t *testing.T) { s.judge(t, class, classSink(class)).want(requests...) })
	}
	// The subjects of an event are those who authenticated, so that nobody who acts as somebody else counts as him.
	t.Run("subjects", func(t *testing.T) {
		s.judge(t, "subjects", classSink("subjects")).want(
			request{s.ownCaller("Clark"), "GET", "/version", nil, ""},
			request{s.ownCaller("admin"), "GET", "/version", nil, "Metadata"},
			request{s.caller(), "GET", "/version", nil, "Metadata"},
		)
	})
}

func (s *seeds) example1(t *testing.T) {
	s.kubectl("apply", "-f", seedFile("audit/06-example-1.yaml"))
	clark, proxy := s.ownCaller("Clark"), s.ownCaller("system:kube-proxy")
	s.judge(t, "mysink", nil).want(
		request{clark, "GET", inDefault + "configmaps/controller-leader", nil, ""},
		request{proxy, "GET", "/api/v1/services?watch=true&timeoutSeconds=1", nil, ""},
		request{clark, "GET", "/version", nil, ""},
		request{clark, "POST", inDefault + "configmaps", generated(), "Request"},
		request{clark, "GET", "/healthz", nil, "Request"},
		request{clark, "GET", "/api/v1/namespaces/kube-system/secrets", nil, "Metadata"},
		request{s.caller(), "POST", inDefault + "configmaps", generated(), "Metadata"},
	)
}

// ownCaller makes requests with a certificate of its own.
func (s *seeds) ownCaller(user string) *caller {
	return s.callerFrom(s.person(user).kubeconfig)
}
