package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"proviso.dev/proviso/internal/state/journal"
)

const policyRoles = "/apis/authorization.proviso.dev/v1alpha1/namespaces/%s/%s"

// openPolicy lets a namespace hold roles of Policy.
func (f *fieldWorld) openPolicy(t *testing.T, namespace string) {
	t.Helper()
	f.admin(t, http.MethodPost, containersIn(namespace, "policies"), "application/yaml", policyYAML(namespace, "default"))
	f.admin(t, http.MethodPost, containersIn(namespace, "policybindings"), "application/yaml", "{apiVersion: policy.proviso.dev/v1alpha1, kind: PolicyBinding, metadata: {name: "+namespace+"}}")
}

// HF-2: a reveal in one namespace, and one under a condition, show what they are about and nothing else.
func TestRevealForSomeObjects(t *testing.T) {
	f, s := hiding(t)
	for _, ns := range []string{"revealed", "concealed"} {
		f.namespace(t, ns)
		for _, open := range []string{"yes", "no"} {
			f.admin(t, http.MethodPost, "/api/v1/namespaces/"+ns+"/secrets", jsonBody, `{"metadata":{"name":"`+open+`","labels":{"open":"`+open+`"}},"data":{"a":"`+"c2VjcmV0"+`"}}`)
		}
	}
	f.openPolicy(t, "revealed")
	f.grant(t, "partly", []string{""}, []string{"secrets"}, "get", "list", "watch", "update")
	f.admin(t, http.MethodPost, fmt.Sprintf(policyRoles, "revealed", "roles"), "application/yaml",
		`{apiVersion: authorization.proviso.dev/v1alpha1, kind: Role, metadata: {name: open}, rules: [{verbs: ["reveal:example.com/secretdata"], resourceKinds: [secrets], where: 'resource.metadata.labels["open"] == "yes"'}]}`)
	f.admin(t, http.MethodPost, fmt.Sprintf(policyRoles, "revealed", "rolebindings"), "application/yaml",
		`{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: open}, roleRef: {namespace: revealed, name: open}, userNames: [partly]}`)
	client := kubernetes.NewForConfigOrDie(s.as("partly"))
	seen := func(ns string) string {
		list, err := client.CoreV1().Secrets(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "open"})
		if err != nil {
			return err.Error()
		}
		var names []string
		for _, one := range list.Items {
			if len(one.Data) > 0 {
				names = append(names, one.Namespace+"/"+one.Name)
			}
		}
		return strings.Join(names, ",")
	}
	f.settled(t, "the right", func() bool { return seen("revealed") == "revealed/yes" })
	if got := seen(""); got != "revealed/yes" {
		t.Errorf("all namespaces: %s", got)
	}
	if got := seen("concealed"); got != "" {
		t.Errorf("another namespace: %s", got)
	}
	for name, want := range map[string]int{"yes": 1, "no": 0} {
		if one, err := client.CoreV1().Secrets("revealed").Get(t.Context(), name, metav1.GetOptions{}); err != nil || len(one.Data) != want {
			t.Errorf("%s: %v %v", name, one.Data, err)
		}
	}
}

// HF-7: nodes and Kubernetes' own controllers see what they need.
func TestExemptFromHiddenFields(t *testing.T) {
	f, s := hiding(t)
	f.namespace(t, "exempt")
	f.admin(t, http.MethodPost, "/api/v1/namespaces/exempt/secrets", jsonBody, `{"metadata":{"name":"mounted"},"data":{"a":"c2VjcmV0"}}`)
	f.admin(t, http.MethodPost, "/api/v1/namespaces/exempt/pods", jsonBody, `{"metadata":{"name":"p"},"spec":{"nodeName":"n1","automountServiceAccountToken":false,
		"containers":[{"name":"c","image":"i","env":[{"name":"A","value":"secret"}]}],"volumes":[{"name":"v","secret":{"secretName":"mounted"}}]}}`)
	node := kubernetes.NewForConfigOrDie(s.as("system:node:n1", "system:nodes", "system:authenticated"))
	s.await("the node", func() (bool, error) {
		one, err := node.CoreV1().Secrets("exempt").Get(t.Context(), "mounted", metav1.GetOptions{})
		if err != nil {
			return false, nil //nolint:nilerr // it is asked again
		}
		if string(one.Data["a"]) != "secret" {
			t.Fatalf("the node sees %v", one.Data)
		}
		return true, nil
	})
	const controller = "system:serviceaccount:kube-system:replicaset-controller"
	f.grant(t, "system:serviceaccount:kube-system:other", []string{""}, []string{"pods"}, "get")
	for user, want := range map[string]string{controller: "secret", "system:serviceaccount:kube-system:other": ""} {
		client := kubernetes.NewForConfigOrDie(s.as(user, "system:serviceaccounts", "system:authenticated"))
		if user == controller {
			f.grant(t, "exempt-controller", []string{""}, []string{"pods"}, "get")
			f.admin(t, http.MethodPatch, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/fields-exempt-controller", mergePatch,
				`{"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"`+controller+`"}]}`)
		}
		s.await(user, func() (bool, error) {
			pod, err := client.CoreV1().Pods("exempt").Get(t.Context(), "p", metav1.GetOptions{})
			if err != nil {
				return false, nil //nolint:nilerr // it is asked again
			}
			if got := pod.Spec.Containers[0].Env[0].Value; got != want {
				t.Errorf("%s sees %q", user, got)
			}
			return true, nil
		})
	}
}

// HF-5: a rule whose condition may read a hidden field takes the right to see it.
func TestRulesThatReadHiddenFields(t *testing.T) {
	f, _ := hiding(t)
	f.namespace(t, "rulers")
	f.openPolicy(t, "rulers")
	for user, more := range map[string]string{"ruler": "list", "sightedruler": "reveal:example.com/secretdata"} {
		f.grant(t, user, []string{"", "authorization.proviso.dev"}, []string{"secrets", "roles"}, "get", "create", more)
		f.settled(t, "the rights", func() bool { return f.may(t, user, "authorization.proviso.dev", "roles", more) })
	}
	write := func(user, name, where string) answer {
		return f.as(t, user, http.MethodPost, fmt.Sprintf(policyRoles, "rulers", "roles"), jsonBody,
			fmt.Sprintf(`{"apiVersion":"authorization.proviso.dev/v1alpha1","kind":"Role","metadata":{"name":%q},"rules":[{"verbs":["get"],"resourceKinds":["secrets"],"where":%q}]}`, name, where))
	}
	refused(t, "a rule that reads the data", write("ruler", "a", `resource.data["a"] == b"secret"`), "reveal:example.com/secretdata")
	refused(t, "a rule that may read it", write("ruler", "b", `resource == resource`), "reveal:example.com/secretdata")
	allowed(t, "another rule", write("ruler", "c", `resource.type == "Opaque"`))
	allowed(t, "a rule of who sees", write("sightedruler", "d", `resource.data["a"] == b"secret"`))
}

// HF-8: sinks get events without hidden fields, whoever made the request.
func TestSinksDoNotGetHiddenFields(t *testing.T) {
	f, _ := hiding(t)
	f.namespace(t, "sunk")
	var mu sync.Mutex
	var got strings.Builder
	sink := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got.Write(text)
	}))
	defer sink.Close()
	f.admin(t, http.MethodPost, "/apis/auditregistration.k8s.io/v1alpha1/auditsinks", "application/yaml",
		`{apiVersion: auditregistration.k8s.io/v1alpha1, kind: AuditSink, metadata: {name: hidden}, spec: {policy: {level: RequestResponse, stages: [ResponseComplete]}, webhook: {clientConfig: {url: "`+sink.URL+`"}}}}`)
	defer f.admin(t, http.MethodDelete, "/apis/auditregistration.k8s.io/v1alpha1/auditsinks/hidden", jsonBody, "")
	said := func(text string) bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Contains(got.String(), text)
	}
	i := 0
	f.settled(t, "the sink", func() bool {
		i++
		f.admin(t, http.MethodPost, "/api/v1/namespaces/sunk/secrets", jsonBody, fmt.Sprintf(`{"metadata":{"name":"s%d"},"type":"example.com/marked","data":{"a":"c2VjcmV0"}}`, i))
		f.admin(t, http.MethodPatch, fmt.Sprintf("/api/v1/namespaces/sunk/secrets/s%d", i), jsonPatch, `[{"op":"add","path":"/data/a","value":"c2VjcmV0"}]`)
		f.admin(t, http.MethodGet, "/api/v1/namespaces/sunk/secrets", jsonBody, "")
		return said("example.com/marked") && said("SecretList")
	})
	text, _ := json.Marshal(got.String())
	if said("c2VjcmV0") || !said(`proviso.dev/hidden`) {
		t.Errorf("the sink got %.3000s", text)
	}
}

// HF-2: the journal of policy shows a binding only to who may see all of its fields.
func TestTheJournalHidesFields(t *testing.T) {
	f, _ := hiding(t)
	f.apply(t, fieldsGroup+"/subjects", fmt.Sprintf(hidingRules, "subjects", "clusterrolebindings.rbac.authorization.k8s.io", ".subjects", "subjects", "Nothing"))
	defer f.admin(t, http.MethodDelete, fieldsGroup+"/subjects", jsonBody, "")
	group, bindings := []string{"rbac.authorization.k8s.io"}, []string{"clusterrolebindings"}
	f.grant(t, "journal-blind", group, bindings, "get")
	f.grant(t, "journal-sighted", group, bindings, "get", "reveal:example.com/subjects")
	const binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
	f.admin(t, http.MethodPost, binding, jsonBody, `{"metadata":{"name":"in-the-journal"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},
"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"a-hidden-name"}]}`)
	shown := func(user, path string) string {
		text, _ := json.Marshal(f.as(t, user, http.MethodGet, path, jsonBody, "").body)
		return string(text)
	}
	f.settled(t, "the rights and the hidden field", func() bool {
		return strings.Contains(shown("journal-sighted", journal.Path), "a-hidden-name") &&
			strings.Contains(shown("journal-blind", binding+"/in-the-journal"), "in-the-journal") && !strings.Contains(shown("journal-blind", binding+"/in-the-journal"), "a-hidden-name")
	})
	if got := shown("journal-blind", journal.Path); !strings.Contains(got, "PolicyHistory") || strings.Contains(got, "a-hidden-name") {
		t.Errorf("the journal shows %s", got)
	}
}

// TM-5, HF-2: a watch over all namespaces, of which one is revealed, ends with 410 when that right ends, and shows
// nothing by it afterwards.
func TestRevealEndsInWatches(t *testing.T) {
	f, s := hiding(t)
	f.namespace(t, "revealends")
	f.grant(t, "overseer", []string{""}, []string{"secrets"}, "get", "list", "watch")
	const rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/revealends/"
	f.apply(t, rbac+"roles/reveal", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"reveal"},"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["reveal:example.com/secretdata"]}]}`)
	f.apply(t, rbac+"rolebindings/reveal", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"reveal"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"reveal"},
		"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"overseer"}]}`)
	create := func(name string) {
		f.admin(t, http.MethodPost, "/api/v1/namespaces/revealends/secrets", jsonBody, `{"metadata":{"name":"`+name+`"},"data":{"a":"c2VjcmV0"}}`)
	}
	create("first")
	overseer := kubernetes.NewForConfigOrDie(s.as("overseer")).CoreV1().Secrets("")
	var from string
	f.settled(t, "the rights", func() bool {
		list, err := overseer.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.namespace=revealends"})
		if err != nil || len(list.Items) != 1 || len(list.Items[0].Data) == 0 {
			return false
		}
		from = list.ResourceVersion
		return true
	})
	w, err := overseer.Watch(t.Context(), metav1.ListOptions{ResourceVersion: from, FieldSelector: "metadata.namespace=revealends"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	next := func() any {
		select {
		case e := <-w.ResultChan():
			return e.Object
		case <-time.After(30 * time.Second):
			t.Fatal("nothing comes")
		}
		return nil
	}
	create("second")
	if secret, ok := next().(*corev1.Secret); !ok || len(secret.Data) == 0 {
		t.Errorf("before: %v", secret)
	}
	f.admin(t, http.MethodDelete, rbac+"rolebindings/reveal", jsonBody, "")
	if status, ok := next().(*metav1.Status); !ok || status.Code != http.StatusGone {
		t.Errorf("afterwards: %v", status)
	}
}
