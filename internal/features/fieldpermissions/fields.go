package fieldpermissions

import (
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/featuregate"

	"proviso.dev/proviso/internal/apis/policyreview"
	"proviso.dev/proviso/internal/apis/registry"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/features/fieldpermissions/crdschema"
	"proviso.dev/proviso/internal/features/fieldpermissions/openapi"
	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/internal/state/kept"
	"proviso.dev/proviso/internal/state/ledger"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Gate switches the system.
const Gate featuregate.Feature = "FieldPermissions"

// Config is what a host knows.
type Config struct {
	// Builtin are the built-in kinds; nil takes every kind as a custom one.
	Builtin feature.Builtin
	// Hides is true if the host hides fields from readers. Elsewhere a permission that says so is refused.
	Hides bool
	// MaxBody bounds the bodies of requests.
	MaxBody int64
	// Etcd is where it is kept what the schemas of custom resources declare; nil in a host that does not store them.
	Etcd ledger.Etcd
}

// New makes the system.
func New(k *feature.Kernel, cfg Config) (feature.System, error) {
	if cfg.Builtin == nil {
		cfg.Builtin = allCustom{}
	}
	r := &rights{store: k.Store, gate: k.Gate, schemas: newSchemas(cfg.Builtin, k.Served.Definition), cel: newExpressions(k.Cache), hides: cfg.Hides}
	config := snapshot.FieldsConfig{Read: readDefinition, Expressions: r.cel.Stored(), Warmer: k.Warmer}
	plugin := &crdschema.Plugin{Expressions: r.cel, Keeper: crdschema.Stateless{}, Escalation: escalation{k.Gate.Chain}}
	var keeper *kept.Keeper
	if cfg.Etcd != nil {
		keeper = kept.New(cfg.Etcd)
		plugin.Keeper, config.Kept, config.Read = keeper, keeper, withLost(keeper)
	}
	return feature.System{
		Name: "field permissions", Gate: Gate,
		Resources: []string{snapshot.FieldPermissions.Resource, "permissions"},
		Registry: func(c *registry.Config) {
			c.FieldPermissions = r
			c.Permissions = &policyreview.Permissions{Store: k.Store, Shapes: r}
		},
		Parts: func(from snapshot.Source) ([]snapshot.Part, error) {
			config.Source = from
			part, err := snapshot.NewFields(config, k.Store.Changed)
			return []snapshot.Part{part}, err
		},
		Filters: []feature.Filter{{Name: "declarations", Wrap: func(next http.Handler) http.Handler {
			return liftDeclarations(next, k.Clients, k.Codecs, cfg.MaxBody)
		}}, {Name: "schemadoc", Wrap: func(next http.Handler) http.Handler {
			return &openapi.Filter{Next: next, Notary: &shown{store: k.Store, local: k.Served}}
		}}},
		Enforce: func(c *enforce.Config) {
			c.Fields = &enforce.Fields{Asker: k.Gate, Schemas: r.schemas, Everywhere: k.Gate.Chain, Behind: k.Behind}
		},
		Mutators: []feature.Mutator{
			{Name: crdschema.Name, Plugin: plugin},
			{Name: enforce.PinName, Plugin: &enforce.Pin{Behind: k.Behind}},
		},
		Before: r.before, Fields: r,
		Background: func(from snapshot.Source) ([]feature.Runner, error) {
			reporter, err := newReporter(r, from, k.Clients)
			if err != nil || keeper == nil {
				return []feature.Runner{reporter}, err
			}
			keeping, err := newKeeping(k, keeper, from)
			return []feature.Runner{reporter, feature.RunnerFunc(keeper.Follow), keeping}, err
		},
	}, nil
}

// allCustom is a host that knows no built-in kinds.
type allCustom struct{}

// Schemas implements feature.Builtin.
func (allCustom) Schemas() (*fieldperm.Schemas, error) { return fieldperm.NewSchemas(nil, false) }

// Recognizes implements feature.Builtin.
func (allCustom) Recognizes(schema.GroupVersionKind) bool { return false }
