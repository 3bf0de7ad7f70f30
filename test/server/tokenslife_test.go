package server

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/cli"
	"proviso.dev/proviso/internal/engine/narrowedtoken"
	"proviso.dev/proviso/test/inprocess"
)

// TestTokenCommands asks for a token, runs a command with it, narrows and revokes it (TK-8).
func TestTokenCommands(t *testing.T) {
	s := narrowed.get(t)
	file := filepath.Join(t.TempDir(), "token")
	if _, _, err := s.run(t, cli.NewTokenCommand, "request", "--allow", "get,list configmaps -n default", "--for", "20m", "--description", "build agent", "--out", file); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the token: %v %v", info, err)
	}
	kubeconfig := filepath.Join(s.dir, "admin.kubeconfig") // what is behind -- is the command's
	out, _, err := s.run(t, cli.NewTokenCommand, "run", "--kubeconfig", kubeconfig, "--allow", "get,list configmaps -n default", "--", "sh", "-c", `stat -c %a "$KUBECONFIG"; cat "$KUBECONFIG"; echo "$KUBECONFIG" >&2; exit 7`)
	if coded, ok := err.(interface{ ExitCode() int }); !ok || coded.ExitCode() != 7 {
		t.Errorf("the exit code: %v", err)
	}
	if !strings.HasPrefix(out, "600\n") || strings.Contains(out, "client-certificate") || strings.Contains(out, "client-key") || !strings.Contains(out, "token: pvt1.") {
		t.Errorf("the kubeconfig of the command:\n%s", out)
	}
	_, kept, _ := s.run(t, cli.NewTokenCommand, "run", "--kubeconfig", kubeconfig, "--revoke", "--allow", "get,list configmaps -n default", "--", "sh", "-c", `echo "$KUBECONFIG" >&2`)
	for _, line := range strings.Fields(kept) {
		if strings.HasSuffix(line, "/kubeconfig") {
			if _, err := os.Stat(line); err == nil {
				t.Errorf("%s is still there", line)
			}
		}
	}
	w := tokenWorld{t, s}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(string(text))
	w.expect("the token", w.send(s.admin, token, "GET", "/api/v1/namespaces/default/configmaps", ""), 200, "")
	w.expect("discovery", w.send(s.admin, token, "GET", "/apis", ""), 200, "")
	if _, _, err := s.run(t, cli.NewTokenCommand, "revoke", "--token-file", file); err != nil {
		t.Fatal(err)
	}
	s.await("the revocation", func() (bool, error) {
		return w.send(s.admin, token, "GET", "/api/v1/namespaces/default/configmaps", "").code == 403, nil
	})
	for _, bad := range [][]string{{"request"}, {"request", "--allow", "get pods", "--for", "0s"}, {"revoke"}, {"revoke", "x"}, {"request", "--allow", "get pods -n default", "--rules", file + "x"}} {
		if _, _, err := s.run(t, cli.NewTokenCommand, bad...); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
	if _, _, err := plain.get(t).run(t, cli.NewTokenCommand, "request", "--allow", "get pods"); err == nil || !strings.Contains(err.Error(), "this server has no narrowed tokens") {
		t.Errorf("a server without them: %v", err) // TK-10
	}
}

// TestStreamsEndWithTheToken: a watch ends when its token does, and when it is revoked (TK-3, TK-6).
func TestStreamsEndWithTheToken(t *testing.T) {
	t.Parallel()
	w := tokenWorld{t, narrowed.get(t)}
	watch := func(token string) (ended time.Duration) {
		c := rest.AnonymousClientConfig(w.s.admin)
		client, err := rest.HTTPClientFor(c)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), "GET", c.Host+"/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=60", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		began := time.Now()
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Fatalf("the watch: %d", resp.StatusCode)
		}
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			continue
		}
		return time.Since(began)
	}
	const rules = `"rules":[{"verbs":["get","list","watch"],"resourceKinds":["configmaps"]}]`
	token, _ := w.issue(w.s.admin, "", `{`+rules+`}`)
	short, err := narrowedtoken.Attenuate(token, narrowedtoken.Link{Expires: time.Now().Add(3 * time.Second).Unix(), Rules: rulesOf(t, `[{"verbs":["watch"],"resourceKinds":["configmaps"]}]`)})
	if err != nil {
		t.Fatal(err)
	}
	if lasted := watch(short); lasted > 10*time.Second {
		t.Errorf("a watch lasted %v with a token of 3 s", lasted)
	}
	revoked, status := w.issue(w.s.admin, "", `{`+rules+`}`)
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(time.Second) // the watch is open by then, or refused
		w.send(w.s.admin, revoked, "POST", "/apis/access.proviso.dev/v1alpha1/tokenrevocations",
			fmt.Sprintf(`{"apiVersion":"access.proviso.dev/v1alpha1","kind":"TokenRevocation","metadata":{"name":"own"},"spec":{"tokenIDs":[%q]}}`, status.ID))
	}()
	if lasted := watch(revoked); lasted > 20*time.Second {
		t.Errorf("a watch lasted %v with a token that was revoked after 1 s", lasted)
	}
	<-done
}

// TestTokensOfServiceAccounts live no longer than the credential that asked, and end with what bound it (TK-1).
func TestTokensOfServiceAccounts(t *testing.T) {
	w := tokenWorld{t, narrowed.get(t)}
	w.namespace("tk-bound")
	admin := kubernetes.NewForConfigOrDie(w.s.admin)
	w.can("system:serviceaccount:tk-bound:robot", anything())
	account := func() string {
		made, err := admin.CoreV1().ServiceAccounts("tk-bound").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return string(made.UID)
	}
	account()
	seconds := int64(700)
	jwt, err := admin.CoreV1().ServiceAccounts("tk-bound").CreateToken(t.Context(), "robot", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const path = "/api/v1/namespaces/default/configmaps"
	token, status := w.issue(w.s.admin, jwt.Status.Token, `{"expirationSeconds":80000,"rules":[{"verbs":["list"],"resourceKinds":["configmaps"]}]}`)
	if status.ExpirationTimestamp.After(jwt.Status.ExpirationTimestamp.Time) {
		t.Errorf("the token ends at %v, and what asked for it at %v", status.ExpirationTimestamp, jwt.Status.ExpirationTimestamp)
	}
	w.expect("while it is there", w.send(w.s.admin, token, "GET", path, ""), 200, "")
	if err := admin.CoreV1().ServiceAccounts("tk-bound").Delete(t.Context(), "robot", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.s.await("the account to be gone", func() (bool, error) { return w.send(w.s.admin, token, "GET", path, "").code == 403, nil })
	w.expect("after it is gone", w.send(w.s.admin, token, "GET", path, ""), 403, "the service account that it is bound to is gone")
	account()
	w.s.await("another account", func() (bool, error) {
		return strings.Contains(w.send(w.s.admin, token, "GET", path, "").message, "another one has its name"), nil
	})

	// A certificate's end counts, too.
	_, status = w.issue(w.can("tk-uwe", anything()), "", `{"expirationSeconds":80000,"rules":[]}`)
	if left := time.Until(status.ExpirationTimestamp.Time); left > inprocess.CertificateLife || left < inprocess.CertificateLife-10*time.Minute {
		t.Errorf("a token of a certificate of %v lives %v", inprocess.CertificateLife, left)
	}
	for bad, says := range map[string]string{
		`{"rules":[{"verbs":["get"]}]}`: "spec.rules[0]", `{"rules":[{"verbs":["get"],"resourceKinds":["pods"],"namespaces":[]}]}`: "spec.rules[0].namespaces",
		`{"rules":[{"verbs":["get"],"resourceKinds":["pods"],"where":"nonsense("}]}`: "spec.rules[0].where", `{"expirationSeconds":1}`: "spec.expirationSeconds",
		`{"rules":[{"verbs":["get"],"resourceKinds":["pods"],"whre":"x"}]}`: "whre", `{"description":"` + strings.Repeat("x", 300) + `"}`: "spec.description",
		`{"rules":[{"verbs":["get"],"resourceKinds":["pods"],"enforcement":"Shadow"}]}`: "spec.rules[0].enforcement",
	} {
		a := w.send(w.s.admin, "", "POST", tokensPath, `{"apiVersion":"access.proviso.dev/v1alpha1","kind":"NarrowedToken","spec":`+bad+`}`)
		if a.code != 422 && a.code != 400 || !strings.Contains(a.message, says) {
			t.Errorf("%s: %d %s", bad, a.code, a.message)
		}
	}
}

// TestCELsAuthorizerSeesTheToken: an admission policy that asks what the caller may do gets the answer of the token
// (TK-3).
func TestCELsAuthorizerSeesTheToken(t *testing.T) {
	w := tokenWorld{t, narrowed.get(t)}
	w.namespace("tk-cel")
	vap := `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"tk-cel"},"spec":{"failurePolicy":"Fail",
		"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}]},
		"validations":[{"expression":"authorizer.group('').resource('nodes').check('delete').allowed()","message":"deleting nodes is not allowed"}]}}`
	binding := `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"tk-cel"},"spec":{"policyName":"tk-cel","validationActions":["Deny"],
		"matchResources":{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"tk-cel"}}}}}`
	const at = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
	for path, body := range map[string]string{at + "ies": vap, at + "ybindings": binding} {
		if a := w.send(w.s.admin, "", "POST", path, body); a.code != 201 {
			t.Fatal(a.message)
		}
	}
	vera := w.can("tk-vera", anything())
	both, _ := w.issue(vera, "", `{"rules":[{"verbs":["create"],"resourceKinds":["configmaps"]},{"verbs":["delete"],"resourceKinds":["nodes"]}]}`)
	one, _ := w.issue(vera, "", `{"rules":[{"verbs":["create"],"resourceKinds":["configmaps"]}]}`)
	const path = "/api/v1/namespaces/tk-cel/configmaps"
	w.s.await("the policy", func() (bool, error) {
		return w.send(vera, one, "POST", path+"?dryRun=All", configMap("x", "a")).code == 422, nil
	})
	w.expect("a token that allows it", w.send(vera, both, "POST", path, configMap("y", "a")), 201, "")
	w.expect("without a token", w.send(vera, "", "POST", path, configMap("z", "a")), 201, "")
	var status map[string]any
	if err := json.Unmarshal([]byte(w.send(vera, one, "POST", path, configMap("v", "a")).message), &status); err == nil {
		t.Errorf("created: %v", status)
	}
}
