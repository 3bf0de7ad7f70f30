package expr

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// TM-2: request.time is known when a request is authorized: partial evaluation replaces it. A time that is not known
// stays open, allows nothing and denies.
func TestRequestTime(t *testing.T) {
	c := compiler(t)
	at := func(text string) *Request {
		instant, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		return NewRequestAt(authorizer.AttributesRecord{Verb: "get"}, instant)
	}
	for _, tc := range []struct {
		when, at string
		want     Truth
	}{
		{`request.time < timestamp("2026-11-17T09:00:00Z")`, "2026-11-17T08:59:59.999Z", True},
		{`request.time < timestamp("2026-11-17T09:00:00Z")`, "2026-11-17T09:00:00Z", False},
		{`request.time.getHours("Europe/Berlin") == 10`, "2026-11-17T09:30:00Z", True},
		{`request.time.getHours("Europe/Berlin") == 10`, "2026-07-17T09:30:00Z", False},
		{`request.time.getHours("+05:30") == 15`, "2026-11-17T09:30:00Z", True},
		{`request.time.getDayOfWeek() in [1, 2, 3, 4, 5]`, "2026-11-15T12:00:00Z", False},
		{`request.time.getDayOfWeek() in [1, 2, 3, 4, 5]`, "2026-11-16T12:00:00+02:00", True},
		{`request.time.getHours() < 12 && object.x == 1`, "2026-11-17T13:00:00Z", False},
		{`request.time.getHours() < 12 && object.x == 1`, "2026-11-17T11:00:00Z", Unresolved},
	} {
		p, issues := c.Compile(tc.when, Options{Kind: When})
		if issues != nil {
			t.Fatal(issues)
		}
		got := p.Decide(at(tc.at), Allow)
		if got.Truth() != tc.want || !LooksOf(p).Time {
			t.Errorf("%s at %s: %v, looks %+v", tc.when, tc.at, got.Truth(), LooksOf(p))
		}
		if got.Truth() == Unresolved {
			if text := p.Text(at(tc.at), Allow); text != "object.x == 1" {
				t.Errorf("what is left of it is %q", text)
			}
		}
		open := NewRequestAt(authorizer.AttributesRecord{Verb: "get"}, time.Time{})
		if got := p.Decide(open, Deny); got.Truth() != Unresolved {
			t.Errorf("%s at a time that is not known: %v", tc.when, got.Truth())
		}
		if strings.Contains(tc.when, "object") {
			continue
		}
		if holds, err := p.Evaluate(context.Background(), open, Allow, NewData(DataConfig{})); holds || err == nil {
			t.Errorf("%s is evaluated at a time that is not known: %v, %v", tc.when, holds, err)
		}
	}
}

// TM-2: a zone that nobody knows is an error when the rule is written, with its place.
func TestUnknownZone(t *testing.T) {
	c := compiler(t)
	for when, want := range map[string]string{
		`request.time.getHours("Europe/Bonn") < 3`:                                 `line 1, column 23: there is no time zone "Europe/Bonn"`,
		`request.time.getHours("Local") < 3`:                                       `"Local"`,
		`request.time.getHours("Europe/Berlin") < request.time.getMinutes("Mars")`: `"Mars"`,
		`request.time.getHours("-08:00") < 3`:                                      "",
		`request.time.getHours("UTC") < 3`:                                         "",
		`request.time.getHours(request.user) < 3`:                                  "",
	} {
		_, issues := c.Compile(when, Options{Kind: When})
		if want == "" && issues != nil || want != "" && (issues == nil || !strings.Contains(issues.Error(), want)) {
			t.Errorf("%s: %v", when, issues)
		}
		if _, issues := c.Compile(when, Options{Kind: When, Stored: true}); issues != nil {
			t.Errorf("stored, %s: %v", when, issues)
		}
	}
}

// TM-2: what does not look at the time is not asked again because of it.
func TestLooksAtTime(t *testing.T) {
	c := compiler(t)
	for when, want := range map[string]bool{
		`request.user == "a"`: false, `object.time == 1`: false, `request.time == request.time`: true, `[request].size() == 1`: true,
		`[1].exists(request, request == 1)`: false,
	} {
		p, issues := c.Compile(when, Options{Kind: When})
		if issues != nil {
			t.Fatal(issues)
		}
		if got := LooksOf(p).Time; got != want {
			t.Errorf("%s: %v", when, got)
		}
	}
}
