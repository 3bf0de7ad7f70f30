package terminal

import (
	"strings"
	"testing"
)

// TR-22: on a terminal lines are cut to its width with a hint, and coloured; elsewhere they are left as they are.
func TestFit(t *testing.T) {
	var out strings.Builder
	f := Fit(&out, "-o wide shows all", func(string) Colour { return Red })
	if _, err := f.Write([]byte("a long li")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("ne\nand more")); err != nil || f.Close() != nil || out.String() != "a long line\nand more\n" {
		t.Errorf("%v %q", err, out.String())
	}
	out.Reset()
	f = &Fitted{out: &out, width: 6, hint: "-o wide shows all", colour: func(line string) Colour {
		if strings.HasPrefix(line, "lost") {
			return Red
		}
		return None
	}}
	if _, err := f.Write([]byte("lost\nä line that is long\n")); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	if want := "\x1b[31mlost\x1b[0m\nä lin…\n-o wide shows all\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
