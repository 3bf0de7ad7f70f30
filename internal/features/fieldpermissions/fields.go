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
	"proviso.dev/proviso/internal/state/snapshot"
)

// Gate switches the system.
const Gate featuregate.Feature = "FieldPermissions"

// Schemas are those of the built-in kinds. Without them every kind is schemaless.
type Schemas struct {
	// Builtin makes them, once and when they are first needed.
	Builtin func() (*fieldperm.Schemas, error)
	// Recognizes tells the kinds that are not custom, with or without a schema.
	Recognizes func(schema.GroupVersionKind) bool
}

// Config is what a host knows.
type Config struct {
	Schemas Schemas
	// MaxBody bounds the bodies of requests.
	MaxBody int64
}

// New makes the system.
func New(k *feature.Kernel, cfg Config) (feature.System, error) {
	if cfg.Schemas.Builtin == nil {
		cfg.Schemas = Schemas{
			Builtin:    func() (*fieldperm.Schemas, error) { return fieldperm.NewSchemas(nil, false) },
			Recognizes: func(schema.GroupVersionKind) bool { return false },
		}
	}
	r := &rights{store: k.Store, chain: k.Gate.Chain, schemas: newSchemas(cfg.Schemas, k.Served.Definition), cel: newExpressions(k.Cache)}
	return feature.System{
		Name: "field permissions", Gate: Gate,
		Resources: []string{snapshot.FieldPermissions.Resource, "permissions"},
		Registry: func(c *registry.Config) {
			c.CheckFieldPermission = r.checkFieldPermission
			c.Permissions = &policyreview.Permissions{Store: k.Store, HasField: r.hasField}
		},
		Parts: func(from snapshot.Source) ([]snapshot.Part, error) {
			part, err := snapshot.NewFields(snapshot.FieldsConfig{Source: from, Read: readDefinition, Expressions: r.cel.Stored(), Warmer: k.Warmer}, k.Store.Changed)
			return []snapshot.Part{part}, err
		},
		Filters: []feature.Filter{{Name: "declarations", Wrap: func(next http.Handler) http.Handler {
			return liftDeclarations(next, k.Clients, k.Codecs, cfg.MaxBody)
		}}, {Name: "schemadoc", Wrap: func(next http.Handler) http.Handler {
			return &openapi.Filter{Next: next, Notes: (&shown{store: k.Store, local: k.Served.Local}).in}
		}}},
		Enforce: func(c *enforce.Config) {
			c.Fields = &enforce.Fields{Asker: k.Gate, Schemas: r.schemas, Everywhere: k.Gate.Chain, Behind: k.Behind}
		},
		Mutators: []feature.Mutator{
			{Name: crdschema.Name, Plugin: &crdschema.Plugin{Expressions: r.cel}},
			{Name: enforce.PinName, Plugin: &enforce.Pin{Behind: k.Behind}},
		},
		Before: r.before,
		Background: func(from snapshot.Source) ([]feature.Runner, error) {
			reporter, err := newReporter(r, from, k.Clients)
			return []feature.Runner{reporter}, err
		},
	}, nil
}
