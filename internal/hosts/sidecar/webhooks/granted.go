package webhooks

import (
	"hash/maphash"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/verbs"
)

// grantedFor is how long at least a request may take from its authorization to its admission: its body is read in
// between, and a client can be slow on purpose. kube-apiserver gives it a minute by default.
const grantedFor = 5 * time.Minute

// What is remembered is hashes, since callers choose the namespaces that they ask about. Each generation takes at most
// maxUsers * maxGrants of them, about 10 MB, and the bits of the crowd.
const (
	// maxGrants bounds what is remembered of one user by namespace and resource. Beyond it the verb alone is: such a
	// user is refused more than necessary, and nobody else is.
	maxGrants = 256
	// maxUsers bounds the users that are remembered one by one.
	maxUsers = 1024
	// crowdBits is how many bits remember the users beyond: by verb, one bit each. With n of them, another user is
	// taken for one of them in n of 2^20 cases.
	crowdBits = 1 << 20
)

// terms are on which a request was let pass.
type terms byte

const (
	// allowed: a rule allows it under a condition, or a deny has one.
	allowed terms = iota
	// undenied: nothing here allows it, and a deny has a condition. Another authorizer may allow it.
	undenied
)

// Granted remembers who was let pass under a condition. If the rule is gone when the request comes to admission, or a
// rule denies the request by then, nobody could tell from the policy that there was a condition. Admission would take
// the request for another one: a patch that is denied for an update that another authorizer allowed.
//
// It remembers callers, verbs and resources, not requests: there are few of them. The verb counts: who may patch under
// a condition has not been allowed to update, and admission tries both. Two that have the same hash are taken for each
// other, which only refuses.
type Granted struct {
	now  func() time.Time
	seed maphash.Seed

	mu            sync.Mutex
	since         time.Time
	young, former *generation
}

// generation is what was granted in one stretch of time.
type generation struct {
	users map[uint64]map[uint64]struct{}
	crowd []uint64 // bits; nil while it is not needed
}

// grant is what is remembered, before it is hashed. One that is wide has a user and a verb.
type grant struct {
	terms                                               terms
	user, verb, namespace, group, resource, subresource string
}

// NewGranted remembers nothing yet.
func NewGranted(now func() time.Time) *Granted {
	g := &Granted{now: now, seed: maphash.MakeSeed(), since: now()}
	g.young, g.former = newGeneration(), newGeneration()
	return g
}

func newGeneration() *generation { return &generation{users: map[uint64]map[uint64]struct{}{}} }

// keys are the hashes of a user, of a grant, and of the grant without its resource.
type keys struct{ user, exact, wide uint64 }

func (g *Granted) keysOf(a authorizer.Attributes, on terms) keys {
	user, verb := a.GetUser().GetName(), a.GetVerb()
	if !verbs.IsWrite(verb) {
		verb = "" // of a connection; callers choose the method
	}
	return keys{
		user:  maphash.String(g.seed, user),
		exact: maphash.Comparable(g.seed, grant{on, user, verb, a.GetNamespace(), a.GetAPIGroup(), a.GetResource(), a.GetSubresource()}),
		wide:  maphash.Comparable(g.seed, grant{terms: on, user: user, verb: verb}),
	}
}

// note remembers.
func (g *Granted) note(a authorizer.Attributes, on terms) {
	k := g.keysOf(a, on)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.age()
	g.young.add(k)
}

func (g *generation) add(k keys) {
	of, known := g.users[k.user]
	switch {
	case !known && len(g.users) >= maxUsers:
		if g.crowd == nil {
			g.crowd = make([]uint64, crowdBits/64)
		}
		bit := k.wide % crowdBits
		g.crowd[bit/64] |= 1 << (bit % 64)
		return
	case !known:
		of = map[uint64]struct{}{}
		g.users[k.user] = of
	}
	if _, there := of[k.exact]; !there && len(of) >= maxGrants {
		k.exact = k.wide // there are as many of these as verbs and terms
	}
	of[k.exact] = struct{}{}
}

// has reports whether a request may have been let pass on such terms.
func (g *Granted) has(a authorizer.Attributes, on terms) bool {
	k := g.keysOf(a, on)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.age()
	return g.young.has(k) || g.former.has(k)
}

func (g *generation) has(k keys) bool {
	of := g.users[k.user]
	for _, key := range [...]uint64{k.exact, k.wide} {
		if _, there := of[key]; there {
			return true
		}
	}
	bit := k.wide % crowdBits
	return g.crowd != nil && g.crowd[bit/64]&(1<<(bit%64)) != 0
}

// age forgets what is older than it has to be.
func (g *Granted) age() {
	now := g.now()
	switch gone := now.Sub(g.since); {
	case gone >= 2*grantedFor:
		g.former, g.young, g.since = newGeneration(), newGeneration(), now
	case gone >= grantedFor:
		g.former, g.young, g.since = g.young, newGeneration(), now
	}
}
