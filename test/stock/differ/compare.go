package differ

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// End is one of the two servers, with a client of a member of system:masters.
type End struct {
	URL    string
	Client *http.Client
}

// answer is what one of them says.
type answer struct {
	code    int
	message string
	// names are those of the objects in a list.
	names []string
}

func (a answer) String() string { return fmt.Sprintf("%d %s %v", a.code, a.message, a.names) }

// passes reports whether a request has got by everything that can refuse it. Nothing answers a connection here, so that
// whatever comes back but a refusal shows that it was let pass.
func (a answer) passes(r *Request) bool {
	if r.Connects {
		return a.code != http.StatusForbidden && a.code != http.StatusUnauthorized && a.code != http.StatusNotFound
	}
	return a.code/100 == 2
}

func (e End) send(ctx context.Context, r *Request) (a answer, err error) {
	code, body, err := e.ask(ctx, r)
	if err != nil {
		return a, err
	}
	a.code = code
	a.read(r, body)
	return a, nil
}

// ask sends a request, as the cluster admin if it has no user.
func (e End) ask(ctx context.Context, r *Request) (code int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, r.Method, e.URL+r.Path, strings.NewReader(r.Body))
	if err != nil {
		return 0, nil, err
	}
	if r.User != "" {
		request.Header.Set("Impersonate-User", r.User)
	}
	for _, group := range r.Groups {
		request.Header.Add("Impersonate-Group", group)
	}
	request.Header.Set("Content-Type", asJSON)
	if r.ContentType != "" {
		request.Header.Set("Content-Type", r.ContentType)
	}
	response, err := e.Client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err = io.ReadAll(response.Body)
	return response.StatusCode, body, err
}

// read takes the message of a refusal, or the names in a list, out of a body. Only those that every world has count:
// servers make objects of their own.
func (a *answer) read(r *Request, body []byte) {
	type named struct {
		Metadata struct{ Name string }
	}
	var said struct {
		Message string
		Items   []named
	}
	switch {
	case a.code/100 != 2:
		if json.Unmarshal(body, &said) == nil {
			a.message = said.Message
		}
	case r.Verb == "list":
		_ = json.Unmarshal(body, &said)
	case r.Verb == "watch":
		for line := range bytes.Lines(body) {
			var event struct {
				Type   string
				Object named
			}
			if json.Unmarshal(line, &event) == nil && event.Type == "ADDED" {
				said.Items = append(said.Items, event.Object)
			}
		}
	default:
		return
	}
	for _, one := range said.Items {
		if slices.Contains(objects, one.Metadata.Name) {
			a.names = append(a.names, one.Metadata.Name)
		}
	}
	slices.Sort(a.names)
}

// Result is what came of a run.
type Result struct {
	Requests, BothPass, BothRefuse int
	// Stricter are those that only the pair refuses, and Looser those that only the server does, by the kind that the
	// guide lists.
	Stricter, Looser map[string]int
	// Wrong are those that should not be.
	Wrong []string
}

func (r *Result) String() string {
	return fmt.Sprintf("%d requests: %d pass both, %d pass neither, refused by the pair alone: %v, by the server alone: %v", r.Requests, r.BothPass, r.BothRefuse, r.Stricter, r.Looser)
}

// Add puts two results together.
func (r *Result) Add(o *Result) {
	r.Requests, r.BothPass, r.BothRefuse = r.Requests+o.Requests, r.BothPass+o.BothPass, r.BothRefuse+o.BothRefuse
	if r.Stricter == nil {
		r.Stricter, r.Looser = map[string]int{}, map[string]int{}
	}
	for kind, n := range o.Stricter {
		r.Stricter[kind] += n
	}
	for kind, n := range o.Looser {
		r.Looser[kind] += n
	}
	r.Wrong = append(r.Wrong, o.Wrong...)
}

// Compare sends random requests to both, several at a time.
func (w *World) Compare(ctx context.Context, server, pair End, n, lanes int) (*Result, error) {
	var mu sync.Mutex
	var done sync.WaitGroup
	all, failed := &Result{}, make(chan error, lanes)
	for lane := range lanes {
		done.Go(func() {
			g := requests{rand.New(rand.NewPCG(w.seed, uint64(lane)))}
			mine := &Result{Stricter: map[string]int{}, Looser: map[string]int{}}
			for range (n + lanes - 1 - lane) / lanes {
				if err := w.compare(ctx, mine, server, pair, g.next()); err != nil {
					failed <- err
					return
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all.Add(mine)
		})
	}
	done.Wait()
	select {
	case err := <-failed:
		return nil, err
	default:
		return all, nil
	}
}

// attempts is how often a request is sent again that was refused for the sake of a moment.
const attempts = 300

func (w *World) compare(ctx context.Context, into *Result, server, pair End, r *Request) error {
	there, err := server.send(ctx, r)
	if err != nil {
		return fmt.Errorf("the server: %w", err)
	}
	var here answer
	for range attempts {
		if here, err = pair.send(ctx, r); err != nil {
			return fmt.Errorf("the pair: %w", err)
		}
		if !strings.Contains(here.message, "at the moment") && !strings.Contains(here.message, "has not heard from etcd") {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond): // a canary is late, or the machine so busy that watches stand still
		}
	}
	into.Requests++
	switch passes, should := here.passes(r), there.passes(r); {
	case passes && !should && here.code == http.StatusCreated && (r.Verb == "update" || r.Verb == "patch"):
		into.Looser["an update or apply that creates is checked as both"]++
	case passes && !should && w.managed && managedLooser(r, there) != "":
		into.Looser[managedLooser(r, there)]++
	case passes && !should:
		into.Wrong = append(into.Wrong, fmt.Sprintf("the pair allows what the server refuses\n  %s\n  server: %s\n  pair:   %s", r, there, here))
	case passes:
		into.BothPass++
		if missing := slices.DeleteFunc(slices.Clone(here.names), func(name string) bool { return slices.Contains(there.names, name) }); len(missing) > 0 {
			into.Wrong = append(into.Wrong, fmt.Sprintf("the pair shows %v, which the server does not\n  %s\n  server: %s\n  pair:   %s", missing, r, there, here))
		}
	case should:
		kind := w.listed(r, here)
		if kind == "" {
			if kind, err = asTheOther(ctx, server, r); err != nil {
				return err
			}
		}
		if kind != "" {
			into.Stricter[kind]++
		} else {
			into.Wrong = append(into.Wrong, fmt.Sprintf("the pair refuses what the server allows, and the guide does not list it\n  %s\n  server: %s\n  pair:   %s", r, there, here))
		}
	default:
		into.BothRefuse++
	}
	return nil
}

// listed is the kind of what only the pair refuses, by the words of the guide; empty if it lists none such.
func (w *World) listed(r *Request, here answer) string {
	if w.managed {
		return w.managedListed(r, here)
	}
	if here.code != http.StatusForbidden {
		return ""
	}
	says := func(text string) bool { return strings.Contains(here.message, text) }
	switch {
	case slices.Contains([]string{"get", "list", "watch"}, r.Verb) && (says("cannot be used for get") || says("needs a label or field selector") || says("cannot be used for this verb")):
		return "reads under a condition show what may be seen"
	case r.Resource == "nodes" && (says("cannot be used for nodes") || says(`in API group "" at the cluster scope`)):
		return "conditions on `nodes` and on proxies"
	case r.Resource == "pods/eviction" && says("denied the request"):
		return "the pod that an eviction deletes is looked up"
	case says("the rule is gone"): // it was there in the world before
		return "authorization and admission decide by one policy"
	case says("whether the garbage collector would perform one of them"):
		return "what a delete would delete further is looked up"
	}
	return ""
}
