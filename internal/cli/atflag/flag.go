package atflag

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Flag is the flag as it was given; empty is now.
type Flag string

// Add adds the flag.
func (f *Flag) Add(fs *pflag.FlagSet) {
	fs.StringVar((*string)(f), "at", "", "Instant that the question is about: a time such as 2026-11-17T09:00:00Z, or +2h for in two hours. Default: now.")
}

// Asked is the instant; nil if the flag is not given.
func (f Flag) Asked() (*metav1.Time, error) {
	if f == "" {
		return nil, nil
	}
	t, err := Parse(string(f), time.Now())
	if err != nil {
		return nil, fmt.Errorf("--at: %w", err)
	}
	return &metav1.Time{Time: t}, nil
}

// Parse reads a time, or a distance from now.
func Parse(text string, now time.Time) (time.Time, error) {
	if later, relative := strings.CutPrefix(text, "+"); relative {
		d, err := time.ParseDuration(later)
		if err != nil || d%time.Second != 0 {
			return time.Time{}, fmt.Errorf("%q is not a distance in whole seconds, such as +2h", text)
		}
		return now.Truncate(time.Second).Add(d), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is neither a time such as 2026-11-17T09:00:00Z nor a distance such as +2h", text)
	}
	if at.Nanosecond() != 0 {
		return time.Time{}, errors.New("want whole seconds")
	}
	return at, nil
}
