package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	restclient "k8s.io/client-go/rest"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/klog/v2"
	metaopenapi "k8s.io/kube-aggregator/pkg/generated/openapi"
	"k8s.io/kube-openapi/pkg/common"
	"sigs.k8s.io/yaml"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/api/openapi"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/request/shadow"
	"proviso.dev/proviso/internal/request/turns"
	"proviso.dev/proviso/internal/state/namespacegc"
	"proviso.dev/proviso/internal/state/policycodec"
	"proviso.dev/proviso/internal/state/selfclient"
)

// etcdEndpoint is the one etcd of this package's tests. Each server has its own prefix in it.
var etcdEndpoint string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	dir, err := os.MkdirTemp("", "registry")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.LogLevel = "fatal"
	cfg.UnsafeNoFsync = true
	cfg.TickMs, cfg.ElectionMs = 10, 100
	client, peer := freeURL(), freeURL()
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// Not closed: closing waits for its clients, and the process is about to end.
	select {
	case <-etcd.Server.ReadyNotify():
	case <-time.After(4 * time.Minute):
		fmt.Fprintln(os.Stderr, "etcd is not ready after a minute")
		return 1
	}
	etcdEndpoint = client.String()
	return m.Run()
}

func freeURL() url.URL {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return url.URL{}
	}
	defer func() { _ = l.Close() }()
	return url.URL{Scheme: "http", Host: l.Addr().String()}
}

// world is what the registry depends on, for tests to change.
type world struct {
	mu          sync.Mutex
	terminating map[string]bool
	gone        map[string]bool
	unknown     map[string]bool // to the informer
	unknowable  map[string]bool
	again       map[string]int // how often the namespace was made again
	created     map[string]metav1.Time
	rbac        map[string]bool
	escalation  func(what string) error
	asked       []string
	whoCan      authz.ResourceAccessReviewStatus
	subject     authz.SubjectAccessReviewStatus
	questions   []string
	checkRule   func(policy.PolicyRule, *field.Path) field.ErrorList
	authorize   func(authorizer.Attributes) authorizer.Decision
	permissions Permissions
	audit       AuditKnowledge
}

// Known is what an informer knows; everything but what a test says otherwise.
func (w *world) Known(ns string) *namespacegc.Namespace {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unknown[ns] {
		return nil
	}
	return w.namespace(ns)
}

func (w *world) Live(_ context.Context, ns string) (*namespacegc.Namespace, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unknowable[ns] {
		return nil, errors.New("no idea")
	}
	return w.namespace(ns), nil
}

// namespace is the nth of its name.
func (w *world) namespace(ns string) *namespacegc.Namespace {
	if w.gone[ns] {
		return nil
	}
	return &namespacegc.Namespace{UID: types.UID(fmt.Sprintf("%s-%d", ns, w.again[ns])), Created: w.created[ns], Terminating: w.terminating[ns]}
}

// set changes what the world says, while servers ask it.
func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) RoleExists(_ context.Context, kind, ns, name string) (bool, error) {
	return w.rbac[kind+"/"+ns+"/"+name], nil
}

func (w *world) confirm(what string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, what)
	if w.escalation == nil {
		return nil
	}
	return w.escalation(what)
}

func (w *world) ConfirmRole(_ context.Context, role, old *authz.Role) error {
	return w.confirm(fmt.Sprintf("role %s/%s new=%v rules=%d", role.Namespace, role.Name, old == nil, len(role.Rules)))
}

func (w *world) ConfirmRoleBinding(_ context.Context, b, old *authz.RoleBinding, role policy.PolicyRole) error {
	return w.confirm(fmt.Sprintf("binding %s/%s new=%v rules=%d", b.Namespace, b.Name, old == nil, len(role.Rules)))
}

func (w *world) ConfirmUnbinding(_ context.Context, b *authz.RoleBinding, role policy.PolicyRole) error {
	return w.confirm(fmt.Sprintf("unbinding %s/%s rules=%d", b.Namespace, b.Name, len(role.Rules)))
}

func (w *world) WhoCan(_ context.Context, ns string, spec authz.ResourceAccessReviewSpec) (authz.ResourceAccessReviewStatus, error) {
	w.questions = append(w.questions, fmt.Sprintf("%s %s in %q", spec.Verb, spec.ResourceKind, ns))
	return w.whoCan, nil
}

func (w *world) SubjectCan(_ context.Context, caller user.Info, ns string, spec authz.SubjectAccessReviewSpec) (authz.SubjectAccessReviewStatus, error) {
	w.questions = append(w.questions, fmt.Sprintf("%s: %s %s in %q", caller.GetName(), spec.Verb, spec.ResourceKind, ns))
	return w.subject, nil
}

func (w *world) fieldPermissions() Permissions {
	if w.permissions == nil {
		return fixedPermissions{}
	}
	return w.permissions
}

func (w *world) config() Config {
	return Config{
		MasterNamespace: "master", MaxAuditSinks: 3,
		Authorizer: authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
			if w.authorize == nil {
				return authorizer.DecisionAllow, "", nil
			}
			return w.authorize(a), "", nil
		}),
		Escalation: w, Turns: &turns.Queue{}, Namespaces: w, Roles: w, Reviewer: w, Permissions: w.fieldPermissions(), ShadowRules: shadow.New(time.Now),
		Rules: w, FieldPermissions: w, Audit: w.audit,
	}
}

// CheckRule implements Rules.
func (w *world) CheckRule(rule policy.PolicyRule, path *field.Path) field.ErrorList {
	if w.checkRule == nil {
		return nil
	}
	return w.checkRule(rule, path)
}

// Unserved implements Rules.
func (*world) Unserved(policy.PolicyRule) (_, _ []string) { return nil, nil }

// Evadable implements Rules.
func (*world) Evadable(EvadableRole) []string { return nil }

// WarnOfHidden implements FieldPermissions.
func (*world) WarnOfHidden(context.Context, policy.FieldPermissionSpec) []string { return nil }

// CheckFieldPermission implements FieldPermissions.
func (*world) CheckFieldPermission(policy.FieldPermissionSpec, *field.Path) field.ErrorList {
	return nil
}

var prefixes atomic.Int64

// api is a server over HTTP with nothing but our groups.
type api struct {
	t      testing.TB
	world  *world
	url    string
	prefix string
	groups []*genericapiserver.APIGroupInfo
}

// sinks is the storage behind the server, for tests that have to interfere.
func (s *api) sinks() *auditSinks {
	storage, ok := s.groups[2].VersionedResourcesStorageMap["v1alpha1"]["auditsinks"].(*auditSinks)
	if !ok {
		s.t.Fatal("no storage of audit sinks")
	}
	return storage
}

// serve starts a server. Everybody may do everything; the caller's name is in the header X-User.
func serve(t testing.TB, w *world) *api {
	t.Helper()
	return serveAt(t, w, fmt.Sprintf("/test/%d", prefixes.Add(1)))
}

// serveAt starts a server on a prefix of etcd, so that several can share it.
func serveAt(t testing.TB, w *world, prefix string) *api {
	t.Helper()
	w.set(func() {
		for _, m := range []*map[string]bool{&w.terminating, &w.gone, &w.unknown, &w.unknowable} {
			if *m == nil {
				*m = map[string]bool{}
			}
		}
		if w.again == nil {
			w.again, w.created = map[string]int{}, map[string]metav1.Time{}
		}
	})
	storage := storagebackend.NewDefaultConfig(prefix, policycodec.StorageCodec())
	storage.Transport.ServerList = []string{etcdEndpoint}
	etcd := options.NewEtcdOptions(storage)
	etcd.SkipHealthEndpoints = true

	config := genericapiserver.NewConfig(policycodec.Codecs)
	config.ExternalAddress = "127.0.0.1:443"
	config.LoopbackClientConfig = &restclient.Config{}
	config.EffectiveVersion = basecompatibility.NewEffectiveVersionFromString("1.37", "", "")
	config.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	config.Authentication.Authenticator = authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		name := r.Header.Get("X-User")
		switch name {
		case "":
			name = "tester"
		case user.APIServerUser:
			return &authenticator.Response{User: &user.DefaultInfo{Name: name, Groups: []string{user.SystemPrivilegedGroup}}}, true, nil
		}
		return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, true, nil
	})
	namer := openapinamer.NewDefinitionNamer(policycodec.VersionedScheme())
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	if err := etcd.ApplyTo(config); err != nil {
		t.Fatal(err)
	}
	server, err := config.Complete(nil).New("registry-test", genericapiserver.NewEmptyDelegate())
	if err != nil {
		t.Fatal(err)
	}
	groups, err := APIGroupInfos(w.config(), config.RESTOptionsGetter)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.InstallAPIGroups(groups...); err != nil {
		t.Fatal(err)
	}
	ServeClusterReviews(server)
	server.PrepareRun()
	// A small server of our own instead of Run: no listener, no hooks, and it ends with the test.
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-User") == user.APIServerUser && r.Header.Get("X-Controller") == "" {
			r = r.WithContext(selfclient.AsServer(r.Context()))
		}
		server.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
		server.Destroy()
	})
	s := &api{t: t, world: w, url: front.URL, prefix: prefix, groups: groups}
	for _, path := range []string{policyAPI + "/policies", policyAPI + "/policybindings", policyAPI + "/fieldpermissions",
		policyAPI + "/protectedattributes", policyAPI + "/clusterprotectedattributes", auditAPI + "/auditsinks", auditAPI + "/auditclasses"} {
		s.await("caches of "+path, func() bool { return s.call("GET", path, nil).code == 200 })
	}
	return s
}

// await waits for a condition.
func (s *api) await(what string, ok func() bool) {
	s.t.Helper()
	for start := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > 4*time.Minute {
			s.t.Fatalf("waited a minute for %s", what)
		}
	}
}

// definitions are ours and those of apimachinery, which stand in the server's own map in production.
func definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	defs := metaopenapi.GetOpenAPIDefinitions(ref)
	for name, def := range openapi.Definitions(ref) {
		defs[name] = def
	}
	return defs
}

// answer is what the server said.
type answer struct {
	code     int
	body     map[string]any
	raw      []byte
	warnings []string
}

// at walks down the body: at("metadata", "name").
func (a answer) at(path ...string) any {
	var v any = a.body
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

func (a answer) message() string { s, _ := a.at("message").(string); return s }

// call sends a request. body is YAML, or nil.
func (s *api) call(method, path string, body any, header ...string) answer {
	s.t.Helper()
	got, err := s.try(method, path, body, header...)
	if err != nil {
		s.t.Fatal(err)
	}
	return got
}

// try is call for goroutines other than the test's.
func (s *api) try(method, path string, body any, header ...string) (answer, error) {
	var in io.Reader
	if body != nil {
		text, ok := body.(string)
		if !ok {
			data, err := json.Marshal(body)
			if err != nil {
				return answer{}, err
			}
			text = string(data)
		}
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			return answer{}, err
		}
		in = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, s.url+path, in)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	got := answer{code: resp.StatusCode, raw: raw, warnings: resp.Header.Values("Warning")}
	if strings.Contains(resp.Header.Get("Content-Type"), "json") {
		if err := json.Unmarshal(raw, &got.body); err != nil {
			return answer{}, fmt.Errorf("%s %s: %w: %s", method, path, err, raw)
		}
	}
	return got, nil
}

// must calls and wants a 2xx.
func (s *api) must(method, path string, body any, header ...string) answer {
	s.t.Helper()
	got := s.call(method, path, body, header...)
	if got.code/100 != 2 {
		s.t.Fatalf("%s %s: %d %s", method, path, got.code, got.message())
	}
	return got
}

// refuse calls and wants a certain code and message.
func (s *api) refuse(code int, method, path string, body any, want ...string) answer {
	s.t.Helper()
	got := s.call(method, path, body)
	if got.code != code {
		s.t.Fatalf("%s %s: code %d, want %d: %s", method, path, got.code, code, got.message())
	}
	for _, w := range want {
		if !strings.Contains(got.message(), w) {
			s.t.Errorf("%s %s: message lacks %q: %s", method, path, w, got.message())
		}
	}
	return got
}

const (
	policyAPI = "/apis/policy.proviso.dev/v1alpha1"
	authzAPI  = "/apis/authorization.proviso.dev/v1alpha1"
	auditAPI  = "/apis/auditregistration.k8s.io/v1alpha1"
)

// Content types of patches.
const (
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	applyPatch     = "application/apply-patch+yaml"
)

// containers makes the containers of a namespace.
func (s *api) containers(namespaces ...string) {
	s.t.Helper()
	for _, ns := range namespaces {
		s.must("POST", policyAPI+"/namespaces/"+ns+"/policies", `{apiVersion: policy.proviso.dev/v1alpha1, kind: Policy, metadata: {name: default}}`)
		s.must("POST", policyAPI+"/namespaces/"+ns+"/policybindings", fmt.Sprintf(`{apiVersion: policy.proviso.dev/v1alpha1, kind: PolicyBinding, metadata: {name: %s}}`, ns))
	}
}

func rolesIn(ns string) string    { return authzAPI + "/namespaces/" + ns + "/roles" }
func bindingsIn(ns string) string { return authzAPI + "/namespaces/" + ns + "/rolebindings" }

func roleYAML(name, rules string) string {
	return fmt.Sprintf("{apiVersion: authorization.proviso.dev/v1alpha1, kind: Role, metadata: {name: %q}, rules: [%s]}", name, rules)
}

func bindingYAML(name, roleNS, role, users string) string {
	return fmt.Sprintf("{apiVersion: authorization.proviso.dev/v1alpha1, kind: RoleBinding, metadata: {name: %q}, roleRef: {namespace: %q, name: %q}, userNames: [%s]}", name, roleNS, role, users)
}

const readPods = `{verbs: [get, list], resourceKinds: [pods]}`
