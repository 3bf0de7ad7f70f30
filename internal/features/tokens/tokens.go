package tokens

import (
	"errors"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/featuregate"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/apis/registry"
	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/engine/narrowedtoken"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/bearer"
	"proviso.dev/proviso/internal/request/turns"
	"proviso.dev/proviso/internal/state/ledger"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Gate switches the system. It is off unless an operator asks for it: to ask for less still turns a session into a
// bearer token.
const Gate featuregate.Feature = "NarrowedTokens"

// narrowedTokens is the resource that is never stored.
const narrowedTokens = "narrowedtokens"

// DefaultLongest is how long a token lives at most, unless the host says otherwise.
const DefaultLongest = 24 * time.Hour

// Config is what a host knows.
type Config struct {
	// Keys are the root keys. The first one signs.
	Keys narrowedtoken.Keys
	// Longest is the maximum lifetime of a token.
	Longest time.Duration
	// Bound knows whether what a credential was bound to still exists.
	Bound authorize.Bound
	// Etcd is where the list of the tokens that were issued is stored.
	Etcd ledger.Etcd
	// Everybody lets all authenticated users ask for tokens, in a server that starts for the first time.
	Everybody bool
}

// New returns the system. A host that does not serve requests does not recognise tokens.
func New(k *feature.Kernel, cfg Config) (feature.System, error) {
	if k.Clients == nil {
		return feature.System{Name: "narrowed tokens", Gate: Gate}, nil
	}
	if len(cfg.Keys) == 0 {
		return feature.System{}, errors.New("narrowed tokens need a key: give --narrowed-token-key-file, the same on all replicas")
	}
	if cfg.Bound == nil {
		cfg.Bound = bearer.NothingBound()
	}
	if cfg.Etcd == nil {
		return feature.System{}, errors.New("narrowed tokens need a place for the list of those that were issued")
	}
	book := ledger.New(cfg.Etcd)
	tier := authorize.NewToken(k.Store, narrowedtoken.NewCompiler(k.Compiler.CompileRule), cfg.Bound)
	return feature.System{
		Name: "narrowed tokens", Gate: Gate,
		Resources: []string{narrowedTokens, snapshot.TokenRevocations.Resource},
		Parts: func(from snapshot.Source) ([]snapshot.Part, error) {
			part, err := snapshot.NewRevocations(from, k.Store.Changed)
			return []snapshot.Part{part}, err
		},
		First:       []authorize.Link{{Name: links.Token, Authorizer: tier}},
		Credentials: credentials{cfg.Keys, tier},
		Filters:     []feature.Filter{{Name: "carry", Wrap: bearer.Carry}},
		Registry: func(c *registry.Config) {
			c.Tokens = &issuer{keys: cfg.Keys, longest: cfg.Longest, clock: k.Store.Clock(), ledger: book}
		},
		Paths: []feature.Path{{Path: ListPath, Handler: &lister{kernel: k, ledger: book, turns: turns.Queue{Slots: 2}}}},
		Background: func(from snapshot.Source) ([]feature.Runner, error) {
			return []feature.Runner{feature.RunnerFunc(role{k, cfg.Everybody}.ensure), &sweeper{kernel: k, longest: cfg.Longest, from: from, ledger: book}}, nil
		},
	}, nil
}

// credentials are narrowed tokens.
type credentials struct {
	keys narrowedtoken.Keys
	tier *authorize.Token
}

// Authenticator implements feature.Credentials.
func (c credentials) Authenticator(next authenticator.Request) authenticator.Request {
	return bearer.New(bearer.Config{Next: next, Keys: c.keys, Holds: c.tier})
}

// Secret implements feature.Credentials: those who ask for a token, and those who have one confirmed.
func (credentials) Secret(attrs authorizer.Attributes) bool {
	if !attrs.IsResourceRequest() {
		return false
	}
	switch (schema.GroupResource{Group: attrs.GetAPIGroup(), Resource: attrs.GetResource()}) {
	case accessv1alpha1.Resource(narrowedTokens), schema.GroupResource{Group: authenticationv1.GroupName, Resource: "tokenreviews"}:
		return true
	}
	return false
}
