package explorer

import (
	"net/http"
	"strconv"
)

type historyQuestion struct {
	Namespace string `json:"namespace"`
	User      string `json:"user"`
	Since     string `json:"since"`
}

// history is who changed which policy.
func (h *handler) history(r *http.Request, q historyQuestion) (*answer, error) {
	c := &command{name: []string{"history"}, hidden: []string{"--output=json", "--limit=500"}}
	c.flag("namespace", q.Namespace)
	c.flag("user", q.User)
	c.flag("since", q.Since)
	return h.ask(r.Context(), c)
}

type undoQuestion struct {
	Revision  uint64 `json:"revision"`
	Namespace string `json:"namespace"`
	// Make takes the change back; otherwise it is planned.
	Make bool `json:"make"`
}

// undo plans to take one change back, and does so only if the explorer was started for that and a plan was shown.
func (h *handler) undo(r *http.Request, q undoQuestion) (*answer, error) {
	revision := strconv.FormatUint(q.Revision, 10)
	c := &command{name: []string{"undo"}, words: []string{revision}, hidden: []string{"--output=json"}}
	c.flag("namespace", q.Namespace)
	shown := "undo " + q.Namespace + " " + revision // no YAML: nothing that is pasted is the same
	switch {
	case !q.Make:
	case !h.AllowApply:
		return nil, refused{http.StatusForbidden, "this explorer is read-only: start it with --allow-apply to undo changes"}
	case !h.planned.take(shown):
		return nil, refused{http.StatusConflict, "this undo has not been planned: plan it first"}
	default:
		c.set("yes", true)
	}
	result, err := h.ask(r.Context(), c)
	if err == nil && !q.Make {
		h.planned.add(shown)
	}
	return result, err
}

type lintQuestion struct {
	Severity  string `json:"severity"`
	Namespace string `json:"namespace"`
}

// lint is what is wrong with the policy of the server.
func (h *handler) lint(r *http.Request, q lintQuestion) (*answer, error) {
	c := &command{name: []string{"lint"}, hidden: []string{"--output=json"}}
	c.flag("severity", q.Severity)
	if q.Namespace != "" {
		c.hidden = append(c.hidden, "--namespace="+q.Namespace)
	}
	return h.ask(r.Context(), c)
}
