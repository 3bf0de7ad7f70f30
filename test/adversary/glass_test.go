package adversary

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"proviso.dev/proviso/test/adversary/game"
)

// The sinks of rules by which glass is broken. Nothing listens where the second one is.
const sinkUp, sinkDown = "hunt-up", "hunt-down"

// deed is something that was done, as a sink is told of it.
type deed struct {
	User struct {
		Username string
	}
	Verb, Stage string
	ObjectRef   struct{ Resource, Namespace, Name, Subresource string }
}

// feed is an audit sink.
type feed struct {
	mu   sync.Mutex
	told map[deed]bool
}

// ServeHTTP implements http.Handler.
func (f *feed) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var list struct{ Items []deed }
	if json.NewDecoder(r.Body).Decode(&list) != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range list.Items {
		f.told[d] = true
	}
}

func (f *feed) has(d deed) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.told[d]
}

// sinks makes one that answers and one that does not. They get only what somebody does by breaking the glass.
func (h *hunt) sinks(t testing.TB) {
	h.feed = &feed{told: map[deed]bool{}}
	listener := httptest.NewServer(h.feed)
	t.Cleanup(listener.Close)
	for name, url := range map[string]string{sinkUp: listener.URL, sinkDown: "http://127.0.0.1:1/"} {
		h.must("POST", "/apis/auditregistration.k8s.io/v1alpha1/auditsinks", object{"metadata": object{"name": name},
			"spec": object{"policy": object{"level": "None"}, "webhook": object{"throttle": object{"qps": 1000, "burst": 1000}, "clientConfig": object{"url": url}}}})
	}
}

// used notes what passed only because of a grant: one that is for one write is over then, and of what was done by
// breaking the glass the sink has to be told.
func (g *table) used(d *doing) {
	if !d.passed() || len(d.who.Links) > 0 || d.who.User != d.actor.User || strings.HasPrefix(d.Resource, game.AccessRequests) {
		return
	}
	bare, granted := d.ask(), d.ask()
	bare.Bare = true
	granted.User, granted.Groups = d.who.User, d.who.Groups
	if may, _ := g.party.May(d.who, bare); may {
		return
	}
	lasting, once := g.oracle.Givers(granted)
	if len(lasting) == 0 && len(once) > 0 && d.writes() {
		g.oracle.Uses = append(g.oracle.Uses, once)
	}
	if names := append(lasting, once...); len(names) == 1 && g.oracle.Requests[names[0]].Rule.Glass {
		g.glass = append(g.glass, g.deedOf(d))
	}
}

func (g *table) deedOf(d *doing) (done deed) {
	main, sub, _ := strings.Cut(d.Resource, "/")
	done.User.Username, done.Verb, done.Stage = d.who.User, d.ask().Verb, "ResponseComplete"
	done.ObjectRef.Resource, done.ObjectRef.Namespace, done.ObjectRef.Name, done.ObjectRef.Subresource = g.resource(main).Plural, d.NS, d.Name, sub
	return done
}

// consumed checks that nothing counts any more that was for one write, where it is known what was used.
func (g *table) consumed(uses [][]string) {
	for _, names := range uses {
		if r := g.oracle.Requests[names[0]]; len(names) == 1 && !r.Over {
			g.over(r, r.Rule.NS)
			g.once++
		}
	}
}

// reported checks that the sink was told of everything that was done by breaking the glass.
func (g *table) reported() {
	deadline := time.Now().Add(bound)
	for _, d := range g.glass {
		for !g.feed.has(d) && time.Now().Before(deadline) {
			time.Sleep(10 * time.Millisecond)
		}
		if g.broken++; !g.feed.has(d) {
			g.report("untold", d.Verb, "the sink was not told that %s %ss %s %s/%s", d.User.Username, d.Verb, d.ObjectRef.Resource, d.ObjectRef.Namespace, d.ObjectRef.Name)
		}
	}
}
