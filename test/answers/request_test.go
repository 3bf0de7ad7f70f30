package answers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Request is a request, and the question that asks about it.
type Request struct {
	name                      string
	method, path, contentType string
	body                      string
	header                    map[string]string

	// What a user would ask about; the namespace is "" for what is in none.
	verb, group, resource, sub, object, namespace string
	// url is set for a request for no resource.
	url string
	// content makes the object that the request leads to and the stored one; nil if there is no object.
	content func(stored map[string]map[string]any) (after, before map[string]any)
	// also are other checks that the server makes: only what they ask about counts.
	also []Request
	// creates tells that the object does not exist: no review can be asked about that.
	creates bool
}

// kind is the resource as reviews name it.
func (r Request) kind() string {
	if r.url != "" {
		return r.url
	}
	kind := r.resource
	if r.group != "" {
		kind += "." + r.group
	}
	if r.sub != "" {
		kind += "/" + r.sub
	}
	return kind
}

// do makes the request, and reports whether the server lets it pass. Everything that is asked for exists: a get that is
// not found is one of what the caller may not see (RD-4).
func (o *oracle) do(t testing.TB, s Subject, r Request) (allowed bool, message string) {
	t.Helper()
	code, out := o.as(t, s, r.method, r.path, r.contentType, []byte(r.body), r.header)
	text, _ := out["message"].(string)
	if code == http.StatusTooManyRequests || code == http.StatusUnauthorized {
		t.Fatalf("%s: %d %s", r.name, code, text)
	}
	refused := code == http.StatusForbidden || r.verb == "get" && code == http.StatusNotFound
	return !refused, fmt.Sprint(code, " ", text)
}

func clone(object map[string]any) map[string]any {
	var out map[string]any
	if err := json.Unmarshal([]byte(mustJSON(object)), &out); err != nil {
		panic(err)
	}
	return out
}

// merge is a merge patch.
func merge(object, patch map[string]any) map[string]any {
	out := clone(object)
	if out == nil {
		out = map[string]any{}
	}
	for k, v := range patch {
		switch change, ok := v.(map[string]any); {
		case v == nil:
			delete(out, k)
		case ok:
			inner, _ := out[k].(map[string]any)
			out[k] = merge(inner, change)
		default:
			out[k] = v
		}
	}
	return out
}

func parse(text string) map[string]any {
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		panic(err)
	}
	return out
}

const mergeType, applyType = "application/merge-patch+json", "application/apply-patch+yaml"

// target is a resource with objects.
type target struct {
	group, version, resource, kind, namespace string
}

func (t target) path() string {
	path := "/api/v1"
	if t.group != "" {
		path = "/apis/" + t.group + "/" + t.version
	}
	if t.namespace != "" {
		path += "/namespaces/" + t.namespace
	}
	return path + "/" + t.resource
}

func (t target) request(verb, object, sub string) Request {
	r := Request{verb: verb, group: t.group, resource: t.resource, sub: sub, object: object, namespace: t.namespace, path: t.path()}
	r.name = strings.TrimSpace(verb + " " + r.kind() + " " + object)
	if object != "" {
		r.path += "/" + object
	}
	if sub != "" {
		r.path += "/" + sub
	}
	r.method = map[string]string{"get": "GET", "list": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE", "deletecollection": "DELETE"}[verb]
	if r.method != "GET" && sub != "exec" {
		r.path += "?dryRun=All"
	}
	return r
}

func (t target) stored(object string) string { return t.kind + " " + object }

// read is a get, with the object that is read.
func (t target) read(object string) Request {
	r := t.request("get", object, "")
	r.content = func(stored map[string]map[string]any) (after, before map[string]any) {
		return stored[t.stored(object)], nil
	}
	return r
}

func (t target) remove(object string) Request {
	r := t.request("delete", object, "")
	r.content = func(stored map[string]map[string]any) (after, before map[string]any) {
		return stored[t.stored(object)], nil
	}
	return r
}

// patch changes an object by a merge patch.
func (t target) patch(object, change string) Request {
	r := t.request("patch", object, "")
	r.name += " " + change
	r.contentType, r.body = mergeType, change
	r.content = func(stored map[string]map[string]any) (after, before map[string]any) {
		before = stored[t.stored(object)]
		return merge(before, parse(change)), before
	}
	return r
}

func (t target) create(body string) Request {
	r := t.request("create", "", "")
	r.name += " " + body
	object := parse(body)
	object["apiVersion"], object["kind"] = strings.TrimPrefix(t.group+"/"+t.version, "/"), t.kind
	r.body = mustJSON(object)
	r.content = func(stored map[string]map[string]any) (after, before map[string]any) {
		if made := stored[r.name]; made != nil {
			return made, nil // with what the server adds to it
		}
		return clone(object), nil
	}
	return r
}

// requests are one of every kind that is told apart.
func requests() (all []Request) {
	configmaps := target{"", "v1", "configmaps", "ConfigMap", "team"}
	secrets := target{"", "v1", "secrets", "Secret", "team"}
	deployments := target{"apps", "v1", "deployments", "Deployment", "team"}
	namespaces := target{"", "v1", "namespaces", "Namespace", ""}
	pods := target{"", "v1", "pods", "Pod", "team"}
	accounts := target{"", "v1", "serviceaccounts", "ServiceAccount", "team"}
	all = append(all,
		configmaps.read("one"), configmaps.read("two"), configmaps.request("list", "", ""), configmaps.remove("one"), configmaps.remove("two"),
		configmaps.create(`{"metadata": {"name": "new", "labels": {"team": "a"}}, "data": {"k": "v"}}`),
		configmaps.create(`{"metadata": {"name": "new", "labels": {"team": "b", "owner": "carol"}}}`),
		configmaps.create(`{"metadata": {"name": "new", "labels": {"team": "a", "env": "prod"}}}`),
		configmaps.patch("one", `{"data": {"k": "w"}}`), configmaps.patch("one", `{"metadata": {"labels": {"team": "b"}}}`),
		configmaps.patch("one", `{"metadata": {"labels": {"env": "prod"}}}`), configmaps.patch("two", `{"metadata": {"annotations": {"x": "y"}}}`),
		configmaps.request("deletecollection", "", ""),
		secrets.request("list", "", ""), secrets.request("get", "s", ""),
		namespaces.read("team"), namespaces.read("other"), namespaces.request("list", "", ""), namespaces.remove("team"),
		namespaces.patch("team", `{"metadata": {"labels": {"env": "prod"}}}`), namespaces.create(`{"metadata": {"name": "newer"}}`),
		deployments.read("web"), deployments.patch("web", `{"spec": {"replicas": 2}}`), deployments.patch("web", `{"metadata": {"labels": {"team": "b"}}}`),
		deployments.patch("web", `{"spec": {"template": {"metadata": {"labels": {"env": "prod"}}}}}`),
	)
	logs := pods.request("get", "shell", "log")
	logs.content = pods.read("shell").content // whose logs they are
	all = append(all, logs)
	status := namespaces.request("patch", "team", "status")
	status.contentType, status.body = mergeType, `{"status": {"phase": "Active"}}`
	all = append(all, status)
	scale := deployments.request("patch", "web", "scale")
	scale.contentType, scale.body = mergeType, `{"spec": {"replicas": 3}}`
	all = append(all, scale)
	apply := configmaps.request("patch", "applied", "")
	apply.name += " (apply that creates)"
	apply.path += "&fieldManager=x"
	apply.contentType, apply.body, apply.also, apply.creates = applyType, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied", "labels": {"team": "a"}}}`, []Request{{verb: "create", resource: "configmaps", object: "applied", namespace: "team"}}, true
	all = append(all, apply)
	for _, verb := range []string{"get", "create"} {
		exec := pods.request(verb, "shell", "exec")
		exec.path += "?command=ls&stdout=true"
		exec.also = []Request{{verb: "create", resource: "pods", sub: "exec", object: "shell", namespace: "team"}}
		all = append(all, exec)
	}
	token := accounts.request("create", "robot", "token")
	token.body = `{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}`
	all = append(all, token)
	victim := Request{name: "impersonate a user", method: "POST", path: "/apis/authentication.k8s.io/v1/selfsubjectreviews?dryRun=All",
		body:   `{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}`,
		header: map[string]string{"Impersonate-User": "victim"}, verb: "impersonate", resource: "users", object: "victim"}
	for _, more := range []struct{ header, value, group, resource, sub, name string }{
		{"Impersonate-Group", "vips", "", "groups", "", "vips"},
		{"Impersonate-Uid", "uid-7", "authentication.k8s.io", "uids", "", "uid-7"},
		{"Impersonate-Extra-Scope", "all", "authentication.k8s.io", "userextras", "scope", "all"},
	} {
		r := victim
		r.name, r.header = "impersonate "+more.resource, map[string]string{"Impersonate-User": "victim", more.header: more.value}
		r.also = []Request{{verb: "impersonate", group: more.group, resource: more.resource, sub: more.sub, object: more.name}}
		all = append(all, r)
	}
	all = append(all, victim)
	return append(all, Request{name: "get /metrics", method: "GET", path: "/metrics", url: "/metrics", verb: "get"})
}
