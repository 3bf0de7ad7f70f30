package terminal

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
)

type name string

type spelled int

func (spelled) String() string { return "a\nb" }

// NI-7: whatever a text says, it stays in its line and moves no cursor.
func TestTextIsOneLine(t *testing.T) {
	for in, want := range map[string]string{
		"alice":                 "alice",
		"ünïcode 日本 \U0001f600": "ünïcode 日本 \U0001f600",
		"a\nb\tc\r":             `a\nb\tc\r`,
		"\x1b[2Jx":              `\u001b[2Jx`,
		"\x7f\u0085\u2028":      `\u007f\u0085\u2028`,
		"a\u202eb\u200b":        `a\u202eb\u200b`,
		"\U000e0041":            `\udb40\udc41`,
		"\xff":                  "\ufffd",
		"":                      "",
	} {
		if got := Text(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		var b strings.Builder
		for _, arg := range []any{in, name(in), errors.New(in), []string{in}, []byte(in)} {
			if _, err := Fprintf(&b, "%s|%-3v|%q\n", arg, arg, "x"); err != nil {
				t.Fatal(err)
			}
		}
		if n := strings.Count(b.String(), "\n"); n != 5 || strings.ContainsFunc(b.String(), func(r rune) bool { return r != '\n' && unicode.IsControl(r) }) {
			t.Errorf("%q is printed as %q", in, b.String())
		}
	}
	var b strings.Builder
	_, _ = Fprintf(&b, "%*d %v %s %q|", 4, 7, spelled(1), Lines("a\nb"), "c\nd")
	_, _ = Fprintln(&b, "e\nf", 3)
	_, _ = Fprint(&b, "g\n")
	if want := "   7 a\\nb a\nb \"c\\nd\"|e\\nf 3\ng\\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	if got := Sprintf("%s\n", "x\ny"); got != "x\\ny\n" {
		t.Errorf("%q", got)
	}
}

// NI-7: the last writer keeps JSON what it is, and lets nothing through in pieces.
func TestClean(t *testing.T) {
	text := "\x1b]0;title\x07 日本\u202e\u0085 line\n\ttab"
	data, err := json.Marshal(map[string]string{"name": text + "\x7f"})
	if err != nil {
		t.Fatal(err)
	}
	for size := 1; size < 5; size++ {
		var b strings.Builder
		w := Clean(&b)
		for rest := data; len(rest) > 0; rest = rest[min(size, len(rest)):] {
			if n, err := w.Write(rest[:min(size, len(rest))]); err != nil || n != min(size, len(rest)) {
				t.Fatal(n, err)
			}
		}
		var back map[string]string
		if err := json.Unmarshal([]byte(b.String()), &back); err != nil || back["name"] != text+"\x7f" {
			t.Errorf("%d bytes at a time: %q, %v", size, b.String(), err)
		}
		if strings.ContainsFunc(b.String(), hides) {
			t.Errorf("%q", b.String())
		}
	}
	var painted strings.Builder
	fmt.Fprint(Clean(&painted), "\x1b[31mred\x1b[0m \x1b[2J \x1b[131m")
	if want := "\x1b[31mred\x1b[0m " + `\u001b[2J \u001b[131m`; painted.String() != want {
		t.Errorf("%q, want %q", painted.String(), want)
	}
	if Underlying(Clean(&painted)) != &painted || Underlying(&painted) != &painted {
		t.Error("another writer")
	}
	var b strings.Builder
	fmt.Fprint(Clean(&b), text)
	if want := `\u001b]0;title\u0007 日本\u202e\u0085 line` + "\n\ttab"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 cases", 1: "1 case", 2: "2 cases"} {
		if got := Count(n, "case", "cases"); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
}
