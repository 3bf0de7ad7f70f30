package requestctx

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/engine/shadowrule"
)

// sections are what one stage leaves in the state for a later one. They belong to the request as a whole: a question
// that is asked within it, by another snapshot, finds them too. What a section does not hold decides nothing.
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

// goingOn are the sections; there are none without a state.
func (h *State) goingOn() sections {
	if h == nil {
		return sections{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sections
}

// within returns the state of a request, and begins one where there is none. It has no snapshot and denies.
func within(ctx context.Context) (context.Context, *State) {
	if s := From(ctx); s != nil {
		return ctx, s
	}
	s := &State{}
	return context.WithValue(ctx, key{}, s), s
}

// Reading is a read under a condition. The filter of reads leaves it for the storage, which decides it.
type Reading interface {
	// IsDecided reports whether the storage has done its part.
	IsDecided() bool
}

// Reads leaves the read.
func (h *State) Reads(r Reading) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sections.reading = r
}

// Reading is the read; nil if the request has not come through the filter of reads.
func (h *State) Reading() Reading { return h.goingOn().reading }

// Connection is a connection whose conditions are about what it goes to. Admission has decided it on one state, and
// leaves it for the storage, where the handler reads the state that it goes by.
type Connection interface {
	// Resource is what the connection goes to.
	Resource() schema.GroupResource
	// Decide decides the request with the state that was read. An error refuses it.
	Decide(ctx context.Context, target runtime.Object) error
}

// Connects leaves the connection.
func (h *State) Connects(c Connection) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sections.connection = c
}

// Connection is the connection; nil if nothing depends on what it goes to.
func (h *State) Connection() Connection { return h.goingOn().connection }

// Definition is what the filter of custom resource definitions tells the admission of one, beside what it put into the
// body.
type Definition struct {
	// Annotation is what the filter put into the body; empty if the request carries no permissions.
	Annotation string
	// Versions is set if the request says anything about schemas, so that what it leaves out is left out knowingly.
	Versions bool
}

// WithDefinition leaves what is known of a definition.
func WithDefinition(ctx context.Context, d *Definition) context.Context {
	ctx, s := within(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sections.definition = d
	return ctx
}

// DefinitionOf is what is known of the definition; nil if the request has not come through the filter of definitions.
func DefinitionOf(ctx context.Context) *Definition { return From(ctx).goingOn().definition }

// Collector gathers what rules that are not enforced would have changed, for a host that reports it itself.
type Collector interface {
	// Collect takes what the audit event is to say about a rule, and the warning to the caller, which may be empty.
	Collect(rule shadowrule.ID, annotation, warning string)
}

// WithCollector has what is noted about a request collected.
func WithCollector(ctx context.Context, c Collector) context.Context {
	ctx, s := within(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sections.collector = c
	return ctx
}

// CollectorOf is the collector; nil if the request has none.
func CollectorOf(ctx context.Context) Collector { return From(ctx).goingOn().collector }
