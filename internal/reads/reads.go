package reads

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/featuregate"

	"proviso.dev/proviso/internal/authorize"
	"proviso.dev/proviso/internal/snapshot"
	"proviso.dev/proviso/internal/system"
	"proviso.dev/proviso/internal/visible"
)

// Gate switches the system.
const Gate featuregate.Feature = "ConditionalReads"

// Config is what a host knows. A host that serves no resources, and does not answer as if it did, leaves it empty: it
// has no conditional reads.
type Config struct {
	// Storage tells that the host decorates its storage with the system's Storage.
	Storage bool
	// Assumed tells that the host answers for a server that does.
	Assumed bool
	// RecheckAll also ends watches without a condition when the right to them is gone.
	RecheckAll bool
}

// New makes the system.
func New(k *system.Kernel, cfg Config) (system.System, error) {
	s := system.System{Name: "conditional reads", Gate: Gate}
	if !k.Gate.Conditional {
		return s, nil
	}
	if cfg.Assumed {
		k.Gate.Reads = &authorize.Reads{Reaches: func(authorizer.Attributes) error { return nil }}
	}
	if !cfg.Storage {
		return s, nil
	}
	stores := visible.New(visible.Config{
		Gate: k.Gate, Store: k.Store, Namespace: k.Namespace, RecheckAll: cfg.RecheckAll,
		Custom: func(gv schema.GroupVersion) bool {
			return k.Served.Local(gv.Group, gv.Version) && k.Served.Custom(gv.Group)
		},
	})
	k.Gate.Reads = &authorize.Reads{Reaches: stores.Reaches}
	s.Storage = stores.Decorate
	s.Filters = []system.Filter{{Name: "visible", Wrap: func(next http.Handler) http.Handler { return visible.Filter(k.Codecs, next) }}}
	s.Background = func(snapshot.Source) ([]system.Runner, error) { return []system.Runner{stores}, nil }
	return s, nil
}
