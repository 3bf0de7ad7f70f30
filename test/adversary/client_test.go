package adversary

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path"
	"strings"
	"time"

	"proviso.dev/proviso/test/adversary/game"
)

const (
	jsonType  = "application/json"
	mergeType = "application/merge-patch+json"
	applyType = "application/apply-patch+yaml"
)

// call is a request to the server.
type call struct {
	method, path, query, contentType string
	body                             any
}

// answer is what came back. A request that was not answered has the code 0.
type answer struct {
	code int
	body []byte
}

func (a answer) ok() bool { return a.code >= 200 && a.code < 300 }

func (a answer) object() map[string]any {
	var out map[string]any
	_ = json.Unmarshal(a.body, &out)
	return out
}

// who makes requests: a user whom the front proxy vouches for, or the bearer of a token.
type who struct {
	user   string
	groups []string
	token  string
	// as is whom he impersonates.
	as string
}

// patience bounds every request, and waiting for what may never happen.
const patience = 30 * time.Second

func send(client *http.Client, url string, w *who, c call) answer {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var body io.Reader
	if c.body != nil {
		raw, err := json.Marshal(c.body)
		if err != nil {
			return answer{body: []byte(err.Error())}
		}
		body = bytes.NewReader(raw)
	}
	target := url + c.path
	if c.query != "" {
		target += "?" + c.query
	}
	req, err := http.NewRequestWithContext(ctx, c.method, target, body)
	if err != nil {
		return answer{body: []byte(err.Error())}
	}
	if c.contentType == "" {
		c.contentType = jsonType
	}
	req.Header.Set("Content-Type", c.contentType)
	req.Header.Set("Accept", jsonType)
	if w != nil {
		if w.token != "" {
			req.Header.Set("Authorization", "Bearer "+w.token)
		} else {
			req.Header.Set("X-Remote-User", w.user)
			for _, g := range w.groups {
				req.Header.Add("X-Remote-Group", g)
			}
		}
		if w.as != "" {
			req.Header.Set("Impersonate-User", w.as)
		}
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{body: []byte(err.Error())}
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{body: []byte(err.Error())}
	}
	return answer{code: resp.StatusCode, body: out}
}

// by makes a request as somebody.
func (h *host) by(w who, c call) answer {
	if w.token != "" {
		return send(h.anonymous, h.url, &w, c)
	}
	return send(h.proxy, h.url, &w, c)
}

// sudo makes a request as an admin.
func (h *host) sudo(method, at string, body any) answer {
	c := call{method: method, path: at, body: body}
	if method == "PATCH" {
		c.contentType = mergeType
	}
	return send(h.admin, h.url, nil, c)
}

// place is the path of an object, or of a collection if it has no name.
func (h *hunt) place(resource, ns, name string) string {
	r := h.resource(resource)
	_, sub, _ := strings.Cut(resource, "/")
	root := "/apis/" + r.Group + "/" + r.Version
	if r.Group == "" {
		root = "/api/" + r.Version
	}
	if r.Namespaced && ns != "" {
		root = path.Join(root, "namespaces", ns)
	}
	return path.Join(root, r.Plural, name, sub)
}

// resource is what the server serves under a name, custom resources included.
func (h *hunt) resource(name string) game.Resource {
	r, known := h.catalog.Find(name)
	if !known {
		if custom, ok := h.custom[r.String()]; ok {
			return custom
		}
	}
	return r
}

// get reads an object as an admin; nil if there is none. A server that is busy, or that takes in a definition, is asked
// again.
func (h *hunt) get(ref game.Ref) map[string]any {
	a := h.sudo("GET", h.place(ref.Resource, ref.NS, ref.Name), nil)
	for deadline := time.Now().Add(patience); (a.code == http.StatusServiceUnavailable || a.code == http.StatusTooManyRequests) && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
		a = h.sudo("GET", h.place(ref.Resource, ref.NS, ref.Name), nil)
	}
	if !a.ok() {
		return nil
	}
	return a.object()
}
