package reads

import (
	"errors"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/featuregate"

	"proviso.dev/proviso/internal/authorize"
	"proviso.dev/proviso/internal/served"
	"proviso.dev/proviso/internal/snapshot"
	"proviso.dev/proviso/internal/system"
	"proviso.dev/proviso/internal/visible"
)

// Gate switches the system.
const Gate featuregate.Feature = "ConditionalReads"

var errNotStored = errors.New("a conditional permission cannot be used here: the resource does not come from the generic store, where conditions of reads are decided")

// Stored is for a host that decorates its storage with the system's Storage: conditions on reads are honoured there and
// nowhere else.
func Stored(directory *served.Directory) *authorize.Reads {
	return &authorize.Reads{Reaches: func(a authorizer.Attributes) error {
		if directory.Stored(schema.GroupVersionResource{Group: a.GetAPIGroup(), Version: a.GetAPIVersion(), Resource: a.GetResource()}) {
			return nil
		}
		return errNotStored
	}}
}

// Assumed is for a host that answers for a server with conditional reads, and serves nothing itself.
func Assumed(*served.Directory) *authorize.Reads {
	return &authorize.Reads{Reaches: func(authorizer.Attributes) error { return nil }}
}

// Config is what a host knows. A host that serves no resources leaves it empty.
type Config struct {
	// Storage tells that the host decorates its storage with the system's Storage. Its kernel is made with Stored.
	Storage bool
	// RecheckAll also ends watches without a condition when the right to them is gone.
	RecheckAll bool
}

// New makes the system.
func New(k *system.Kernel, cfg Config) (system.System, error) {
	s := system.System{Name: "conditional reads", Gate: Gate}
	if k.Gate.Reads == nil || !cfg.Storage {
		return s, nil
	}
	stores := visible.New(visible.Config{Gate: k.Gate, Store: k.Store, Namespace: k.Namespace, RecheckAll: cfg.RecheckAll, Served: k.Served})
	s.Storage = stores.Decorate
	s.Filters = []system.Filter{{Name: "visible", Wrap: func(next http.Handler) http.Handler { return visible.Filter(k.Codecs, next) }}}
	s.Background = func(snapshot.Source) ([]system.Runner, error) { return []system.Runner{stores}, nil }
	return s, nil
}
