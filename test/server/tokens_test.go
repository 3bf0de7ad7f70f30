package server

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/engine/narrowedtoken"
)

// bodyTrail wants everything of every request, and keeps it.
type bodyTrail struct {
	mu     sync.Mutex
	events []*auditinternal.Event
}

func (*bodyTrail) EvaluatePolicyRule(authorizer.Attributes) audit.RequestAuditConfig {
	return audit.RequestAuditConfig{Level: auditinternal.LevelRequestResponse}
}

func (b *bodyTrail) ProcessEvents(events ...*auditinternal.Event) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range events {
		if strings.Contains(e.RequestURI, "access.proviso.dev") || e.Annotations["authentication.proviso.dev/token"] != "" || e.Annotations["authentication.proviso.dev/token-refused"] != "" {
			b.events = append(b.events, e.DeepCopy())
		}
	}
	return true
}

func (*bodyTrail) Run(<-chan struct{}) error { return nil }
func (*bodyTrail) Shutdown()                 {}
func (*bodyTrail) String() string            { return "bodies" }

// text is all that was recorded.
func (b *bodyTrail) text(t *testing.T) string {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	out, err := json.Marshal(b.events)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// tokenWorld asks a server with narrowed tokens.
type tokenWorld struct {
	t *testing.T
	s *instance
}

// send sends a request with a bearer token, or with the certificate of config if that is empty.
func (w tokenWorld) send(config *rest.Config, token, method, path, body string, headers ...string) answer {
	w.t.Helper()
	c := rest.CopyConfig(config)
	if token != "" {
		c = rest.AnonymousClientConfig(c)
	}
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, c.Host+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", mergePatch)
	}
	req.Header.Set("Accept", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	a := answer{code: resp.StatusCode, auditID: resp.Header.Get("Audit-Id"), message: string(raw)}
	if json.Unmarshal(raw, &a.body) == nil && a.body["kind"] == "Status" {
		a.message, _ = a.body["message"].(string)
	}
	return a
}

const tokensPath = "/apis/access.proviso.dev/v1alpha1/narrowedtokens"

// issue asks for a token. Every request waits until what was bound to the caller is known.
func (w tokenWorld) issue(config *rest.Config, with, spec string) (token string, status accessv1alpha1.NarrowedTokenStatus) {
	w.t.Helper()
	a := w.send(config, with, "POST", tokensPath, `{"apiVersion":"access.proviso.dev/v1alpha1","kind":"NarrowedToken","spec":`+spec+`}`)
	if a.code != http.StatusCreated {
		w.t.Fatalf("a token: %d %s", a.code, a.message)
	}
	var answered accessv1alpha1.NarrowedToken
	if err := json.Unmarshal([]byte(a.message), &answered); err != nil {
		w.t.Fatal(err)
	}
	return answered.Status.Token, answered.Status
}

// can lets a user do something by RBAC in the cluster.
func (w tokenWorld) can(user string, rules ...rbacv1.PolicyRule) *rest.Config {
	w.t.Helper()
	admin := kubernetes.NewForConfigOrDie(w.s.admin)
	rules = append(rules, rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{"access.proviso.dev"}, Resources: []string{"narrowedtokens"}})
	if _, err := admin.RbacV1().ClusterRoles().Create(w.t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatal(err)
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(w.t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatal(err)
	}
	config := w.s.as(user)
	w.s.await("the rights of "+user, func() (bool, error) {
		a := w.send(config, "", "POST", tokensPath+"?dryRun=All", `{"apiVersion":"access.proviso.dev/v1alpha1","kind":"NarrowedToken","spec":{}}`)
		return a.code == http.StatusCreated, nil
	})
	return config
}

func (w tokenWorld) namespace(name string) {
	w.t.Helper()
	if a := w.send(w.s.admin, "", "POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+name+`"}}`); a.code >= 300 {
		w.t.Fatal(a.message)
	}
}

func anything() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}
}

func configMap(name, team string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"labels":{"team":%q}},"data":{"k":%q}}`, name, team, team)
}

func (w tokenWorld) expect(what string, a answer, code int, says string) {
	w.t.Helper()
	if a.code != code || !strings.Contains(a.message, says) {
		w.t.Errorf("%s: %d %s, want %d %s", what, a.code, a.message, code, says)
	}
}

// listed are the names in a list.
func listed(a answer) (all []string) {
	items, _ := a.body["items"].([]any)
	for _, item := range items {
		object, _ := item.(map[string]any)
		meta, _ := object["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// TestNarrowedTokens issues tokens and uses them: what they allow, what they do not, for a user and for a cluster admin
// (TK-1, TK-3).
func TestNarrowedTokens(t *testing.T) {
	w := tokenWorld{t, narrowed.get(t)}
	w.namespace("tk-web")
	w.namespace("tk-db")
	nora := w.can("tk-nora", anything())
	for _, place := range []string{"tk-web", "tk-db"} {
		for name, team := range map[string]string{"mine": "a", "theirs": "b"} {
			if a := w.send(w.s.admin, "", "POST", "/api/v1/namespaces/"+place+"/configmaps", configMap(name, team)); a.code != 201 {
				t.Fatal(a.message)
			}
		}
	}
	const inWeb = "/api/v1/namespaces/tk-web/configmaps"
	master := w.s.admin
	for who, config := range map[string]*rest.Config{"nora": nora, "admin": master} {
		t.Run(who, func(t *testing.T) {
			w := tokenWorld{t, w.s}
			reads, status := w.issue(config, "", `{"description":"build agent","rules":[{"verbs":["get","list","watch"],"resourceKinds":["configmaps"],"namespaces":["tk-web"]}]}`)
			if !strings.HasPrefix(reads, "pvt1.") || !narrowedtoken.IsID(status.ID) || status.ExpirationTimestamp == nil {
				t.Fatalf("%+v", status)
			}
			w.expect("get", w.send(config, reads, "GET", inWeb+"/mine", ""), 200, "")
			w.expect("list", w.send(config, reads, "GET", inWeb, ""), 200, "")
			w.expect("elsewhere", w.send(config, reads, "GET", "/api/v1/namespaces/tk-db/configmaps", ""), 403, "your token does not allow it: link 1, *build agent*")
			w.expect("everywhere", w.send(config, reads, "GET", "/api/v1/configmaps", ""), 403, "link 1, *build agent*")
			w.expect("write", w.send(config, reads, "POST", inWeb, configMap("new", "a")), 403, "link 1, *build agent*")
			w.expect("discovery", w.send(config, reads, "GET", "/api", ""), 403, "link 1")

			ours, _ := w.issue(config, "", `{"description":"team a","rules":[{"verbs":["get","list","watch","update","patch","delete","create"],"resourceKinds":["configmaps"],"namespaces":["tk-web"],"where":"resource.metadata.?labels[?'team'].orValue('') == 'a'"}]}`)
			w.expect("get mine", w.send(config, ours, "GET", inWeb+"/mine", ""), 200, "")
			w.expect("get theirs", w.send(config, ours, "GET", inWeb+"/theirs", ""), 404, "not found")
			if got := listed(w.send(config, ours, "GET", inWeb, "")); !slices.Equal(got, []string{"mine"}) {
				t.Errorf("the list has %v", got)
			}
			w.expect("patch theirs", w.send(config, ours, "PATCH", inWeb+"/theirs", `{"data":{"x":"y"}}`), 403, "link 1, *team a*")
			w.expect("give away", w.send(config, ours, "PATCH", inWeb+"/mine", `{"metadata":{"labels":{"team":"b"}}}`), 403, "link 1, *team a*")
			w.expect("patch mine", w.send(config, ours, "PATCH", inWeb+"/mine", `{"data":{"x":"`+who+`"}}`), 200, "")
			w.expect("create theirs", w.send(config, ours, "POST", inWeb, configMap(who, "b")), 403, "link 1, *team a*")
			w.expect("create mine", w.send(config, ours, "POST", inWeb, configMap(who, "a")), 201, "")
			w.expect("delete mine", w.send(config, ours, "DELETE", inWeb+"/"+who, ""), 200, "")

			further, err := narrowedtoken.Attenuate(ours, narrowedtoken.Link{Description: "reader", Rules: rulesOf(t, `[{"verbs":["get","list"],"resourceKinds":["*"]}]`)})
			if err != nil {
				t.Fatal(err)
			}
			w.expect("attenuated get", w.send(config, further, "GET", inWeb+"/mine", ""), 200, "")
			w.expect("attenuated patch", w.send(config, further, "PATCH", inWeb+"/mine", `{"data":{"x":"z"}}`), 403, "link 2, *reader*")
			w.expect("attenuated get theirs", w.send(config, further, "GET", inWeb+"/theirs", ""), 404, "not found")
			w.expect("attenuated wildcard", w.send(config, further, "GET", "/api/v1/namespaces/tk-web/secrets", ""), 403, "link 1, *team a*")
			over, err := narrowedtoken.Attenuate(ours, narrowedtoken.Link{Expires: time.Now().Add(-time.Minute).Unix(), Rules: rulesOf(t, `[{"verbs":["*"],"resourceKinds":["*"]}]`)})
			if err != nil {
				t.Fatal(err)
			}
			w.expect("expired", w.send(config, over, "GET", inWeb+"/mine", ""), 403, "your token ended 1m")
		})
	}
	none, _ := w.issue(nora, "", `{}`)
	w.expect("no rules", w.send(nora, none, "GET", inWeb+"/mine", ""), 403, "your token does not allow it: link 1")
}

func rulesOf(t *testing.T, text string) (rules []accessv1alpha1.TokenRule) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &rules); err != nil {
		t.Fatal(err)
	}
	return rules
}

// TestNarrowedTokensAreNarrow: no bit of a token can be changed, nothing that begins like one reaches another
// authenticator, and no answer says why (TK-2, TK-5).
func TestNarrowedTokensAreNarrow(t *testing.T) {
	w := tokenWorld{t, narrowed.get(t)}
	olga := w.can("tk-olga", anything())
	token, _ := w.issue(olga, "", `{"rules":[{"verbs":["get"],"resourceKinds":["namespaces"]}]}`)
	const path = "/api/v1/namespaces/default"
	w.expect("as it is", w.send(olga, token, "GET", path, ""), 200, "")
	flipped := []byte(token)
	flipped[len(flipped)/2] ^= 1
	for _, bad := range []string{string(flipped), token[:len(token)-1], token + "A", "pvt", "pvt2." + token[5:], "pvt1.", "pvt1." + strings.Repeat("A", 20<<10)} {
		a := w.send(olga, bad, "GET", path, "")
		w.expect(bad[:min(len(bad), 20)], a, 401, "Unauthorized")
		if strings.Contains(a.message, "signature") || strings.Contains(a.message, "token") {
			t.Errorf("it says why: %s", a.message)
		}
		// A certificate beside it does not help.
		c := rest.CopyConfig(olga)
		w.expect("with a certificate", w.send(c, "", "GET", path, "", "Authorization", "Bearer "+bad), 401, "")
	}
	w.expect("a certificate beside it", w.send(olga, "", "GET", "/api/v1/nodes", "", "Authorization", "Bearer "+token), 403, "your token does not allow it")

	socket := []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}
	protocol := func(text string) string {
		return "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(text)) + ", v4.channel.k8s.io"
	}
	anonymous := rest.AnonymousClientConfig(olga)
	w.expect("by web socket", w.send(anonymous, "", "GET", path, "", append(socket, "Sec-WebSocket-Protocol", protocol(token))...), 200, "")
	w.expect("by web socket, elsewhere", w.send(anonymous, "", "GET", "/api/v1/nodes", "", append(socket, "Sec-WebSocket-Protocol", protocol(token))...), 403, "your token does not allow it")
	w.expect("by web socket, flipped", w.send(anonymous, "", "GET", path, "", append(socket, "Sec-WebSocket-Protocol", protocol(string(flipped)))...), 401, "")
	w.expect("two tokens", w.send(anonymous, "", "GET", path, "", append(socket, "Sec-WebSocket-Protocol", protocol(token), "Authorization", "Bearer abc")...), 401, "")
	tokenTrail.mu.Lock()
	said := slices.ContainsFunc(tokenTrail.events, func(e *auditinternal.Event) bool {
		return strings.Contains(e.Annotations["authentication.proviso.dev/token-refused"], "the signature is wrong")
	})
	tokenTrail.mu.Unlock()
	if !said {
		t.Error("the audit log does not say why")
	}
}

// TestImpersonationWithAToken stays under its links, and what the user did without the token is not reused (TK-4).
func TestImpersonationWithAToken(t *testing.T) {
	w := tokenWorld{t, narrowed.get(t)}
	pia := w.can("tk-pia", anything())
	const path = "/api/v1/namespaces/default/configmaps"
	other := []string{"Impersonate-User", "tk-pia"}
	w.expect("without a token", w.send(pia, "", "GET", path, "", other...), 200, "")
	reads, _ := w.issue(pia, "", `{"rules":[{"verbs":["get","list"],"resourceKinds":["*"]}]}`)
	w.expect("not named", w.send(pia, reads, "GET", path, "", other...), 403, "your token does not allow it")
	named, _ := w.issue(pia, "", `{"rules":[{"verbs":["get","list"],"resourceKinds":["configmaps"]},{"verbs":["impersonate"],"resourceKinds":["users"]}]}`)
	w.expect("named", w.send(pia, named, "GET", path, "", other...), 200, "")
	w.expect("under its links", w.send(pia, named, "GET", "/api/v1/nodes", "", other...), 403, "your token does not allow it: link 1")
	w.expect("no token for somebody else", w.send(pia, "", "POST", tokensPath, `{"apiVersion":"access.proviso.dev/v1alpha1","kind":"NarrowedToken","spec":{}}`, other...), 403, "while impersonating")
}

// TestTokensOfTokens: whoever asks with a token gets one with at least the same links, which ends no later, and ends
// with it (TK-1, TK-6).
func TestTokensOfTokens(t *testing.T) {
	w := tokenWorld{t, narrowed.get(t)}
	rosa := w.can("tk-rosa", anything())
	const path = "/api/v1/namespaces/default/configmaps"
	first, status := w.issue(rosa, "", `{"expirationSeconds":600,"description":"first","rules":[{"verbs":["get","list"],"resourceKinds":["configmaps"]},{"verbs":["create"],"resourceKinds":["narrowedtokens.access.proviso.dev"]}]}`)
	second, later := w.issue(rosa, first, `{"expirationSeconds":80000,"description":"second","rules":[{"verbs":["*"],"resourceKinds":["*"]}]}`)
	if later.ExpirationTimestamp.After(status.ExpirationTimestamp.Time) || later.ID == status.ID {
		t.Errorf("%+v after %+v", later, status)
	}
	w.expect("what both allow", w.send(rosa, second, "GET", path, ""), 200, "")
	w.expect("what the first does not", w.send(rosa, second, "DELETE", path+"/x", ""), 403, "link 1, *first*")
	unable, _ := w.issue(rosa, "", `{"rules":[{"verbs":["get"],"resourceKinds":["configmaps"]}]}`)
	w.expect("asking takes a rule", w.send(rosa, unable, "POST", tokensPath, `{"apiVersion":"access.proviso.dev/v1alpha1","kind":"NarrowedToken","spec":{}}`), 403, "your token does not allow it")

	revoke := func(id string) string {
		return fmt.Sprintf(`{"apiVersion":"access.proviso.dev/v1alpha1","kind":"TokenRevocation","metadata":{"name":"own"},"spec":{"tokenIDs":[%q]}}`, id)
	}
	const revocations = "/apis/access.proviso.dev/v1alpha1/tokenrevocations"
	w.expect("another one", w.send(rosa, first, "POST", revocations, revoke(later.ID)), 403, "can revoke itself only")
	w.expect("users", w.send(rosa, first, "POST", revocations, `{"apiVersion":"access.proviso.dev/v1alpha1","kind":"TokenRevocation","metadata":{"name":"own"},"spec":{"userNames":["tk-rosa"]}}`), 403, "can revoke itself only")
	w.expect("itself", w.send(rosa, first, "POST", revocations, revoke(status.ID)), 201, "token-"+status.ID)
	w.s.await("the revocation", func() (bool, error) { return w.send(rosa, first, "GET", path, "").code == 403, nil })
	w.expect("revoked", w.send(rosa, first, "GET", path, ""), 403, "your token is revoked")
	w.expect("with what was asked for with it", w.send(rosa, second, "GET", path, ""), 403, "your token is revoked")
	w.expect("others", w.send(rosa, unable, "GET", path+"/x", ""), 404, "")
	w.expect("too early", w.send(w.s.admin, "", "DELETE", revocations+"/token-"+status.ID, ""), 403, "it cannot be deleted before")
	w.expect("changed", w.send(w.s.admin, "", "PATCH", revocations+"/token-"+status.ID, `{"spec":{"userNames":["x"]}}`), 422, "cannot be changed")
	for bad, says := range map[string]string{
		`{}`: "give tokenIDs or userNames", `{"tokenIDs":["x"]}`: "is not the id of a token", `{"userNames":[""]}`: "a user has a name",
		`{"userNames":["x"],"issuedBefore":"2100-01-01T00:00:00Z"}`: "only tokens that have been issued",
	} {
		w.expect(bad, w.send(w.s.admin, "", "POST", revocations, `{"apiVersion":"access.proviso.dev/v1alpha1","kind":"TokenRevocation","metadata":{"name":"bad"},"spec":`+bad+`}`), 422, says)
	}
	w.expect("all of a user", w.send(w.s.admin, "", "POST", revocations, `{"apiVersion":"access.proviso.dev/v1alpha1","kind":"TokenRevocation","metadata":{"name":"tk-rosa"},"spec":{"userNames":["tk-rosa"]}}`), 201, "")
	w.s.await("the revocation", func() (bool, error) { return w.send(rosa, unable, "GET", path+"/x", "").code == 403, nil })
}

var someToken = regexp.MustCompile(`pvt1\.[A-Za-z0-9_-]{20}`)

// TestTokensAreNotRecorded: no audit event has a token or a body, whoever wants everything, and each says which token
// it was (TK-7).
func TestTokensAreNotRecorded(t *testing.T) {
	w := tokenWorld{t, narrowed.get(t)}
	sven := w.can("tk-sven", anything())
	token, status := w.issue(sven, "", `{"description":"build agent","rules":[{"verbs":["get"],"resourceKinds":["namespaces"]}]}`)
	a := w.send(sven, token, "GET", "/api/v1/namespaces/default", "")
	w.expect("get", a, 200, "")
	found := false
	w.s.await("the event", func() (bool, error) {
		tokenTrail.mu.Lock()
		defer tokenTrail.mu.Unlock()
		for _, e := range tokenTrail.events {
			if string(e.AuditID) == a.auditID && e.Stage == auditinternal.StageResponseComplete {
				found = e.Annotations["authentication.proviso.dev/token"] == status.ID && e.Annotations["authentication.proviso.dev/token-links"] == "build agent"
				return true, nil
			}
		}
		return false, nil
	})
	if !found {
		t.Error("the event does not say which token it was")
	}
	if text := tokenTrail.text(t); strings.Contains(text, token[len(token)-40:]) || someToken.MatchString(text) {
		t.Errorf("a token is in the audit log: %q", someToken.FindString(text))
	}
	tokenTrail.mu.Lock()
	defer tokenTrail.mu.Unlock()
	for _, e := range tokenTrail.events {
		if strings.Contains(e.RequestURI, "narrowedtokens") && (e.RequestObject != nil || e.ResponseObject != nil) {
			t.Errorf("%s has a body", e.RequestURI)
		}
	}
	if someToken.MatchString(w.s.Output.String()) {
		t.Error("a token is in the output of the server")
	}
}

// TestReviewsOfATokenAnswerForIt: a self-review answers for the token, a TokenReview confirms it only for its audience,
// with its links, and a SubjectAccessReview that has these applies them (TK-4, TK-5).
func TestReviewsOfATokenAnswerForIt(t *testing.T) {
	w := tokenWorld{t, narrowed.get(t)}
	tina := w.can("tk-tina", anything())
	reviews := `{"verbs":["create"],"resourceKinds":["selfsubjectaccessreviews.authorization.k8s.io","subjectaccessreviews.authorization.k8s.io"]}`
	token, _ := w.issue(tina, "", `{"audience":"dashboards","rules":[{"verbs":["get"],"resourceKinds":["configmaps"],"namespaces":["default"]},`+reviews+`]}`)
	self := func(verb, resource string) bool {
		a := w.send(tina, token, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{"verb":%q,"resource":%q,"namespace":"default"}}}`, verb, resource))
		w.expect("self", a, 201, "")
		status, _ := a.body["status"].(map[string]any)
		return status["allowed"] == true
	}
	if !self("get", "configmaps") || self("get", "pods") || self("delete", "configmaps") {
		t.Error("the self-review does not answer for the token")
	}
	confirm := func(audiences string) map[string]any {
		a := w.send(w.s.admin, "", "POST", "/apis/authentication.k8s.io/v1/tokenreviews", fmt.Sprintf(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":%q,"audiences":%s}}`, token, audiences))
		w.expect("token review", a, 201, "")
		status, _ := a.body["status"].(map[string]any)
		return status
	}
	for _, audiences := range []string{`[]`, `["other"]`} {
		if status := confirm(audiences); status["authenticated"] == true {
			t.Errorf("confirmed for %s: %v", audiences, status)
		}
	}
	status := confirm(`["dashboards"]`)
	user, _ := status["user"].(map[string]any)
	extra, _ := user["extra"].(map[string]any)
	links, _ := extra["authentication.proviso.dev/links"].([]any)
	if status["authenticated"] != true || user["username"] != "tk-tina" || len(links) != 1 {
		t.Fatalf("%v", status)
	}
	text, err := json.Marshal(extra)
	if err != nil {
		t.Fatal(err)
	}
	subject := func(as, verb, extra string) bool {
		with := ""
		if as != "" {
			with = token
		}
		a := w.send(w.s.admin, with, "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"tk-tina","extra":%s,"resourceAttributes":{"verb":%q,"resource":"configmaps","namespace":"default"}}}`, extra, verb))
		w.expect("review", a, 201, "")
		status, _ := a.body["status"].(map[string]any)
		return status["allowed"] == true
	}
	if !subject("", "get", string(text)) || subject("", "delete", string(text)) || !subject("", "delete", "{}") {
		t.Error("links in a review do not count")
	}
	if !subject("token", "delete", "{}") {
		t.Error("the token of who asks limits what is said about others")
	}
	for _, bad := range []string{`[]`, `["{}"]`, `["x"]`} {
		if subject("", "get", `{"authentication.proviso.dev/links":`+bad+`}`) {
			t.Errorf("links %s allow something", bad)
		}
	}
}
