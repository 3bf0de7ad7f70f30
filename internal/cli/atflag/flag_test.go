package atflag

import (
	"strings"
	"testing"
	"time"
)

// TM-6: an instant is a time or a distance, in whole seconds; anything else is an error that names the flag.
func TestAsked(t *testing.T) {
	now := time.Date(2026, 11, 17, 8, 0, 0, 500, time.UTC)
	for text, want := range map[string]string{
		"+2h": "2026-11-17T10:00:00Z", "2026-11-17T12:00:00+02:00": "2026-11-17T10:00:00Z", "tomorrow": "", "+x": "", "+1500ms": "", "2026-11-17T10:00:00.5Z": "",
	} {
		got, err := Parse(text, now)
		if (err != nil) != (want == "") || err == nil && got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	if at, err := Flag("").Asked(); at != nil || err != nil {
		t.Errorf("no flag: %v, %v", at, err)
	}
	if _, err := Flag("soon").Asked(); err == nil || !strings.HasPrefix(err.Error(), "--at: ") {
		t.Errorf("soon: %v", err)
	}
}
