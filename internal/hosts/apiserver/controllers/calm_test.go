package controllers

import (
	"sync/atomic"
	"testing"
	"time"
)

// Whenever a call is asked for, one begins after that.
func TestCalmly(t *testing.T) {
	var state atomic.Int64
	calls := make(chan int64)
	changed := calmly(t.Context(), time.Millisecond, func() {
		select {
		case calls <- state.Load():
		case <-t.Context().Done():
		}
	})
	for range 50 {
		for range 1000 {
			state.Add(1)
			changed()
		}
		for want := state.Load(); <-calls != want; {
		}
	}
}

// The first call is at once, whatever the pause, and until the pause is over there is no other.
func TestCalmlyIsPromptAndCalm(t *testing.T) {
	called := make(chan struct{}, 2)
	changed := calmly(t.Context(), time.Hour, func() { called <- struct{}{} })
	changed()
	<-called
	for range 1000 {
		changed()
	}
	if len(called) != 0 {
		t.Error("there was another call")
	}
}
