package differ

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
)

// Request is one that is sent to both.
type Request struct {
	User        string
	Groups      []string
	Method      string
	Path        string
	ContentType string
	Body        string
	// Verb and Resource are what policy calls it. Connects tells a connection, which nothing answers here.
	Verb, Resource string
	Connects       bool
}

func (r *Request) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %v: %s %s %s", r.User, r.Groups, r.Method, r.Path, r.Body))
}

const (
	asJSON  = "application/json"
	asMerge = "application/merge-patch+json"
	asPatch = "application/json-patch+json"
	asApply = "application/apply-patch+yaml"
)

// requests makes random ones.
type requests struct{ *rand.Rand }

func (g requests) pick(from ...string) string { return from[g.IntN(len(from))] }

// next is one more.
func (g requests) next() *Request {
	r := &Request{User: g.pick(users...), Method: http.MethodGet}
	for _, group := range groups {
		if g.IntN(4) == 0 {
			r.Groups = append(r.Groups, group)
		}
	}
	if g.IntN(5) == 0 {
		g.subresource(r)
		return r
	}
	k := kinds[g.IntN(len(kinds))]
	place := k.places()[g.IntN(len(k.places()))]
	base := k.path(place)
	name := g.pick(append([]string{"missing"}, objects...)...)
	r.Resource = k.qualified()
	query := url.Values{}
	switch r.Verb = g.pick("get", "list", "create", "create", "update", "patch", "apply", "delete", "deletecollection", "watch"); r.Verb {
	case "get":
		r.Path = base + "/" + name
		return r
	case "list", "watch":
		if g.IntN(2) == 0 {
			query.Set("labelSelector", g.pick("size=small", "size=big", "!owner", "tier"))
		}
		if g.IntN(4) == 0 {
			query.Set("fieldSelector", "metadata.name="+name)
		}
		if r.Verb == "watch" {
			if g.IntN(20) > 0 { // most of them are lists: a watch takes a second
				r.Verb = "list"
			} else {
				query.Set("watch", "true")
				query.Set("timeoutSeconds", "1")
			}
		}
		r.Path = base + "?" + query.Encode()
		return r
	case "create":
		r.Method, r.Path, r.Body = http.MethodPost, base, k.object(place, g.pick("new", "new", "big", name), g.labels())
	case "update":
		r.Method, r.Path, r.Body = http.MethodPut, base+"/"+name, k.object(place, name, g.labels())
	case "patch":
		r.Method, r.Path = http.MethodPatch, base+"/"+name
		r.ContentType, r.Body = asMerge, fmt.Sprintf(`{"metadata":{"labels":%s}}`, g.labels())
		if g.IntN(3) == 0 {
			r.ContentType, r.Body = asPatch, fmt.Sprintf(`[{"op":"add","path":"/metadata/labels/%s","value":"b"}]`, g.pick("size", "owner", "tier", "y.example.com~1a", "free"))
		}
	case "apply":
		r.Verb, r.Method, r.Path, r.ContentType, r.Body = "patch", http.MethodPatch, base+"/"+name, asApply, k.object(place, name, g.labels())
		query.Set("fieldManager", "differ")
		query.Set("force", "true")
	case "delete":
		r.Method, r.Path = http.MethodDelete, base+"/"+name
	case "deletecollection":
		r.Method, r.Path = http.MethodDelete, base
		if g.IntN(2) == 0 {
			query.Set("labelSelector", g.pick("size=small", "size=big", "!owner", "tier"))
		}
	}
	query.Set("dryRun", "All")
	r.Path += "?" + query.Encode()
	return r
}

func (k kind) path(namespace string) string {
	base := "/api/" + k.version
	if k.group != "" {
		base = "/apis/" + k.group + "/" + k.version
	}
	if namespace != "" {
		base += "/namespaces/" + namespace
	}
	return base + "/" + k.resource
}

// labels are random ones, some of which are protected or exclusive.
func (g requests) labels() string {
	all := []string{fmt.Sprintf(`"size":%q`, g.pick("small", "big", "huge"))}
	for _, label := range []string{`"owner":"a"`, `"owner":"b"`, `"tier":"gold"`, `"tier":"lead"`, `"y.example.com/a":"1"`, `"free":"1"`} {
		key, _, _ := strings.Cut(label, ":")
		if g.IntN(6) == 0 && !strings.Contains(strings.Join(all, ","), key) {
			all = append(all, label)
		}
	}
	return "{" + strings.Join(all, ",") + "}"
}

// subresource makes a request to one.
func (g requests) subresource(r *Request) {
	place, name := g.pick(namespaces...), g.pick(append([]string{"missing"}, objects...)...)
	pods, deployments := "/api/v1/namespaces/"+place+"/pods/"+name, "/apis/apps/v1/namespaces/"+place+"/deployments/"+name
	set := func(verb, method, path, contentType, body string) {
		r.Verb, r.Method, r.Path, r.ContentType, r.Body = verb, method, path, contentType, body
		if method != http.MethodGet && !r.Connects {
			r.Path += "?dryRun=All"
		}
	}
	r.Resource = g.pick("pods/exec", "pods/proxy", "pods/log", "pods/status", "pods/eviction", "pods/binding", "deployments/scale.apps", "deployments/status.apps", "serviceaccounts/token")
	switch r.Resource {
	case "pods/exec":
		r.Connects = true
		if g.IntN(2) == 0 {
			set("get", http.MethodGet, pods+"/exec?command=id&stdout=true", "", "")
		} else {
			set("create", http.MethodPost, pods+"/exec?command=id&stdout=true", "", "")
		}
	case "pods/proxy":
		r.Connects = true
		set("get", http.MethodGet, pods+"/proxy/", "", "")
	case "pods/log":
		r.Connects = true
		set("get", http.MethodGet, pods+"/log", "", "")
	case "pods/status", "deployments/status.apps":
		path := pods
		if r.Resource != "pods/status" {
			path = deployments
		}
		set("patch", http.MethodPatch, path+"/status", asMerge, fmt.Sprintf(`{"metadata":{"labels":%s}}`, g.labels()))
	case "pods/eviction":
		set("create", http.MethodPost, pods+"/eviction", asJSON, fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q,"namespace":%q},"deleteOptions":{"dryRun":["All"]}}`, name, place))
	case "pods/binding":
		set("create", http.MethodPost, pods+"/binding", asJSON, fmt.Sprintf(`{"apiVersion":"v1","kind":"Binding","metadata":{"name":%q,"labels":%s},"target":{"kind":"Node","name":"small"}}`, name, g.labels()))
	case "deployments/scale.apps":
		if g.IntN(3) == 0 {
			set("get", http.MethodGet, deployments+"/scale", "", "")
		} else {
			set("patch", http.MethodPatch, deployments+"/scale", asMerge, `{"spec":{"replicas":3}}`)
		}
	case "serviceaccounts/token":
		set("create", http.MethodPost, "/api/v1/namespaces/"+place+"/serviceaccounts/"+name+"/token", asJSON, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":["x"]}}`)
	}
}
