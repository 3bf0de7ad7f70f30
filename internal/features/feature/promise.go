package feature

import (
	"errors"
	"sync/atomic"
)

// Promise is a value that comes later than those who need it are made. It is kept once; earlier callers get
// nothing, and must fail closed.
type Promise[T any] struct{ kept atomic.Pointer[T] }

// Keep gives the value.
func (p *Promise[T]) Keep(value T) error {
	if !p.kept.CompareAndSwap(nil, &value) {
		return errors.New("a promise is kept once")
	}
	return nil
}

// Get returns the value, and false while it is not there.
func (p *Promise[T]) Get() (value T, kept bool) {
	if v := p.kept.Load(); v != nil {
		return *v, true
	}
	return value, false
}
