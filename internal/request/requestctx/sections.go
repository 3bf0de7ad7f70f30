package requestctx

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/engine/shadowrule"
)

// sections are what one stage leaves in the state for a later one. They belong to the request as a whole: a question
// within the request that is asked under another snapshot sees them, too. An empty section decides nothing.
type sections struct {
	notes      *Notes
	reading    Reading
	connection Connection
	definition *Definition
	collector  Collector
	bearer     *Bearer
	// impersonation is set for requests in the name of another user.
	impersonation *Impersonation
}

// goingOn returns the sections; they are empty without a state.
func (h *State) goingOn() sections {
	if h == nil {
		return sections{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sections
}

// within returns the state of a request, and begins one if there is none. A new one has no snapshot and denies.
func within(ctx context.Context) (context.Context, *State) {
	if s := From(ctx); s != nil {
		return ctx, s
	}
	s := &State{}
	return context.WithValue(ctx, key{}, s), s
}

// Reading is a read under a condition. The read filter records it for the storage, which decides it.
type Reading interface {
	// IsDecided reports whether the storage has done its part.
	IsDecided() bool
}

// Reads stores the read.
func (h *State) Reads(r Reading) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sections.reading = r
}

// Reading returns the read; nil if the request did not pass the read filter.
func (h *State) Reading() Reading { return h.goingOn().reading }

// Connection is a connection with conditions on its target. Admission has decided it on one state of the target, and
// records it for the storage, where the handler reads the state that it uses.
type Connection interface {
	// Resource returns the resource of the target.
	Resource() schema.GroupResource
	// Decide decides the request with the state that was read. An error refuses it.
	Decide(ctx context.Context, target runtime.Object) error
}

// Connects stores the connection.
func (h *State) Connects(c Connection) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sections.connection = c
}

// Connection returns the connection; nil if no condition depends on its target.
func (h *State) Connection() Connection { return h.goingOn().connection }

// Definition is what the filter for custom resource definitions passes to admission, in addition to what it put into
// the body.
type Definition struct {
	// Annotation is what the filter put into the body; empty if the request carries no permissions.
	Annotation string
	// Versions is set if the request contains any schema, which means that it omits the other fields on purpose.
	Versions bool
}

// WithDefinition stores what is known about a definition.
func WithDefinition(ctx context.Context, d *Definition) context.Context {
	ctx, s := within(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sections.definition = d
	return ctx
}

// DefinitionOf returns what is known about the definition; nil if the request did not pass the filter for definitions.
func DefinitionOf(ctx context.Context) *Definition { return From(ctx).goingOn().definition }

// Collector gathers what rules that are not enforced would have changed, for a host that reports it itself.
type Collector interface {
	// Collect takes the text for the audit event about a rule, and the warning to the caller, which may be empty.
	Collect(rule shadowrule.ID, annotation, warning string)
}

// WithCollector sets the collector of a request.
func WithCollector(ctx context.Context, c Collector) context.Context {
	ctx, s := within(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sections.collector = c
	return ctx
}

// CollectorOf returns the collector; nil if the request has none.
func CollectorOf(ctx context.Context) Collector { return From(ctx).goingOn().collector }
