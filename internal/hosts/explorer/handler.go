package explorer

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/hosts/explorer/page"
)

// Config is what the page is served with.
type Config struct {
	// Run runs a command of proviso.
	Run Run
	// Identity are the flags that say whom a command asks as and which server: those of kubectl.
	Identity []string
	// Rest is the same as a configuration of a client.
	Rest *rest.Config
	// Context and Namespace are the kubeconfig's, and Version is of this program.
	Context, Namespace, Version string
	// AllowApply lets the page apply what it has planned. Otherwise it writes nothing.
	AllowApply bool
	// Now is the clock; nil is the real one.
	Now func() time.Time
}

// handler answers the page.
type handler struct {
	Config
	run      Run
	identity []string
	guard    *guard
	schemas  *schemas
	planned  *planned
}

// maxBody is the largest question: an object, or a change of policy.
const maxBody = 4 << 20

// New returns what serves the page, and the token that opens it.
func New(cfg Config) (http.Handler, string, error) {
	if cfg.Run == nil || cfg.Rest == nil {
		return nil, "", errors.New("explorer: nothing to ask")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	h := &handler{Config: cfg, run: cfg.Run, identity: cfg.Identity, guard: newGuard(cfg.Now), schemas: &schemas{}, planned: &planned{}}
	mux := http.NewServeMux()
	for name, answer := range h.questions() {
		mux.Handle("POST /api/"+name, h.inSession(answer))
	}
	mux.Handle("POST /api/audit", h.inSession(h.audit))
	mux.HandleFunc("GET /assets/", h.asset)
	mux.HandleFunc("GET /", h.page)
	return local(mux), h.guard.token, nil
}

// questions are the answers of the screens by their path, the one list that there is. Each gets the question as JSON.
func (h *handler) questions() map[string]func(http.ResponseWriter, *http.Request) {
	return map[string]func(http.ResponseWriter, *http.Request){
		"session":    answered(h.session),
		"resources":  answered(h.resources),
		"objects":    answered(h.objects),
		"object":     answered(h.object),
		"fields":     answered(h.fields),
		"who-can":    answered(h.whoCan),
		"why":        answered(h.why),
		"matrix":     answered(h.matrix),
		"rights":     answered(h.rights),
		"plan":       answered(h.plan),
		"apply":      answered(h.apply),
		"playground": answered(h.playground),
		"shadow":     answered(h.shadow),
		"access":     answered(h.access),
		"history":    answered(h.history),
		"undo":       answered(h.undo),
		"lint":       answered(h.lint),
	}
}

// inSession turns away requests without a session.
func (h *handler) inSession(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.guard.admits(r) {
			fail(w, http.StatusUnauthorized, "this page has no session, or it has ended: run proviso explorer again and open the printed address")
			return
		}
		if mime, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); mime != "application/json" {
			fail(w, http.StatusUnsupportedMediaType, "want application/json")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next(w, r)
	})
}

// answered decodes a question and encodes its answer.
func answered[Q any, A any](answer func(*http.Request, Q) (A, error)) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		var question Q
		if err := decode(r.Body, &question); err != nil {
			fail(w, http.StatusBadRequest, "the question cannot be read: "+err.Error())
			return
		}
		result, err := answer(r, question)
		if err != nil {
			fail(w, statusOf(err), err.Error())
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(result)
	}
}

func decode(body io.Reader, into any) error {
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// refused is an answer that the explorer itself gives.
type refused struct {
	status int
	words  string
}

func (e refused) Error() string { return e.words }

func statusOf(err error) int {
	var own refused
	var api apierrors.APIStatus
	switch {
	case errors.As(err, &own):
		return own.status
	case errors.As(err, &api) && api.Status().Code >= 400:
		return http.StatusUnprocessableEntity
	case strings.Contains(err.Error(), "connection refused"), strings.Contains(err.Error(), "does not answer"):
		return http.StatusBadGateway
	}
	return http.StatusUnprocessableEntity
}

// fail answers with words that the page shows as text.
func fail(w http.ResponseWriter, status int, words string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": words})
}

// Screens are the paths of the page. Any explorer opens them; the question is in the query.
var Screens = []string{"who-can", "why", "person", "matrix", "plan", "access", "history", "lint", "audit", "playground", "shadow"}

// page serves the page itself, at the path of every screen. It holds nothing secret: without a session it can ask
// nothing.
func (h *handler) page(w http.ResponseWriter, r *http.Request) {
	if token := r.URL.Query().Get("token"); token != "" {
		key, ok := h.guard.enter(w, token)
		if !ok {
			// The page says it in a better way.
			http.Redirect(w, r, "/?used=1", http.StatusSeeOther)
			return
		}
		http.Redirect(w, r, "/who-can#key="+key, http.StatusSeeOther)
		return
	}
	name := strings.Trim(r.URL.Path, "/")
	if name != "" && !slices.Contains(Screens, name) {
		h.serveAs(w, "index.html", http.StatusNotFound) // the page says so, with all screens around it
		return
	}
	h.serve(w, "index.html")
}

func (h *handler) asset(w http.ResponseWriter, r *http.Request) {
	h.serve(w, strings.TrimPrefix(r.URL.Path, "/assets/"))
}

// mimeTypes are those of the assets.
var mimeTypes = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

func (h *handler) serve(w http.ResponseWriter, name string) { h.serveAs(w, name, http.StatusOK) }

func (h *handler) serveAs(w http.ResponseWriter, name string, status int) {
	data, err := fs.ReadFile(page.Files, name)
	typ, known := mimeTypes[path.Ext(name)]
	if err != nil || !known {
		http.Error(w, "Page not found.", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", typ)
	w.WriteHeader(status)
	_, _ = w.Write(data) //nolint:gosec // a file of ours, that the name has only chosen
}
