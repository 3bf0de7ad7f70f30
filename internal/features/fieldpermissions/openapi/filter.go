package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
)

// root is where the list of documents is, with the documents below it.
const root = "/openapi/v3"

// Filter adds notes to the documents below /openapi/v3.
type Filter struct {
	Next http.Handler
	// Notary knows what to say.
	Notary Notary

	mu sync.Mutex
	// made are the documents with notes, the last one of each group version.
	made map[string]*version
}

// Notary knows what to say about a group version at the moment of a request.
type Notary interface {
	// Notes are nil if there is nothing.
	Notes(ctx context.Context, gv schema.GroupVersion) *Notes
}

// version is one document with its notes. Upstream's own service negotiates, encodes and keeps the encoded forms.
type version struct {
	hash    string
	service *handler3.OpenAPIService
}

// ServeHTTP implements http.Handler.
func (f *Filter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	below, ok := strings.CutPrefix(r.URL.Path, root)
	if !ok || r.Method != http.MethodGet && r.Method != http.MethodHead {
		f.Next.ServeHTTP(w, r)
		return
	}
	if below == "" {
		f.list(w, r)
		return
	}
	name := strings.TrimPrefix(below, "/")
	notes := f.notes(r.Context(), name)
	if notes == nil {
		f.Next.ServeHTTP(w, r)
		return
	}
	v := f.document(r, name, notes)
	if v == nil {
		f.Next.ServeHTTP(w, r)
		return
	}
	v.serve(w, r)
}

// notes are those of the group version that a document is about.
func (f *Filter) notes(ctx context.Context, name string) *Notes {
	if name == "api/v1" {
		return f.Notary.Notes(ctx, schema.GroupVersion{Version: "v1"})
	}
	text, ok := strings.CutPrefix(name, "apis/")
	if gv, err := schema.ParseGroupVersion(text); ok && err == nil && gv.Group != "" {
		return f.Notary.Notes(ctx, gv)
	}
	return nil // a list of versions, or what is served beside the API
}

// document is the document with its notes; nil if upstream has none that can be read.
func (f *Filter) document(r *http.Request, name string, notes *Notes) *version {
	head := f.ask(r, http.MethodHead)
	etag := strings.Trim(head.header.Get("Etag"), `"`)
	if head.status != http.StatusOK || etag == "" {
		return nil
	}
	hash := etag + "-" + notes.mark
	f.mu.Lock()
	defer f.mu.Unlock()
	if v := f.made[name]; v != nil && v.hash == hash {
		return v
	}
	whole := f.ask(r, http.MethodGet)
	if whole.status != http.StatusOK {
		return nil
	}
	document := &spec3.OpenAPI{}
	if err := json.Unmarshal(whole.body.Bytes(), document); err != nil {
		klog.V(2).InfoS("Field permissions are not shown: an OpenAPI document cannot be read", "document", name, "err", err)
		return nil
	}
	notes.Write(document)
	v := &version{hash: strings.Trim(whole.header.Get("Etag"), `"`) + "-" + notes.mark, service: handler3.NewOpenAPIService()}
	v.service.UpdateGroupVersion(name, document)
	if f.made == nil {
		f.made = map[string]*version{}
	}
	f.made[name] = v
	return v
}

// serve answers as upstream does: what is asked for by its hash may be kept for ever, and a client with another hash is
// sent on.
func (v *version) serve(w http.ResponseWriter, r *http.Request) {
	if asked := r.URL.Query().Get("hash"); asked != "" {
		if asked != v.hash {
			//nolint:gosec // the path is that of a document that this handler serves, as upstream redirects it
			http.Redirect(w, r, withHash(r.URL.Path, v.hash), http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).Format(time.RFC1123))
	}
	plain := r.Clone(r.Context())
	plain.URL.RawQuery = "" // the service's own hash is of the text that it makes
	v.service.HandleGroupVersion(w, plain)
}

func withHash(path, hash string) string {
	u := url.URL{Path: path, RawQuery: url.Values{"hash": {hash}}.Encode()}
	return u.String()
}

// list serves the list of documents with the hashes that they have with their notes.
func (f *Filter) list(w http.ResponseWriter, r *http.Request) {
	answer := f.ask(r, http.MethodGet)
	var all handler3.OpenAPIV3Discovery
	if answer.status != http.StatusOK || json.Unmarshal(answer.body.Bytes(), &all) != nil {
		f.Next.ServeHTTP(w, r)
		return
	}
	for name, item := range all.Paths {
		u, err := url.Parse(item.ServerRelativeURL)
		if err != nil || u.Query().Get("hash") == "" {
			continue
		}
		if notes := f.notes(r.Context(), name); notes != nil {
			all.Paths[name] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: withHash(u.Path, u.Query().Get("hash")+"-"+notes.mark)}
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		f.Next.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	http.ServeContent(w, r, root, time.Now(), bytes.NewReader(text))
}

// ask asks upstream for JSON, whatever the caller wants and has.
func (f *Filter) ask(r *http.Request, method string) *answer {
	plain := r.Clone(r.Context())
	plain.Method, plain.URL.RawQuery, plain.RequestURI = method, "", plain.URL.Path
	for _, name := range []string{"If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since", "If-Range", "Range", "Accept-Encoding"} {
		plain.Header.Del(name)
	}
	plain.Header.Set("Accept", "application/json")
	a := &answer{header: http.Header{}}
	f.Next.ServeHTTP(a, plain)
	return a
}

// answer is a response that is kept.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}
