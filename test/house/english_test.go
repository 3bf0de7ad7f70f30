package house

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// maxWords is how long a sentence of a guide may be. Most have less than half of it.
const maxWords = 45

// clumsy are turns of phrase that readers stumbled over; a plain one is beside each.
var clumsy = map[string]string{
	"it takes membership in": "is bound to",
	"yields to":              "is overridden by",
	"may let in":             "can grant",
	"in order to":            "to",
	"utilize":                "use",
	"it should be noted":     "(say it)",
	"is able to":             "can",
	"prior to":               "before",
	"whoever":                "a user who",
	"side-car":               "sidecar",
	"anew":                   "again",
	"who is denied to":       "a user who is denied",
	"is no revision":         "is not a revision",
	"due to the fact that":   "because",
}

// OP-10: tutorial and guides have short sentences and plain words.
func TestGuidesArePlainEnglish(t *testing.T) {
	for page, text := range pages(t) {
		if page == "../../README.md" || page == "../../SECURITY.md" || strings.HasPrefix(page, "../../examples/") || strings.HasPrefix(page, "../../docs/how-to/") || strings.HasPrefix(page, "../../docs/tutorial/") {
			report(t, hardToRead(page, text))
		}
	}
}

// TestHardToRead: the check sees what it is for, and leaves short sentences alone.
func TestHardToRead(t *testing.T) {
	long := strings.Repeat("word ", maxWords+1) + "."
	for text, want := range map[string]int{
		"A short one. Another one: with a colon.": 0, long: 1, "It is done in order to win.": 1, "```sh\n" + long + "\n```\n": 0, "| " + long + " |\n": 0,
	} {
		if got := hardToRead("x.md", text); len(got) != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

var (
	blocks      = regexp.MustCompile("(?ms)^```.*?^```$|^\\|.*?$|<!--.*?-->|^#.*?$|`[^`]*`")
	endOf       = regexp.MustCompile(`[.!?;:](\s|\*|$)|\n\s*\n|\n\s*([-*]|\d+\.) `)
	linkTargets = regexp.MustCompile(`\]\([^)]*\)`)
)

func hardToRead(page, text string) (problems []string) {
	prose := linkTargets.ReplaceAllString(blocks.ReplaceAllString(text, "x"), "]")
	for _, sentence := range endOf.Split(prose, -1) {
		if words := strings.Fields(sentence); len(words) > maxWords {
			problems = append(problems, fmt.Sprintf("%s: a sentence of %d words: make two of it: %s…", page, len(words), strings.Join(words[:12], " ")))
		}
	}
	flat := strings.ToLower(strings.Join(strings.Fields(prose), " "))
	for phrase, plain := range clumsy {
		if strings.Contains(flat, phrase) {
			problems = append(problems, fmt.Sprintf("%s: %q: write %q", page, phrase, plain))
		}
	}
	return problems
}
