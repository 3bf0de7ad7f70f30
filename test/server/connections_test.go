package server

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	"proviso.dev/proviso/client/accessreviews"
)

const connectionsPolicy = `
{apiVersion: v1, kind: Namespace, metadata: {name: reach}}
---
{apiVersion: policy.proviso.dev/v1alpha1, kind: Policy, metadata: {name: default, namespace: reach}}
---
{apiVersion: policy.proviso.dev/v1alpha1, kind: PolicyBinding, metadata: {name: reach, namespace: reach}}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: debuggers, namespace: reach}
rules:
- {verbs: [exec], resourceKinds: [pods/exec], description: only ps, when: 'options.command == ["ps"] && target.metadata.labels.debug == "yes"'}
- {verbs: [exec], resourceKinds: [pods/attach, pods/portforward], when: 'target.metadata.labels.debug == "yes"'}
- {verbs: [proxy], resourceKinds: [pods, services], when: 'target.metadata.labels.debug == "yes"'}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: careful, namespace: reach}
rules:
- {verbs: [exec], resourceKinds: [pods]}
- {deny: true, verbs: [exec], resourceKinds: [pods], when: 'has(target.metadata.labels) && "closed" in target.metadata.labels'}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: lookers, namespace: reach}
rules:
- {verbs: [exec, get], resourceKinds: [pods, pods/exec], where: 'resource.metadata.labels.debug == "yes" && resource.spec.containers[0].name == "c"'}
- {verbs: ['*'], resourceKinds: [pods/proxy], where: 'resource.metadata.labels.debug == "yes"'}
- {verbs: [proxy], resourceKinds: [services], where: 'resource.metadata.labels.debug == "yes" && resource.spec.ports[0].port == 80'}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: wanderers, namespace: reach}
rules:
- {verbs: ['*'], resourceKinds: ['*'], where: 'resource.metadata.labels.debug == "yes"'}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: cautious, namespace: reach}
rules:
- {verbs: [exec, proxy], resourceKinds: [pods]}
- {deny: true, verbs: [exec], resourceKinds: [pods], where: 'has(resource.metadata.labels) && "closed" in resource.metadata.labels'}
- {deny: true, verbs: [create], resourceKinds: ['pods/*', -pods/exec], where: 'has(resource.metadata.labels) && "closed" in resource.metadata.labels'}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: reach-nodes, namespace: master}
rules:
- {verbs: [proxy], resourceKinds: [nodes], when: 'target.metadata.labels.debug == "yes"'}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: reach-where, namespace: master}
rules:
- {verbs: [proxy], resourceKinds: [nodes], where: 'resource.metadata.labels.debug == "yes"'}
---
{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: debuggers, namespace: reach}, roleRef: {namespace: reach, name: debuggers}, userNames: [reach-dora]}
---
{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: careful, namespace: reach}, roleRef: {namespace: reach, name: careful}, userNames: [reach-carl]}
---
{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: reach-nodes, namespace: master}, roleRef: {namespace: master, name: reach-nodes}, userNames: [reach-dora]}
---
{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: lookers, namespace: reach}, roleRef: {namespace: reach, name: lookers}, userNames: [reach-luis]}
---
{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: wanderers, namespace: reach}, roleRef: {namespace: reach, name: wanderers}, userNames: [reach-wim]}
---
{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: cautious, namespace: reach}, roleRef: {namespace: reach, name: cautious}, userNames: [reach-cora]}
---
{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: reach-where, namespace: master}, roleRef: {namespace: master, name: reach-where}, userNames: [reach-luis]}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: reach}}
---
{apiVersion: v1, kind: Pod, metadata: {name: open, namespace: reach, labels: {debug: "yes"}}, spec: {containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: shut, namespace: reach, labels: {debug: "no", closed: ""}}, spec: {containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: bare, namespace: reach}, spec: {containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: open, namespace: reach, labels: {debug: "yes"}}, spec: {ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: shut, namespace: reach}, spec: {ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: reach-open, labels: {debug: "yes"}}, status: {addresses: [{type: InternalIP, address: 127.0.0.1}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: reach-shut, labels: {debug: "no"}}, status: {addresses: [{type: InternalIP, address: 127.0.0.1}]}}
`

// dial sends a connect request and returns the answer.
func dial(t *testing.T, config *rest.Config, method, path string) (int, string) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, config.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var status metav1.Status
	_ = json.Unmarshal(body, &status)
	return resp.StatusCode, status.Message
}

// CA-26: conditions on connections see what they go to, in the state that the handler reads. What does not meet them is
// answered as what does not exist.
func TestConnectionsSeeTheirTarget(t *testing.T) {
	t.Parallel()
	notBeside(t, "conditions about the target of a connection do not allow")
	s := plain.get(t)
	newExamples(t, s).createAll(t, connectionsPolicy)
	dora, carl := s.as("reach-dora"), s.as("reach-carl")
	const pods, services = "/api/v1/namespaces/reach/pods/", "/api/v1/namespaces/reach/services/"
	s.await("the policy to be in effect", func() (bool, error) {
		exec, _ := dial(t, dora, http.MethodPost, pods+"open/exec?command=ps")
		node, _ := dial(t, dora, http.MethodGet, "/api/v1/nodes/reach-open/proxy/")
		denied, _ := dial(t, carl, http.MethodPost, pods+"open/exec?command=sh")
		return exec != http.StatusForbidden && node != http.StatusForbidden && denied != http.StatusForbidden, nil
	})
	// Nothing runs there: what is let through fails later, with another answer than 403 and 404.
	passes := func(config *rest.Config, method, path string) {
		t.Helper()
		if code, said := dial(t, config, method, path); code == http.StatusForbidden || code == http.StatusNotFound {
			t.Errorf("%s %s: got %d %s", method, path, code, said)
		}
	}
	// hides wants the answer of a name that does not exist.
	hides := func(config *rest.Config, method, base, name, rest string) {
		t.Helper()
		code, said := dial(t, config, method, base+name+rest)
		missing, saidOf := dial(t, config, method, base+"none"+rest)
		if code != http.StatusNotFound || missing != code || strings.ReplaceAll(saidOf, `"none"`, `"`+name+`"`) != said {
			t.Errorf("%s %s%s%s: got %d %s; what does not exist: %d %s", method, base, name, rest, code, said, missing, saidOf)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		for _, rest := range []string{"/exec?command=ps", "/attach?stdout=true", "/portforward", "/proxy/"} {
			passes(dora, method, pods+"open"+rest)
			hides(dora, method, pods, "shut", rest)
			hides(dora, method, pods, "bare", rest) // it has no labels: the condition fails
		}
		passes(dora, method, services+"open/proxy/")
		passes(dora, method, services+"http:open:80/proxy/")
		hides(dora, method, services, "shut", "/proxy/")
		passes(dora, method, "/api/v1/nodes/reach-open/proxy/")
		hides(dora, method, "/api/v1/nodes/", "reach-shut", "/proxy/")
		passes(carl, method, pods+"open/exec?command=sh")
		hides(carl, method, pods, "shut", "/exec?command=sh")
		// What the options decide is refused without looking.
		if code, said := dial(t, dora, method, pods+"open/exec?command=sh"); code != http.StatusForbidden || !strings.Contains(said, "only ps") {
			t.Errorf("%s exec of sh: got %d %s", method, code, said)
		}
	}
	t.Run("where", func(t *testing.T) { connectionsWhere(t, s, passes, hides) })

	// The state counts that is read.
	admin := kubernetes.NewForConfigOrDie(s.admin).CoreV1().Pods("reach")
	_, err := admin.Patch(t.Context(), "shut", types.MergePatchType, []byte(`{"metadata":{"labels":{"debug":"yes"}}}`), metav1.PatchOptions{})
	fine(t, "label", err)
	passes(dora, http.MethodPost, pods+"shut/exec?command=ps")

	t.Run("reviews", func(t *testing.T) { reviewsOfConnections(t, s) })
}

// CA-26: a where is about the target on a connection that its rule names, and false on one that it reaches by a
// wildcard.
func connectionsWhere(t *testing.T, s *instance, passes func(*rest.Config, string, string), hides func(*rest.Config, string, string, string, string)) {
	luis, wim, cora := s.as("reach-luis"), s.as("reach-wim"), s.as("reach-cora")
	const pods, services = "/api/v1/namespaces/reach/pods/", "/api/v1/namespaces/reach/services/"
	refuses := func(config *rest.Config, method, path string) {
		t.Helper()
		if code, said := dial(t, config, method, path); code != http.StatusForbidden {
			t.Errorf("%s %s: got %d %s, want 403", method, path, code, said)
		}
	}
	s.await("the policy of where to be in effect", func() (bool, error) {
		node, _ := dial(t, luis, http.MethodGet, "/api/v1/nodes/reach-open/proxy/")
		exec, _ := dial(t, luis, http.MethodPost, pods+"open/exec?command=ps")
		get, _ := dial(t, wim, http.MethodGet, pods+"open")
		proxy, _ := dial(t, cora, http.MethodPost, pods+"shut/exec?command=ps")
		return node != http.StatusForbidden && exec != http.StatusForbidden && get == http.StatusOK && proxy == http.StatusNotFound, nil
	})
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		for _, rest := range []string{"/exec?command=ps", "/attach?stdout=true", "/portforward", "/proxy/"} {
			passes(luis, method, pods+"open"+rest)
			hides(luis, method, pods, "shut", rest)
			hides(luis, method, pods, "bare", rest) // it has no labels: the condition fails
			refuses(wim, method, pods+"open"+rest)  // by a wildcard
		}
		passes(luis, method, services+"open/proxy/")
		hides(luis, method, services, "shut", "/proxy/")
		refuses(wim, method, services+"open/proxy/")
		passes(luis, method, "/api/v1/nodes/reach-open/proxy/")
		hides(luis, method, "/api/v1/nodes/", "reach-shut", "/proxy/")
		passes(cora, method, pods+"open/exec?command=sh")
		hides(cora, method, pods, "shut", "/exec?command=sh")
		refuses(cora, method, pods+"open/proxy/") // a deny by a wildcard holds
	}
	// The object is the object as before, in the same rule.
	for path, want := range map[string]int{"open": http.StatusOK, "shut": http.StatusNotFound, "none": http.StatusNotFound} {
		if code, said := dial(t, luis, http.MethodGet, pods+path); code != want {
			t.Errorf("get %s: got %d %s, want %d", path, code, said, want)
		}
	}
}

// CA-26, CA-27: a review says the condition, and the client reads it.
func reviewsOfConnections(t *testing.T, s *instance) {
	for user, want := range map[string]string{
		"reach-dora": `target.metadata.labels.debug == \"yes\"`,
		"reach-luis": `target.spec.containers[0].name == \"c\"`,
	} {
		reviewOfConnection(t, s, user, want)
	}
}

func reviewOfConnection(t *testing.T, s *instance, user, want string) {
	t.Helper()
	client, err := accessreviews.New(s.as(user))
	fine(t, "client", err)
	answer, err := client.Self(t.Context(), &reviewv1.SelfSubjectAccessReview{Spec: reviewv1.SelfSubjectAccessReviewSpec{
		SelfSubjectAccessReviewSpec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "create", Version: "v1", Resource: "pods", Subresource: "exec", Namespace: "reach", Name: "open"}},
		Question: reviewv1.Question{ConditionalAuthorization: &reviewv1.ConditionalAuthorization{Mode: reviewv1.HumanReadable}},
	}})
	fine(t, "review", err)
	text, _ := json.Marshal(answer.Status)
	if answer.Status.Allowed || len(answer.Status.ConditionsChain) != 1 || !strings.Contains(string(text), want) {
		t.Errorf("got %s", text)
	}
}
