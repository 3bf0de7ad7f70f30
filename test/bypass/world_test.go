package bypass

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// world is the server, what it serves, and everybody who hunts on it.
type world struct {
	*host
	ctx       context.Context
	ledger    *ledger
	root      *caller // system:masters
	stubs     stubs
	endpoints []endpoint
	// partial: only some endpoints are tried, for somebody who looks into one of them.
	partial bool
	backend *backend
	sink    *sink
	numbers atomic.Int64
	// brokenOnes counts requests that fail whoever makes them.
	brokenOnes atomic.Int64

	mu       sync.Mutex
	tried    map[string]map[string]bool // system → endpoint and verb
	attempts map[string]int
	// never lists objects that must not come into being, and prefixes of names that must not be generated.
	never map[schema.GroupResource][]string
}

// newWorld starts the server and gives it a custom resource, another API server, a webhook and an audit sink.
func newWorld(t *testing.T) *world {
	t.Helper()
	h := serve(t)
	w := &world{host: h, ctx: t.Context(), ledger: &ledger{}, stubs: allStubs(t), tried: map[string]map[string]bool{}, attempts: map[string]int{}, never: map[schema.GroupResource][]string{}}
	w.root = newCaller(t, h.admin, "admin", &ledger{})
	w.sink = w.installSink(t)
	w.installWidgets()
	w.backend = w.installBackend(t)
	w.installWebhook(t)
	w.installPolicy()
	w.await("discovery of everything", func() bool {
		var lists struct{ Resources []any }
		return json.Unmarshal(w.admins("GET", "/apis/hunt.example.com/v2", nil).answer, &lists) == nil && len(lists.Resources) > 0
	})
	w.awaitPolicy()
	w.endpoints = slices.DeleteFunc(discover(t, h), func(e endpoint) bool { return ownTests[e.Group+"/"+e.Resource] != "" || notBeside(e) })
	if only := os.Getenv("PROVISO_HUNT"); only != "" {
		match := regexp.MustCompile(only)
		w.endpoints = slices.DeleteFunc(w.endpoints, func(e endpoint) bool { return !match.MatchString(e.String()) })
		w.partial = true
	}
	return w
}

// admins makes a request as an admin, outside of the hunt.
func (w *world) admins(method, path string, body any) outcome {
	r := request{method: method, path: path}
	if body != nil {
		r.body, r.header = encodeJSON(body), map[string]string{"Content-Type": jsonType}
	}
	return w.root.do(w.ctx, r)
}

// install creates an object as an admin; the text is JSON.
func (w *world) install(path, text string) {
	w.t.Helper()
	if o := w.admins("POST", path, parse(text)); !o.succeeded() && o.code != http.StatusConflict {
		w.t.Fatalf("POST %s: %d %s\n%s", path, o.code, o.answer, text)
	}
}

func parse(text string) map[string]any {
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		panic(fmt.Sprintf("%v: %s", err, text)) // a constant of this test
	}
	return out
}

// caller is a user with a certificate of his own.
func (w *world) caller(user string) *caller { return newCaller(w.t, w.as(user), user, w.ledger) }

// settle makes a namespace for one caller to hunt in.
func (w *world) settle(name string) string {
	w.t.Helper()
	namespace := "hunt-" + name
	w.install("/api/v1/namespaces", fmt.Sprintf(`{"metadata": {"name": %q}}`, namespace))
	if besideStock() { // where no controllers run
		w.install("/api/v1/namespaces/"+namespace+"/serviceaccounts", `{"metadata": {"name": "default"}}`)
	}
	w.await("the service account of the namespace", func() bool {
		return w.admins("GET", "/api/v1/namespaces/"+namespace+"/serviceaccounts/default", nil).succeeded()
	})
	own := path.Join("/apis/policy.proviso.dev/v1alpha1/namespaces", namespace)
	w.install(own+"/policies", `{"metadata": {"name": "default"}}`)
	w.install(own+"/policybindings", fmt.Sprintf(`{"metadata": {"name": %q}, "policyRef": {"namespace": %q}}`, namespace, namespace))
	return namespace
}

// prey is an object that an admin made for one caller to go for.
type prey struct {
	w         *world
	namespace string
	name      string
	number    int
	// missing says why there is none.
	missing string
	// home is the endpoint through which it was made; before is what it was then.
	home   endpoint
	before map[string]any
	// decorated is what the admin added to the stub.
	decorated []change
	// refused: whoever goes for it may create nothing.
	refused bool
}

// bait makes an object of a resource, by apply if the resource knows it, so that field managers have their part.
func (w *world) bait(endpoints []endpoint, namespace string, decorate ...change) *prey {
	p := &prey{w: w, namespace: namespace, missing: "nothing of the kind is stored",
		decorated: append(decorate, change{field: "labels", key: "hunted", value: namespace})}
	for _, e := range endpoints {
		if e.sub != "" || !e.has("create") || !e.has("get") {
			continue
		}
		p.number = int(w.numbers.Add(1))
		object, _ := w.stubs.object(e, namespace, p.number)
		for _, c := range p.decorated {
			object = c.done(object)
		}
		p.name, p.home = nameOf(object), e
		r := request{method: "PATCH", path: e.item(namespace, p.name), query: manager + "&force=true", body: encodeJSON(object),
			header: map[string]string{"Content-Type": applyYAML}}
		if !e.has("patch") {
			r = request{method: "POST", path: e.collection("", namespace), body: encodeJSON(object), header: map[string]string{"Content-Type": jsonType}}
		}
		o := w.root.do(w.ctx, r)
		if p.before = p.read(e); p.before != nil {
			p.missing = ""
			return p
		}
		p.missing = fmt.Sprintf("%d %s", o.code, o.answer)
		w.t.Errorf("no %s can be made to go for, so that little is proven: %s", e, p.missing)
	}
	return p
}

// touched tells what became of the object, apart from what the server itself keeps up to date.
func (p *prey) touched() string {
	if p.missing != "" {
		return ""
	}
	after := p.read(p.home)
	if after == nil {
		return "it is gone"
	}
	return diff(p.before, after)
}

func diff(before, after map[string]any) string { return cmp.Diff(essence(before), essence(after)) }

func essence(object map[string]any) map[string]any {
	out := clone(object)
	for _, field := range []string{"status", "roles", "roleBindings", "lastModified"} { // the views write the containers
		delete(out, field)
	}
	for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
		delete(child(out, "metadata"), field)
	}
	return out
}

// target is what a caller goes for at one endpoint.
func (p *prey) target(e endpoint) target {
	w := p.w
	g := target{endpoint: e, namespace: p.namespace, name: p.name, selector: "hunted=" + p.namespace}
	if g.name == "" {
		g.name = "nothing"
	}
	g.fresh = func() map[string]any {
		object, _ := w.stubs.object(e.main(), p.namespace, int(w.numbers.Add(1)))
		if name := nameOf(object); p.refused && name != p.name {
			w.mu.Lock()
			w.never[e.GroupResource()] = append(w.never[e.GroupResource()], p.namespace+"/"+name)
			w.mu.Unlock()
		}
		return object
	}
	if p.missing == "" {
		g.applied, _ = w.stubs.object(e.main(), p.namespace, p.number)
		for _, c := range p.decorated {
			g.applied = c.done(g.applied)
		}
		shown := e
		if !e.has("get") || e.isConnect() {
			shown = e.main()
		}
		g.stored = p.read(shown)
	}
	return g
}

// read is the object as it is now.
func (p *prey) read(e endpoint) map[string]any {
	o := p.w.admins("GET", e.item(p.namespace, p.name), nil)
	if !o.succeeded() {
		return nil
	}
	var out map[string]any
	if err := json.Unmarshal(o.answer, &out); err != nil {
		return nil
	}
	return out
}

// each runs a hunt on every resource, several at a time.
func (w *world) each(hunt func(gr schema.GroupResource, endpoints []endpoint)) {
	order, grouped := byResource(w.endpoints)
	work := make(chan schema.GroupResource)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for gr := range work {
				hunt(gr, grouped[gr])
			}
		})
	}
	for _, gr := range order {
		work <- gr
	}
	close(work)
	wg.Wait()
}

// try makes a request and remembers that its endpoint was tried for a system.
func (w *world) try(system string, c *caller, r request) outcome {
	o := c.do(w.ctx, r)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tried[system] == nil {
		w.tried[system] = map[string]bool{}
	}
	w.tried[system][r.endpoint.String()+" "+r.verb] = true
	w.attempts[system]++
	return o
}

// ownTests are resources that are not written as others are, and that have tests of their own.
var ownTests = map[string]string{
	"access.proviso.dev/accessrequests": "test/server TestNobodyApprovesTheirOwn and its neighbours: their spec never changes, and who may see one is not a rule",
}

// covered fails for every endpoint and verb that is served and was not tried.
func (w *world) covered(t *testing.T, system string, verbs []string, exceptions map[string]string) {
	t.Helper()
	for _, e := range w.endpoints {
		if exceptions[e.Group+"/"+e.Resource] != "" {
			continue
		}
		for _, verb := range e.verbs {
			if verbs != nil && e.isConnect() {
				continue // it carries no object
			}
			if (verbs == nil || slices.Contains(verbs, verb)) && !w.tried[system][e.String()+" "+verb] {
				t.Errorf("%s: %s of %s was not tried", system, verb, e)
			}
		}
	}
	t.Logf("%s: %d attempts", system, w.attempts[system])
}
