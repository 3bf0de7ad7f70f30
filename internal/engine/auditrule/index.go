package auditrule

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Index holds the compiled policies of all sinks. It is immutable and can be used from many goroutines.
//
// Every predicate of every sink is a clause, one bit. The clauses of a sink stand together, in the order in which they
// apply. For each dimension of a request a table gives the clauses that accept its value; what all dimensions accept
// matches, and the first match within a sink gives its level.
type Index struct {
	sinks    []Sink
	defaults []Level // per sink
	quiet    bool    // no sink records anything by default

	words      int
	budget     int          // see rowBudget
	levels     []Level      // per clause
	owner      []int32      // per clause: the position of its sink
	end        []int32      // per sink: the clause after its last one
	predicates []*predicate // per clause

	subject    subjectTable
	verb       table
	resource   resourceTable
	alone      row   // the clauses that accept a request without a subresource
	subs       table // … with one
	name       table
	cluster    row   // the clauses that accept a request without a namespace
	namespaces table // … with one
	path       pathTable

	asksDecision bool // a clause asks how the request was decided
	asksBoth     bool // a clause asks for a user and a group

	unindexed dimension // checked clause by clause, because their tables would be too large
}

// Sink is the result of compiling a source.
type Sink struct {
	Name string
	UID  types.UID
	// Active sinks get events. The others have level None for every request.
	Active bool
	// Reason is one of the Reason constants of the API.
	Reason string
	// Message explains the reason; empty for an active sink.
	Message string
	// Missing are the first classes that the policy refers to but that do not exist, in order.
	Missing     []string
	moreMissing int
	// Rules is the number of rules that apply: those of all classes of the policy.
	Rules int
}

// Len returns the number of sinks, active or not.
func (ix *Index) Len() int { return len(ix.sinks) }

// Sinks returns the results for the sources, in their order. The result must not be changed.
func (ix *Index) Sinks() []Sink { return ix.sinks }

// clause is a predicate of one sink's policy with the level that it gives.
type clause struct {
	predicate *predicate
	level     Level
}

// add appends a sink with its clauses; an inactive one has none.
func (ix *Index) add(s Sink, byDefault Level, clauses []clause) {
	position := int32(len(ix.sinks))
	for _, c := range clauses {
		ix.predicates = append(ix.predicates, c.predicate)
		ix.levels = append(ix.levels, c.level)
		ix.owner = append(ix.owner, position)
	}
	ix.sinks = append(ix.sinks, s)
	ix.defaults = append(ix.defaults, byDefault)
	ix.end = append(ix.end, int32(len(ix.predicates)))
}

// build builds the tables, after all sinks have been added.
func (ix *Index) build() {
	ix.quiet = !slices.ContainsFunc(ix.defaults, func(l Level) bool { return l != None })
	ix.asksDecision = slices.ContainsFunc(ix.predicates, (*predicate).asksDecision)
	ix.words = (len(ix.predicates) + 63) / 64
	ix.buildSubject()
	ix.buildVerb()
	ix.buildResource()
	ix.buildSubresource()
	ix.buildName()
	ix.buildNamespace()
	ix.buildPath()
}

// keep stores a built table unless it is too large for the index, or accepts everything anyway.
func (ix *Index) keep(into *table, b *tableBuilder, dim dimension) {
	t, ok := b.build(true)
	if !ok {
		ix.unindexed |= dim
		return
	}
	if len(b.order) == 0 && t.rest.full(len(ix.predicates)) {
		t.rest = nil
	}
	*into = t
}

func (ix *Index) buildVerb() {
	b := ix.newTable()
	for i, p := range ix.predicates {
		if len(p.verbs) == 0 {
			b.any(i)
		}
		for _, v := range p.verbs {
			b.add(v, i)
		}
	}
	ix.keep(&ix.verb, b, dimVerb)
}

func (ix *Index) buildName() {
	b := ix.newTable()
	for i, p := range ix.predicates {
		if len(p.names) == 0 {
			b.any(i)
		}
		for _, n := range p.names {
			b.add(n, i)
		}
	}
	ix.keep(&ix.name, b, dimName)
}

func (ix *Index) buildSubresource() {
	b := ix.newTable()
	ix.alone = make(row, ix.words)
	for i, p := range ix.predicates {
		switch {
		case p.target != targetResource || p.subresources == subAll:
			b.any(i)
			ix.alone.set(i)
		case p.subresources == subNone:
			ix.alone.set(i)
		default:
			for _, s := range p.subNames {
				b.add(s, i)
			}
		}
	}
	ix.keep(&ix.subs, b, dimSubresource)
	if ix.unindexed&dimSubresource != 0 || ix.alone.full(len(ix.predicates)) {
		ix.alone = nil
	}
}

func (ix *Index) buildNamespace() {
	b := ix.newTable()
	ix.cluster = make(row, ix.words)
	for i, p := range ix.predicates {
		if p.matchesNamespace("") {
			ix.cluster.set(i)
		}
		switch p.scope {
		case scopeAny, scopeNamespaced:
			b.any(i)
		case scopeListed:
			for _, ns := range p.namespaces {
				b.add(ns, i)
			}
		}
	}
	ix.keep(&ix.namespaces, b, dimNamespace)
	if ix.unindexed&dimNamespace != 0 || ix.cluster.full(len(ix.predicates)) {
		ix.cluster = nil
	}
}
