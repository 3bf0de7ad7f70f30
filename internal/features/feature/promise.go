package feature

import (
	"errors"
	"sync/atomic"
)

// Promise is a value that is set after the code that needs it was created. It is set once; earlier callers get nothing,
// and must fail closed.
type Promise[T any] struct{ kept atomic.Pointer[T] }

// Keep sets the value.
func (p *Promise[T]) Keep(value T) error {
	if !p.kept.CompareAndSwap(nil, &value) {
		return errors.New("a promise is kept once")
	}
	return nil
}

// Get returns the value; false while it is not set.
func (p *Promise[T]) Get() (value T, kept bool) {
	if v := p.kept.Load(); v != nil {
		return *v, true
	}
	return value, false
}
