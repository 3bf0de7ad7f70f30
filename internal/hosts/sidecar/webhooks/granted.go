package webhooks

import (
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// grantedFor is how long at least a request may take from its authorization to its admission: its body is read in
// between, and a client can be slow on purpose. kube-apiserver gives it a minute by default.
const grantedFor = 5 * time.Minute

// maxGrants bounds what is remembered of single resources. Callers choose the namespaces that they ask about; beyond
// the bound it is remembered of a caller only that he was allowed something.
const maxGrants = 50_000

// Granted remembers who was allowed something under a condition. If the rule is gone when the request comes to
// admission, nobody could tell from the policy that there was a condition, and who has no right at all any more would
// pass, as somebody whom another authorizer allowed.
//
// It remembers callers, verbs and resources, not requests: there are few of them. The verb counts: who may patch under
// a condition has not been allowed to update, and admission tries both.
type Granted struct {
	now func() time.Time

	mu            sync.Mutex
	since         time.Time
	young, former map[grant]bool
}

type grant struct{ user, verb, namespace, group, resource, subresource string }

// NewGranted remembers nothing yet.
func NewGranted(now func() time.Time) *Granted {
	return &Granted{now: now, since: now(), young: map[grant]bool{}, former: map[grant]bool{}}
}

func grantOf(a authorizer.Attributes) grant {
	return grant{a.GetUser().GetName(), a.GetVerb(), a.GetNamespace(), a.GetAPIGroup(), a.GetResource(), a.GetSubresource()}
}

// note remembers.
func (g *Granted) note(a authorizer.Attributes) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.age()
	of := grantOf(a)
	if len(g.young) >= maxGrants && !g.young[of] {
		of = grant{user: of.user}
	}
	g.young[of] = true
}

// has tells whether a request may have been allowed under a condition.
func (g *Granted) has(a authorizer.Attributes) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.age()
	for _, of := range [...]grant{grantOf(a), {user: a.GetUser().GetName()}} {
		if g.young[of] || g.former[of] {
			return true
		}
	}
	return false
}

// age forgets what is older than it has to be.
func (g *Granted) age() {
	now := g.now()
	switch gone := now.Sub(g.since); {
	case gone >= 2*grantedFor:
		g.former, g.young, g.since = map[grant]bool{}, map[grant]bool{}, now
	case gone >= grantedFor:
		g.former, g.young, g.since = g.young, map[grant]bool{}, now
	}
}
