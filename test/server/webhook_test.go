package server

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/hosts/apiserver"
)

// conditionalHook allows its users config maps of env dev, as CEL, and secrets by a condition that only it understands.
type conditionalHook struct {
	reviews, conditions atomic.Int64
	lastObject          atomic.Value
}

func (h *conditionalHook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/conditions" {
		h.conditions.Add(1)
		h.lastObject.Store(string(body))
		if strings.Contains(string(body), `"operation":"IMPERSONATE"`) {
			_, _ = fmt.Fprintf(w, `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"AuthorizationConditionsReview","response":{"allowed":%v,"status":{"message":"only secrets"}}}`,
				strings.Contains(string(body), `"impersonatedRequest":{"verb":"get","apiVersion":"v1","resource":"secrets"`))
			return
		}
		_, _ = fmt.Fprintf(w, `{"apiVersion":"authorization.k8s.io/v1alpha1","kind":"AuthorizationConditionsReview","response":{"allowed":%v}}`,
			strings.Contains(string(body), `"good":"yes"`))
		return
	}
	h.reviews.Add(1)
	condition := ""
	switch {
	case strings.Contains(string(body), `"resource":"podtemplates"`) && strings.Contains(string(body), `"verb":"create"`): // asked for or not
		condition = `{"id":"only-good","effect":"Allow","type":"k8s.io/authorization-cel","condition":"object.metadata.labels.good == 'yes'"}`
	case !strings.Contains(string(body), `"conditionalAuthorization"`):
	case strings.Contains(string(body), `"resource":"endpoints"`):
		condition = `{"id":"not a label key","effect":"Deny","type":"k8s.io/authorization-cel","condition":"true"}`
	case strings.Contains(string(body), `"resource":"serviceaccounts"`) && strings.Contains(string(body), `"verb":"granular"`):
		condition = `{"id":"hook.example.com/try","effect":"Allow","type":"k8s.io/authorization-cel","condition":"true"}`
	case strings.Contains(string(body), `"resource":"serviceaccounts"`) && strings.Contains(string(body), `"verb":"granular:labels"`):
		condition = `{"id":"hook.example.com/core","effect":"Allow","type":"k8s.io/authorization-cel","condition":"object.metadata.labels.team == 'core'"}`
	case strings.Contains(string(body), `"verb":"granular`):
	case strings.Contains(string(body), `"resource":"configmaps"`):
		condition = `{"id":"hook.example.com/dev","effect":"Allow","type":"k8s.io/authorization-cel","condition":"object.data.env == 'dev'","description":"only env dev"}`
	case strings.Contains(string(body), `"resource":"secrets"`):
		condition = `{"id":"hook.example.com/good","effect":"Allow","type":"hook.example.com/label","condition":"good=yes"}`
	}
	if strings.Contains(string(body), `"verb":"impersonate"`) && strings.Contains(string(body), `"conditionalAuthorization"`) {
		// The answer of the design, as it is written there.
		set := `{"type":"k8s.io/authorization-cel","id":"lucas-only-impersonate-node-get-pods","effect":"Allow",` +
			`"condition":"impersonatedRequest.apiGroup == '' && impersonatedRequest.resource == 'pods' && impersonatedRequest.verb == 'get'"}`
		if strings.Contains(string(body), `"name":"opaque"`) {
			set = `{"type":"hook.example.com/own","id":"own","effect":"Allow","condition":"x"}`
		}
		_, _ = fmt.Fprintf(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":false,"conditionsChain":[{"conditionsSet":[%s]}]}}`, set)
		return
	}
	if condition != "" {
		condition = `,"conditionsChain":[{"conditions":[` + condition + `]}]`
	}
	_, _ = fmt.Fprintf(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":false%s}}`, condition)
}

// hookFiles writes a kubeconfig with a context for each endpoint and returns the text of an authorization
// configuration.
func hookFiles(t *testing.T, server *httptest.Server, dir string) string {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	var clusters, contexts []any
	for _, name := range []string{"reviews", "conditions"} {
		clusters = append(clusters, map[string]any{"name": name, "cluster": map[string]any{"server": server.URL + "/" + name, "certificate-authority-data": ca}})
		contexts = append(contexts, map[string]any{"name": name, "context": map[string]any{"cluster": name}})
	}
	kubeconfig, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Config", "current-context": "reviews", "clusters": clusters, "contexts": contexts})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "hook.kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	return withoutHook + fmt.Sprintf(`
- type: Webhook
  name: hook
  webhook:
    conditionsEndpointKubeConfigContext: conditions
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: %q}
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    matchConditions: [{expression: "request.user == 'hooked'"}]
    failurePolicy: Deny
    timeout: 10s
    authorizedTTL: 5m
    unauthorizedTTL: 5m
`, path)
}

const withoutHook = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- {type: RBAC, name: rbac}`

// TestWebhookConditions: conditions of a webhook are enforced in admission, and the file that names the webhook is
// followed (CA-17).
func TestWebhookConditions(t *testing.T) {
	hook := &conditionalHook{}
	listener := httptest.NewTLSServer(hook)
	defer listener.Close()
	dir := t.TempDir()
	config := hookFiles(t, listener, dir)
	file := filepath.Join(dir, "authorization.yaml")
	write := func(text string) {
		t.Helper()
		// By renaming, so that no half of a file is ever read.
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write(config)
	s := start(t, func(o *apiserver.Options) { o.Kube.Authorization.AuthorizationConfigurationFile = file })
	ctx := t.Context()
	client, err := kubernetes.NewForConfig(s.as("hooked"))
	if err != nil {
		t.Fatal(err)
	}
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	configMap := func(env string) error {
		_, err := client.CoreV1().ConfigMaps("kube-system").Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "c-"}, Data: map[string]string{"env": env},
		}, dryRun)
		return err
	}
	s.await("the namespace", func() (bool, error) {
		err := configMap("dev")
		return err == nil, nil
	})
	secret := func(good string) error {
		_, err := client.CoreV1().Secrets("kube-system").Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "s-", Labels: map[string]string{"good": good}},
		}, dryRun)
		return err
	}

	t.Run("built-in type", func(t *testing.T) {
		before := hook.reviews.Load()
		if err := configMap("dev"); err != nil {
			t.Error(err)
		}
		err := configMap("prod")
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `condition "hook.example.com/dev" was not met: only env dev`) {
			t.Errorf("got %v", err)
		}
		// The refused one asked once more, for the verb granular (FP-6); the verb of the request itself comes from the
		// cache.
		if hook.reviews.Load() != before+1 || hook.conditions.Load() != 0 {
			t.Errorf("a cached answer with a condition of the built-in type made %d and %d calls", hook.reviews.Load()-before, hook.conditions.Load())
		}
	})

	t.Run("the webhook's own type", func(t *testing.T) {
		if err := secret("yes"); err != nil {
			t.Error(err)
		}
		if err := secret("no"); !apierrors.IsForbidden(err) {
			t.Errorf("got %v", err)
		}
		if n := hook.conditions.Load(); n != 2 {
			t.Errorf("the conditions endpoint was called %d times, want 2", n)
		}
		for _, want := range []string{`"apiVersion":"v1"`, `"kind":"Secret"`, `"operation":"CREATE"`, `"authorizerName":"hook"`, `"kind":"CreateOptions"`} {
			if got, _ := hook.lastObject.Load().(string); !strings.Contains(got, want) {
				t.Errorf("%s is missing in %s", want, got)
			}
		}
	})

	// FP-8: a webhook may give field permissions under conditions too.
	t.Run("field permissions", func(t *testing.T) {
		account := func(team string, annotations map[string]string) error {
			_, err := client.CoreV1().ServiceAccounts("kube-system").Create(ctx, &corev1.ServiceAccount{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "a-", Labels: map[string]string{"team": team}, Annotations: annotations},
			}, dryRun)
			return err
		}
		if err := account("core", nil); err != nil {
			t.Error(err)
		}
		if err := account("other", nil); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "needs granular:label(team)") {
			t.Errorf("got %v", err)
		}
		if err := account("core", map[string]string{"a": "b"}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "needs granular:annotation(a)") {
			t.Errorf("got %v", err)
		}
	})

	t.Run("neither condition nor permission", func(t *testing.T) {
		if _, err := client.CoreV1().ConfigMaps("kube-system").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("got %v", err)
		}
	})

	template := func(good string) error {
		_, err := client.CoreV1().PodTemplates("kube-system").Create(ctx, &corev1.PodTemplate{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "t-", Labels: map[string]string{"good": good}},
			Template:   corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
		}, dryRun)
		return err
	}
	// CA-1: an ID needs no domain, and a set that cannot be read is a 403 with a reason.
	t.Run("IDs", func(t *testing.T) {
		if err := template("yes"); err != nil {
			t.Error(err)
		}
		if err := template("no"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `condition "only-good" was not met`) {
			t.Errorf("got %v", err)
		}
		_, err := client.CoreV1().Endpoints("kube-system").Create(ctx, &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{GenerateName: "e-"}}, dryRun)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "malformed") {
			t.Errorf("got %v", err)
		}
	})

	// CA-19: a webhook may make impersonation depend on the request that is to be made.
	t.Run("impersonation", func(t *testing.T) {
		as := func(user string) *kubernetes.Clientset {
			config := s.as("hooked")
			config.Impersonate = rest.ImpersonationConfig{UserName: user}
			return kubernetes.NewForConfigOrDie(config)
		}
		admin := kubernetes.NewForConfigOrDie(s.admin)
		for _, user := range []string{"system:node:foo", "opaque"} {
			if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: "hook-" + user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
			}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		get := func(user, resource string) error {
			return as(user).CoreV1().RESTClient().Get().Namespace("default").Resource(resource).Name("none").Do(ctx).Error()
		}
		for _, tc := range []struct{ user, may, mayNot string }{{"system:node:foo", "pods", "secrets"}, {"opaque", "secrets", "pods"}} {
			s.await("a get as "+tc.user, func() (bool, error) { return apierrors.IsNotFound(get(tc.user, tc.may)), nil })
			if err := get(tc.user, tc.mayNot); !apierrors.IsForbidden(err) {
				t.Errorf("get of %s as %s: %v", tc.mayNot, tc.user, err)
			}
			if err := as(tc.user).CoreV1().Pods("default").Delete(ctx, "none", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
				t.Errorf("delete of a pod as %s: %v", tc.user, err)
			}
		}
		// CA-23: the reason as the design spells it is passed on.
		if err := get("opaque", "pods"); err == nil || !strings.Contains(err.Error(), "only secrets") {
			t.Errorf("the webhook's reason is missing: %v", err)
		}
	})

	t.Run("reload", func(t *testing.T) {
		for name, bad := range map[string]string{
			"nonsense":            "authorizers: [",
			"nothing":             "",
			"null":                "null",
			"a key twice":         config + "authorizers: []\n",
			"unknown context":     strings.Replace(config, "Context: conditions", "Context: none", 1),
			"a type less":         strings.Replace(config, "- {type: RBAC, name: rbac}", "", 1),
			"a type more":         strings.Replace(config, "- {type: RBAC, name: rbac}", "- {type: RBAC, name: rbac}\n- {type: Node, name: node}", 1),
			"an old version":      strings.Replace(config, "subjectAccessReviewVersion: v1\n    match", "subjectAccessReviewVersion: v1beta1\n    match", 1),
			"a context of no use": strings.Replace(config, "Context: conditions", "Context: 7", 1),
		} {
			failures := reloads(t, s, "failure")
			write(bad)
			s.await("the failure of "+name, func() (bool, error) { return reloads(t, s, "failure") > failures, nil })
			if err := configMap("dev"); err != nil {
				t.Errorf("%s: the former chain is no longer in force: %v", name, err)
			}
			if err := configMap("prod"); !apierrors.IsForbidden(err) {
				t.Errorf("%s: got %v", name, err)
			}
		}
		write(withoutHook)
		s.await("the webhook to be gone", func() (bool, error) { return apierrors.IsForbidden(configMap("dev")), nil })
		// CA-17: without an endpoint the webhook is not told of conditions, and what it says all the same is evaluated
		// in process.
		write(strings.Replace(config, "conditionsEndpointKubeConfigContext: conditions\n", "\n", 1))
		s.await("the webhook to be back", func() (bool, error) { return template("yes") == nil, nil })
		if err := template("no"); !apierrors.IsForbidden(err) {
			t.Errorf("got %v", err)
		}
		if err := configMap("dev"); !apierrors.IsForbidden(err) {
			t.Errorf("a webhook that has no conditions endpoint was told of conditions: %v", err)
		}
		write(config)
		s.await("the webhook to be back", func() (bool, error) { return configMap("dev") == nil, nil })
		if err := configMap("prod"); !apierrors.IsForbidden(err) {
			t.Errorf("got %v", err)
		}
	})
}

// reloads reads how often the configuration was reloaded.
func reloads(t *testing.T, s *instance, status string) (n int) {
	t.Helper()
	client, err := rest.HTTPClientFor(s.admin)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Get(s.admin.Host + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	pattern := regexp.MustCompile(`(?m)^apiserver_authorization_config_controller_automatic_reloads_total\{.*status="` + status + `".*\} (\d+)`)
	if m := pattern.FindSubmatch(text); m != nil {
		_, _ = fmt.Sscan(string(m[1]), &n)
	}
	return n
}
