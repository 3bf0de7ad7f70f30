package explorer

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// action is what most screens ask about.
type action struct {
	Verb        string `json:"verb"`
	Resource    string `json:"resource"`
	Name        string `json:"name"`
	Subresource string `json:"subresource"`
	Namespace   string `json:"namespace"`
}

// put adds the action to a command: in a namespace, or in all of them at once.
func (a action) put(c *command) error {
	if a.Verb == "" || a.Resource == "" {
		return refused{http.StatusBadRequest, "name a verb and a resource"}
	}
	what := a.Resource
	if a.Name != "" {
		what += "/" + a.Name
	}
	c.words = []string{a.Verb, what}
	c.flag("subresource", a.Subresource)
	if strings.HasPrefix(a.Resource, "/") {
		return nil
	}
	if a.Namespace == "" {
		c.set("all-namespaces", true)
	} else {
		c.flag("namespace", a.Namespace)
	}
	return nil
}

type whoCanQuestion struct {
	action
	Filter     string `json:"filter"`
	Limit      int    `json:"limit"`
	Continue   string `json:"continue"`
	HideSystem bool   `json:"hideSystem"`
}

// whoCan asks for one part of the answer, never for all of it (EX-3).
func (h *handler) whoCan(r *http.Request, q whoCanQuestion) (*answer, error) {
	c := &command{name: []string{"who-can"}, hidden: []string{"--output=json", "--rules"}}
	if err := q.put(c); err != nil {
		return nil, err
	}
	c.set("blocked", true)
	c.flag("filter", q.Filter)
	c.set("hide-system", q.HideSystem)
	if q.Limit <= 0 || q.Limit > 1000 {
		q.Limit = 100
	}
	c.hidden = append(c.hidden, "--limit="+strconv.Itoa(q.Limit))
	if q.Continue != "" {
		c.hidden = append(c.hidden, "--continue="+q.Continue)
	}
	return h.ask(r.Context(), c)
}

type whyQuestion struct {
	action
	Subject string `json:"subject"`
	// Object is the object, pasted; Stored reads it from the server instead.
	Object string `json:"object"`
	Stored bool   `json:"stored"`
}

func (h *handler) why(r *http.Request, q whyQuestion) (*answer, error) {
	c := &command{name: []string{"explain"}, hidden: []string{"--output=json"}}
	if err := q.put(c); err != nil {
		return nil, err
	}
	c.subject(q.Subject)
	c.set("stored", q.Stored)
	if strings.TrimSpace(q.Object) != "" {
		c.flag("filename", "-")
		c.in = q.Object
	}
	return h.ask(r.Context(), c)
}

type matrixQuestion struct {
	Subjects   []string `json:"subjects"`
	Namespaces []string `json:"namespaces"`
	Resources  []string `json:"resources"`
}

// matrix asks the engine, with the policy of the server: a user who may not read all of it gets an error, and can ask
// for their own rights.
func (h *handler) matrix(r *http.Request, q matrixQuestion) (*answer, error) {
	if len(q.Subjects)+len(q.Namespaces) == 0 {
		return nil, refused{http.StatusBadRequest, "name a subject or a namespace"}
	}
	c := &command{name: []string{"matrix"}, hidden: []string{"--output=json", "--limit=100"}}
	for _, list := range []struct {
		flag   string
		values []string
	}{{"", q.Subjects}, {"namespace", q.Namespaces}, {"resource", q.Resources}} {
		for _, value := range list.values {
			if strings.ContainsAny(value, ",\"") {
				return nil, refused{http.StatusBadRequest, strconv.Quote(value) + ": commas and quotes cannot be asked about here"}
			}
			if list.flag == "" {
				c.subject(value)
			} else {
				c.flag(list.flag, value)
			}
		}
	}
	return h.ask(r.Context(), c)
}

// rights is what the caller can do, which every user may ask.
func (h *handler) rights(r *http.Request, q struct {
	Namespace string `json:"namespace"`
}) (*answer, error) {
	c := &command{name: []string{"can-i"}, hidden: []string{"--output=json"}}
	c.set("list", true)
	c.flag("namespace", q.Namespace)
	return h.ask(r.Context(), c)
}

// access is what was asked for.
func (h *handler) access(r *http.Request, q struct {
	Namespace string `json:"namespace"`
}) (*answer, error) {
	c := &command{name: []string{"access", "list"}, hidden: []string{"--output=json"}}
	c.somewhere(q.Namespace)
	return h.ask(r.Context(), c)
}

// shadow is what rules that are not enforced would have done.
func (h *handler) shadow(r *http.Request, q struct {
	Namespace string `json:"namespace"`
}) (*answer, error) {
	c := &command{name: []string{"shadow"}, hidden: []string{"--output=json"}}
	c.somewhere(q.Namespace)
	return h.ask(r.Context(), c)
}

// somewhere asks about a namespace, or about all of them.
func (c *command) somewhere(namespace string) {
	if namespace == "" {
		c.set("all-namespaces", true)
		return
	}
	c.flag("namespace", namespace)
}

type planQuestion struct {
	YAML   string `json:"yaml"`
	Delete bool   `json:"delete"`
}

// planned remembers the changes whose plan was shown: nothing else is applied (EX-1).
type planned struct {
	mu   sync.Mutex
	sums map[[sha256.Size]byte]bool
}

func (p *planned) add(yaml string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sums == nil || len(p.sums) > 1000 {
		p.sums = map[[sha256.Size]byte]bool{}
	}
	p.sums[sha256.Sum256([]byte(yaml))] = true
}

// take reports whether a plan was shown. It counts once: the policy is another one afterwards.
func (p *planned) take(yaml string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := sha256.Sum256([]byte(yaml))
	shown := p.sums[sum]
	delete(p.sums, sum)
	return shown
}

func (h *handler) plan(r *http.Request, q planQuestion) (*answer, error) {
	c := &command{name: []string{"plan"}, hidden: []string{"--output=json", "--limit=100"}, in: q.YAML}
	c.flag("filename", "-")
	c.set("delete", q.Delete)
	result, err := h.ask(r.Context(), c)
	if err == nil && !q.Delete {
		h.planned.add(q.YAML)
	}
	return result, err
}

type auditQuestion struct {
	User     string `json:"user"`
	Verb     string `json:"verb"`
	Resource string `json:"resource"`
}

// audit sends events as they happen, one line of JSON each, until the page goes away. They come from the server's own
// stream, for users who may read it.
func (h *handler) audit(w http.ResponseWriter, r *http.Request) {
	var q auditQuestion
	if err := decode(r.Body, &q); err != nil {
		fail(w, http.StatusBadRequest, "the question cannot be read: "+err.Error())
		return
	}
	c := &command{name: []string{"audit", "tail"}, hidden: append([]string{"--output=json"}, h.identity...)}
	c.flag("user", q.User)
	c.flag("verb", q.Verb)
	c.flag("resource", q.Resource)
	if err := c.check(); err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	lines, out := io.Pipe()
	words, errOut := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- h.run(ctx, c.args(), strings.NewReader(""), out, errOut)
		_ = out.Close()
		_ = errOut.Close()
	}()
	defer func() {
		_, _ = lines.Close(), words.Close()
	}()
	s := &stream{w: w}
	s.send(map[string]any{"command": c.String()})
	var both sync.WaitGroup
	both.Go(func() {
		s.copy(words, func(line []byte) any { return map[string]string{"note": strings.TrimSpace(string(line))} })
	})
	both.Go(func() {
		s.copy(lines, func(line []byte) any { return map[string]json.RawMessage{"event": line} })
	})
	both.Wait()
	s.send(map[string]any{"end": <-code})
}

// stream writes lines, each at once.
type stream struct {
	mu sync.Mutex
	w  http.ResponseWriter
}

func (s *stream) send(value any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.w.Header().Set("Content-Type", "application/x-ndjson")
	_ = json.NewEncoder(s.w).Encode(value)
	_ = http.NewResponseController(s.w).Flush()
}

func (s *stream) copy(from io.Reader, as func([]byte) any) {
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 1 {
			s.send(as(line))
		}
		if errors.Is(err, io.EOF) || err != nil {
			return
		}
	}
}
