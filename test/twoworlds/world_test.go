package twoworlds

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/platform/pki"
	"proviso.dev/proviso/test/inprocess"
	"proviso.dev/proviso/test/inprocess/byflags"
)

func TestMain(m *testing.M) { inprocess.Main(m) }

// world is one of the two servers, with what the current case has put there.
type world struct {
	*inprocess.Server
	second bool
	// admin is in system:masters; proxy vouches for any user.
	admin, proxy *http.Client
	// vouching is what proxy is made of.
	vouching *rest.Config
	callers  map[string]bool
	// groups are those of users, tokens what some come with instead, since the time that issued says.
	groups map[string][]string
	tokens map[string]string
	issued map[string]time.Time
	// present holds every object that may exist, states the resourceVersions of the states of the cluster.
	present map[Ref]bool
	states  [4]string
	uids    map[string]string
	// bound counts the users whose rights show that what was written before them is in effect.
	bound int
	// last and more are what the caller saw last: a resourceVersion and a continue token.
	last, more string
}

// patience bounds every request and every wait.
const patience = 30 * time.Second

// uncached are kinds without a watch cache, as events are without flags: their lists and watches come from etcd.
const uncached = "services#0,horizontalpodautoscalers.autoscaling#0"

// newWorld starts a server with the one controller that writes nothing here. Without the namespace controller
// a namespace stays in deletion.
func newWorld(t testing.TB, second bool) *world {
	t.Helper()
	s := byflags.Serve(t, "--controllers=clusterrole-aggregation-controller", "--disable-admission-plugins=ServiceAccount", "--watch-cache-sizes="+uncached, "--feature-gates=CBORServingAndStorage=true,UnionReads=true,NarrowedTokens=true")
	w := &world{Server: s, second: second, callers: map[string]bool{}, present: map[Ref]bool{}, uids: map[string]string{},
		groups: map[string][]string{}, tokens: map[string]string{}, issued: map[string]time.Time{}}
	files, err := pki.Open(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	own := s.Admin.TLSClientConfig
	vouching := rest.TLSClientConfig{CAData: own.CAData, CAFile: own.CAFile, CertFile: files.ProxyClientCert, KeyFile: files.ProxyClientKey}
	w.vouching = &rest.Config{Host: s.Admin.Host, TLSClientConfig: vouching}
	for client, tls := range map[**http.Client]rest.TLSClientConfig{&w.admin: own, &w.proxy: vouching} {
		if *client, err = rest.HTTPClientFor(&rest.Config{Host: s.Admin.Host, TLSClientConfig: tls}); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// unsettled is the panic of a case that could not be set up. It says nothing about the product.
type unsettled string

// sudo sends a request as an admin.
func (w *world) sudo(method, at string, body any) (int, map[string]any) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var reader io.Reader
	if body != nil {
		reader = strings.NewReader(text(body))
	}
	req, err := http.NewRequestWithContext(ctx, method, w.Admin.Host+at, reader)
	if err != nil {
		panic(err)
	}
	req.Header.Set("Accept", jsonType)
	req.Header.Set("Content-Type", jsonType)
	if method == "PATCH" {
		req.Header.Set("Content-Type", mergeType)
		if strings.Contains(at, "force=true") {
			req.Header.Set("Content-Type", applyType)
		}
	}
	resp, err := w.admin.Do(req)
	if err != nil {
		panic(unsettled(err.Error()))
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		panic(unsettled(err.Error()))
	}
	var out map[string]any
	_ = json.Unmarshal(raw, &out)
	return resp.StatusCode, out
}

// must sends a request as an admin that has to succeed. That something exists already is success.
func (w *world) must(method, at string, body any) map[string]any {
	code, out := w.sudo(method, at, body)
	for deadline := time.Now().Add(patience); code >= 500 && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
		code, out = w.sudo(method, at, body)
	}
	if code >= 300 && code != http.StatusConflict {
		panic(unsettled(fmt.Sprintf("%s %s: %d %.300s", method, at, code, text(out))))
	}
	return out
}

func (w *world) poll(what string, condition func() bool) {
	deadline := time.Now().Add(4 * patience)
	for pause := 2 * time.Millisecond; !condition(); pause = min(2*pause, 50*time.Millisecond) {
		if time.Now().After(deadline) {
			panic(unsettled("waiting for " + what))
		}
		time.Sleep(pause)
	}
}

const (
	master    = "/apis/authorization.proviso.dev/v1alpha1/namespaces/master/"
	ownGroup  = "/apis/policy.proviso.dev/v1alpha1/"
	rbacGroup = "rbac.authorization.k8s.io"
	rbacRoot  = "/apis/" + rbacGroup + "/v1/"
)

// rolesIn is where roles of Policy of a namespace are.
func rolesIn(ns string) string { return strings.Replace(master, "/master/", "/"+ns+"/", 1) }

type object = map[string]any

func named(name string) object { return object{"name": name} }

// found installs what all cases share: namespaces, the definition, the roles of the templates, guarded labels.
func (w *world) found() {
	for _, ns := range []string{home, other} {
		w.must("POST", "/api/v1/namespaces", object{"metadata": object{"name": ns, "labels": object{"team": "b"}}})
	}
	w.define()
	w.poll("the master namespace", func() bool {
		code, _ := w.sudo("GET", master+"roles/edit", nil)
		return code == http.StatusOK
	})
	for _, ns := range []string{home, other} {
		w.must("POST", ownGroup+"namespaces/"+ns+"/policies", object{"metadata": named("default")})
		w.must("POST", ownGroup+"namespaces/"+ns+"/policybindings", object{"metadata": named(ns)})
	}
	for _, name := range slices.Sorted(maps.Keys(templates)) {
		t := templates[name]
		if t.asks {
			continue
		}
		if t.rbac != "" {
			w.must("POST", rbacRoot+"namespaces/home/roles", object{"metadata": named("t-" + name), "rules": json.RawMessage(t.rbac)})
			continue
		}
		for ns, rules := range t.local {
			w.must("POST", rolesIn(ns)+"roles", object{"metadata": named("t-" + name), "rules": json.RawMessage(strings.ReplaceAll(rules, "KINDS", allKinds))})
		}
		if t.local != nil {
			continue
		}
		rules := json.RawMessage(strings.ReplaceAll(t.rules, "KINDS", allKinds))
		w.must("POST", master+"roles", object{"metadata": named("t-" + name), "rules": rules})
	}
	mark := object{"verbs": []any{"get"}, "resourceKinds": []any{"configmaps"}, "resourceNames": []any{"mark"}}
	w.must("POST", master+"roles", object{"metadata": named("mark"), "rules": []any{mark}})
	local := object{"verbs": []any{"get"}, "apiGroups": []any{""}, "resources": []any{"configmaps"}, "resourceNames": []any{"mark"}}
	w.must("POST", rbacRoot+"namespaces/home/roles", object{"metadata": named("mark"), "rules": []any{local}})
	w.guard()
	w.hides()
	w.peopled()
}

// define serves a custom resource in two versions. The older one lacks two fields.
func (w *world) define() {
	version := func(name string, storage bool, fields ...string) object {
		properties := object{}
		for _, f := range fields {
			properties[f] = object{"type": "string"}
		}
		schema := object{"type": "object", "properties": object{"spec": object{"type": "object", "properties": properties}, "status": object{"type": "object", "properties": object{"phase": object{"type": "string"}}}}}
		return object{"name": name, "served": true, "storage": storage, "schema": object{"openAPIV3Schema": schema}, "subresources": object{"status": object{}}}
	}
	w.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", object{"metadata": named("widgets." + group), "spec": object{
		"group": group, "scope": "Namespaced", "names": object{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
		"versions": []any{version("v1", true, "note", "keep", "level", "hid"), version("v1beta1", false, "note")}}})
	for _, v := range []string{"v1", "v1beta1"} {
		w.poll("the definition", func() bool {
			code, _ := w.sudo("GET", "/apis/"+group+"/"+v+"/widgets", nil)
			return code == http.StatusOK
		})
	}
}

// guard declares an exclusive field and a protected label, and waits until both are in effect.
func (w *world) guard() {
	w.must("POST", ownGroup+"fieldpermissions", object{"metadata": named("guard"), "spec": object{
		"resources": []any{"*"}, "field": ".metadata.labels[" + guarded + "]", "permission": guardVerb, "exclusive": true}})
	w.must("POST", rbacRoot+"clusterroles", object{"metadata": named("keepers"), "rules": []any{}})
	w.must("POST", ownGroup+"clusterprotectedattributes", object{"metadata": named("guard"), "attributeKind": "Label", "attributeName": protected,
		"roleRef": object{"apiGroup": rbacGroup, "kind": "ClusterRole", "name": "keepers"}})
	probe := object{"verbs": []any{"create", "get"}, "resourceKinds": []any{"configmaps", "services", "widgets." + group}}
	w.must("POST", master+"roles", object{"metadata": named("probe"), "rules": []any{probe}})
	w.must("POST", master+"rolebindings", object{"metadata": named("probe"), "roleRef": object{"namespace": "master", "name": "probe"}, "userNames": []any{"prober"}})
	for label, want := range map[string]int{"plain": http.StatusCreated, guarded: http.StatusForbidden, protected: http.StatusForbidden} {
		step := Step{Method: "POST", Path: collection("configmaps", home), Query: "dryRun=All", Type: jsonType,
			Body: text(object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "probe", "labels": object{label: "x"}}})}
		w.poll("the guard of "+label, func() bool { return w.send("prober", step).code == want })
	}
}

// admit binds the templates of a caller to a user, once, and waits until that is in effect.
func (w *world) admit(c *Case) string {
	user := "u-" + strings.Join(c.Caller, "-and-")
	if granted := c.granted(); len(granted) > 0 {
		user += "-by-" + strings.Join(granted, "-")
	}
	if len(c.Links) > 0 {
		user += "-with-" + strings.Join(c.Links, "-")
	}
	if w.callers[user] {
		w.carry(c, user)
		return user
	}
	bind := func(name, role, to string) {
		w.must("POST", master+"rolebindings", object{"metadata": named(name), "roleRef": object{"namespace": "master", "name": role}, "userNames": []any{to}})
	}
	local := func(name, role, to string) {
		w.must("POST", rbacRoot+"namespaces/home/rolebindings", object{"metadata": named(name), "roleRef": object{"apiGroup": rbacGroup, "kind": "Role", "name": role},
			"subjects": []any{object{"apiGroup": rbacGroup, "kind": "User", "name": to}}})
	}
	for _, name := range c.Caller {
		switch t := templates[name]; {
		case t.asks:
			w.groups[user] = []string{askers}
		case slices.Contains(c.granted(), name):
		case t.rbac != "":
			local(user+"-"+name, "t-"+name, user)
		case t.local != nil:
			for ns := range t.local {
				w.must("POST", rolesIn(ns)+"rolebindings", object{"metadata": named(user + "-" + name), "roleRef": object{"namespace": ns, "name": "t-" + name}, "userNames": []any{user}})
			}
		default:
			bind(user+"-"+name, "t-"+name, user)
		}
	}
	bind("mark-"+user, "mark", "mark-"+user)
	local("mark-"+user, "mark", "local-"+user)
	w.settled("mark-" + user)
	w.settled("local-" + user)
	if granted := c.granted(); len(granted) > 0 {
		w.grant(user, granted)
	}
	w.carry(c, user)
	w.callers[user] = true
	return user
}

// settled waits until a mark is in effect. Watches keep their order, so what was written before is, too.
func (w *world) settled(user string) {
	w.poll("the policy of "+user, func() bool {
		_, review := w.sudo("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", object{"spec": object{"user": user, "groups": append([]string{"system:authenticated"}, w.groups[user]...),
			"resourceAttributes": object{"verb": "get", "version": "v1", "resource": "configmaps", "namespace": home, "name": "mark"}}})
		status, _ := review["status"].(object)
		return status["allowed"] == true
	})
}

// nobodys is the UID of no object; one that a world does not have becomes it.
const nobodys = "00000000-0000-4000-8000-000000000001"

var unknownUID = regexp.MustCompile(`\$uid:[a-z]+/[a-z]*/[a-z0-9]+`)

// request is a step as this world has it: its own revisions, UIDs and tokens.
func (w *world) request(ctx context.Context, user string, s Step) (*http.Request, error) {
	pairs := []string{"$last", w.last, "$more", w.more}
	for i, rv := range w.states {
		pairs = append(pairs, fmt.Sprintf("$rv:%d", i), rv)
	}
	for _, at := range slices.Sorted(maps.Keys(w.uids)) {
		pairs = append(pairs, "$uid:"+at, w.uids[at])
	}
	known := strings.NewReplacer(pairs...)
	mine := func(s string) string { return unknownUID.ReplaceAllString(known.Replace(s), nobodys) }
	target := w.Admin.Host + s.Path
	if s.Query != "" {
		target += "?" + mine(s.Query)
	}
	req, err := http.NewRequestWithContext(ctx, s.Method, target, bytes.NewReader([]byte(mine(s.Body))))
	if err != nil {
		return nil, err
	}
	if token := w.tokens[user]; token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	} else {
		req.Header.Set("X-Remote-User", user)
		for _, g := range w.groups[user] {
			req.Header.Add("X-Remote-Group", g)
		}
	}
	req.Header.Set("Accept", jsonType)
	if s.Accept != "" {
		req.Header.Set("Accept", s.Accept)
	}
	if s.Type != "" {
		req.Header.Set("Content-Type", s.Type)
	}
	return req, nil
}
