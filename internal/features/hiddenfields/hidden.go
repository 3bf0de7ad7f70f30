package hiddenfields

import (
	"net/http"

	"k8s.io/component-base/featuregate"

	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/features/fieldpermissions"
	"proviso.dev/proviso/internal/request/fieldfilter"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Gate switches the system.
const Gate featuregate.Feature = "HiddenFields"

// Config is what a host knows. A host that serves no resources leaves it empty.
type Config struct {
	// Storage is true if the host decorates its storage with the system's Storage.
	Storage bool
	// Builtin are the built-in kinds.
	Builtin feature.Builtin
	// MaxBody bounds the bodies of requests.
	MaxBody int64
}

// New makes the system.
func New(k *feature.Kernel, cfg Config) (feature.System, error) {
	s := feature.System{Name: "hidden fields", Gate: Gate}
	if !cfg.Storage {
		return s, nil
	}
	filters := fieldfilter.New(fieldfilter.Config{
		Gate: k.Gate, Store: k.Store, Codecs: k.Codecs, Namespaces: k.Namespaces, Served: k.Served, MaxBody: cfg.MaxBody,
		Lists: fieldpermissions.NewLists(cfg.Builtin, k.Served.Definition),
	})
	s.Storage = filters.Decorate
	s.Filters = []feature.Filter{{Name: "hidden", Wrap: func(next http.Handler) http.Handler { return filters.Wrap(next) }}}
	s.MutateFirst = []feature.Mutator{{Name: fieldfilter.RestoreName, Plugin: filters.Restorer()}}
	s.Redactor = filters
	s.Background = func(snapshot.Source) ([]feature.Runner, error) { return []feature.Runner{filters}, nil }
	return s, nil
}
