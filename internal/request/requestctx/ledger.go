package requestctx

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Ledger records, for a write that is not allowed yet, which states of stored objects it has looked at, and which of
// them the enforcer has admitted. No response derived from a state that was not admitted may leave. All methods work on
// nil, which records nothing and admits nothing.
type Ledger struct {
	mu sync.Mutex
	// collection keeps every object that was looked at. Otherwise only the last attempt counts.
	collection bool
	looked     map[types.UID]runtime.Object
	lists      bool
	listed     []runtime.Object
	admitted   map[state]bool
	whole      bool
	stream     bool
	refused    bool
	unreadable bool
}

// NewLedger begins a record, of a collection or of one object.
func NewLedger(collection bool) *Ledger {
	return &Ledger{collection: collection, looked: map[types.UID]runtime.Object{}, admitted: map[state]bool{}}
}

// Look records that the request has read a stored state, which the ledger keeps. An object that does not exist yet is a
// state without a uid. nil is a state that could not be read, but that an error may quote.
func (l *Ledger) Look(state runtime.Object) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = false
	if !l.collection {
		clear(l.looked)
		clear(l.admitted)
		l.unreadable = false
	}
	is, ok := identity(state)
	if !ok {
		l.unreadable = true
		return
	}
	l.looked[is.uid] = state
}

// List records states that the response of a collection is made of.
func (l *Ledger) List(states []runtime.Object) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists, l.listed = true, append(l.listed, states...)
}

// Admit records that the enforcer let a change of this state pass. A request about no stored object, such as a create,
// is admitted with nil.
func (l *Ledger) Admit(old runtime.Object) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = false
	var is state
	if old != nil {
		var ok bool
		if is, ok = identity(old); !ok {
			return
		}
	}
	l.admitted[is] = true
	if seen, ok := l.looked[is.uid]; ok {
		if at, _ := identity(seen); at == is {
			delete(l.looked, is.uid)
		}
	}
}

// AdmitWhole records that the enforcer let a request without a stored object pass: nothing that it finds later is held
// back.
func (l *Ledger) AdmitWhole(stream bool) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.whole, l.stream, l.refused = true, stream, false
}

// Streams reports whether a connection was admitted: its bytes are not held.
func (l *Ledger) Streams() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stream
}

// Refuse records that the enforcer has refused the request. Its refusal is written to be shown.
func (l *Ledger) Refuse() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = true
}

// Refused reports whether the final decision was a refusal by the enforcer.
func (l *Ledger) Refused() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}

// Admitted reports whether the enforcer has admitted anything at all, or had nothing to admit in a collection.
func (l *Ledger) Admitted() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.whole || len(l.admitted) > 0 || l.lists && len(l.listed) == 0
}

// Open returns the states that the response may be derived from and that were not admitted; complete is false if there
// are more that could not be read.
func (l *Ledger) Open() (states []runtime.Object, complete bool) {
	if l == nil {
		return nil, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.whole {
		return nil, true
	}
	for _, state := range l.looked {
		states = append(states, state)
	}
	for _, state := range l.listed {
		is, ok := identity(state)
		if !ok {
			return nil, false
		}
		if !l.admitted[is] {
			states = append(states, state)
		}
	}
	return states, !l.unreadable
}

// state names one state of an object; the zero value that of an object which does not exist yet.
type state struct {
	uid     types.UID
	version string
}

func identity(object runtime.Object) (state, bool) {
	if object == nil {
		return state{}, false
	}
	m, err := meta.Accessor(object)
	if err != nil {
		return state{}, false
	}
	return state{m.GetUID(), m.GetResourceVersion()}, true
}
