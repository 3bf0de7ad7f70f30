package conditionalreads

import (
	"errors"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/featuregate"

	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/internal/request/readfilter"
	"proviso.dev/proviso/internal/state/discovery"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Gate switches the system.
const Gate featuregate.Feature = "ConditionalReads"

var errNotStored = errors.New("a conditional permission cannot be used here: the resource does not come from the generic store, where conditions of reads are decided")

// Stored is for a host that decorates its storage with the system's Storage: conditions on reads are honoured only
// there.
func Stored(directory *discovery.Directory) authorize.Reads { return stored{directory} }

type stored struct{ directory *discovery.Directory }

// Reaches implements authorize.Reads.
func (s stored) Reaches(a authorizer.Attributes) error {
	if s.directory.Stored(schema.GroupVersionResource{Group: a.GetAPIGroup(), Version: a.GetAPIVersion(), Resource: a.GetResource()}) {
		return nil
	}
	return errNotStored
}

// Asks implements authorize.Reads. The seam that it goes by is skipped while its gate is off, so that the gate is asked
// for every list and watch, here and in the storage.
func (stored) Asks(authorizer.Attributes) error { return readfilter.Asks() }

// Assumed is for a host that answers for a server with conditional reads, but does not serve resources itself.
func Assumed() authorize.Reads { return assumed{} }

type assumed struct{}

// Reaches implements authorize.Reads.
func (assumed) Reaches(authorizer.Attributes) error { return nil }

// Asks implements authorize.Reads.
func (assumed) Asks(authorizer.Attributes) error { return nil }

// Follower reports changes of namespaces.
type Follower interface {
	Follow(readfilter.Places) error
}

// Config is what a host knows. A host that serves no resources leaves it empty.
type Config struct {
	// Storage is true if the host decorates its storage with the system's Storage. Then its kernel uses Stored.
	Storage bool
	// RecheckAll also ends watches without a condition when the caller loses the right to them.
	RecheckAll bool
	// Follower tells what becomes of namespaces, after the kernel's Namespaces know of it.
	Follower Follower
	// Shards is true if callers may shard lists and watches with the public parameter, which otherwise is ignored.
	Shards bool
}

// New makes the system.
func New(k *feature.Kernel, cfg Config) (feature.System, error) {
	s := feature.System{Name: "conditional reads", Gate: Gate}
	if !k.Gate.ConditionalReads() || !cfg.Storage {
		return s, nil
	}
	stores := readfilter.New(readfilter.Config{Gate: k.Gate, Store: k.Store, Namespaces: k.Namespaces, Followed: cfg.Follower != nil, RecheckAll: cfg.RecheckAll, Served: k.Served})
	if cfg.Follower != nil {
		if err := cfg.Follower.Follow(stores.Places()); err != nil {
			return s, err
		}
	}
	s.Storage = stores.Decorate
	s.Enforce = func(c *enforce.Config) { c.Targets = stores }
	s.Filters = []feature.Filter{{Name: "visible", Wrap: func(next http.Handler) http.Handler { return readfilter.Filter(k.Codecs, next) }}}
	if !cfg.Shards {
		s.Filters = append(s.Filters, feature.Filter{Name: "unsharded", Wrap: func(next http.Handler) http.Handler { return readfilter.Unsharded(k.Served, next) }})
	}
	s.Background = func(snapshot.Source) ([]feature.Runner, error) { return []feature.Runner{stores}, nil }
	return s, nil
}
