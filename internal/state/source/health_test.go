package source

import (
	"errors"
	"strings"
	"testing"
)

// A source is stuck if it fails and makes no progress, and not any longer once it does.
func TestStuckSource(t *testing.T) {
	s := &source{name: "policies"}
	failure := errors.New("no such host")
	steps := []struct {
		do   func()
		at   string
		want bool
	}{
		{func() {}, "5", false},
		{func() { s.note(failure, "5") }, "5", false}, // a connection that ended
		{func() { s.note(failure, "5") }, "5", true},
		{func() {}, "6", false}, // it made progress
		{func() { s.note(failure, "6") }, "6", false},
		{func() { s.note(failure, "6") }, "6", true},
	}
	for i, step := range steps {
		step.do()
		if err := s.stuck(step.at); (err != nil) != step.want || err != nil && (!strings.Contains(err.Error(), "policies") || !errors.Is(err, failure)) {
			t.Errorf("step %d: %v", i, err)
		}
	}
}
