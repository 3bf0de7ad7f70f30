package house

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	testFunction = regexp.MustCompile(`^func ((?:Test|Fuzz)\w+)\(`)
	namedTest    = regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
)

// Every point of the five designs names tests that exist, or says that it is open.
func TestDesignsAreShown(t *testing.T) {
	exists := map[string]bool{}
	for _, f := range tree(t) {
		for _, line := range f.text {
			if m := testFunction.FindStringSubmatch(line); m != nil && f.isTest() {
				exists[m[1]] = true
			}
		}
	}
	page, err := os.ReadFile("../../docs/designs.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 5 || strings.HasPrefix(line, "|--") || strings.TrimSpace(cells[1]) == "the design" {
			continue
		}
		rows++
		tests := namedTest.FindAllStringSubmatch(cells[3], -1)
		if open := strings.HasPrefix(strings.TrimSpace(cells[2]), "open"); open == (len(tests) > 0) {
			t.Errorf("%s: it is open, or tests show it", line)
		}
		for _, m := range tests {
			if !exists[m[1]] {
				t.Errorf("%s: there is no %s", line, m[1])
			}
		}
	}
	if rows < 100 {
		t.Errorf("only %d rows", rows)
	}
}
