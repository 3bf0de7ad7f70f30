package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// habits are turns of phrase that make a sentence hard to read; a plain one is beside each. "There is no X" is plain.
var habits = []struct {
	phrase *regexp.Regexp
	plain  string
}{
	{regexp.MustCompile(`(?i)\bwhoever\b`), "a user who, or the role: the caller, the author"},
	{regexp.MustCompile(`(?i)\bsomebody\b`), "a user, a subject, another component"},
	{regexp.MustCompile(`(?i)\bnobody but\b`), "only"},
	{regexp.MustCompile(`(?i)\banew\b`), "again"},
	{regexp.MustCompile(`(?i)\btells whether\b`), "reports whether, or shows"},
	{regexp.MustCompile(`(?i)\bwho (is|are) denied to\b`), "a user who is denied `delete`"},
	{regexp.MustCompile(`(?i)\bwhat there is\b`), "the current policy, or what it is"},
	{regexp.MustCompile(`(?i): one of them$`), "are mutually exclusive"},
	{regexp.MustCompile(`(?i)\b(it|that|this|which|what|\w+[^e\W]) (is|are) no (an? )?[a-z]{3,}\b`), "is not an X"},
}

// gendered is for code, whose people have no names. Edgar and Hubert of the guides are "he".
var gendered = regexp.MustCompile(`\b([Hh]e|[Hh]is|him|himself)\b`)

// notNegations are what reads like "is no X" and is plain.
var notNegations = regexp.MustCompile(`(?i)\bthere (is|are) no\b|\b(is|are) no (longer|more|less|other|such)\b`)

// TestCodeIsPlainEnglish: comments and messages of code have none of the habits, and no page has.
func TestCodeIsPlainEnglish(t *testing.T) {
	var problems []string
	for _, f := range tree(t) {
		if f.isTest() || f.isGenerated() {
			continue
		}
		for _, text := range spoken(f.ast) {
			for _, problem := range clumsyIn(text.text, true) {
				problems = append(problems, fmt.Sprintf("%s:%d: %s", f.path, text.line, problem))
			}
		}
	}
	for page, text := range pages(t) {
		name := strings.TrimPrefix(page, "../../")
		for _, problem := range clumsyIn(blocks.ReplaceAllString(text, "x"), false) {
			problems = append(problems, name+": "+problem)
		}
	}
	report(t, problems)
}

type saying struct {
	text string
	line int
}

// spoken are the comments and the messages of a file: every literal of more than one word.
func spoken(f *ast.File) (all []saying) {
	for _, group := range f.Comments {
		all = append(all, saying{group.Text(), fset.Position(group.Pos()).Line})
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && strings.Contains(lit.Value, " ") {
			all = append(all, saying{strings.Trim(lit.Value, "`\""), fset.Position(lit.Pos()).Line})
		}
		return true
	})
	return all
}

func clumsyIn(text string, code bool) (problems []string) {
	flat := notNegations.ReplaceAllString(strings.Join(strings.Fields(text), " "), "x")
	for _, habit := range habits {
		if said := habit.phrase.FindString(flat); said != "" {
			problems = append(problems, fmt.Sprintf("%q: write %q", said, habit.plain))
		}
	}
	if said := gendered.FindString(flat); code && said != "" {
		problems = append(problems, fmt.Sprintf("%q: write they, their, or the role: the caller", said))
	}
	return problems
}

// TestClumsyIn: the check sees what it is for, and leaves plain sentences alone.
func TestClumsyIn(t *testing.T) {
	for text, want := range map[string]int{
		"Whoever asks gets an answer.": 1, "A user who asks gets an answer.": 0, "it is no Proviso": 1, "it is not Proviso": 0, "there is no object": 0,
		"the rule is no longer held": 0, "lines are no audit events": 1, "--delete and --prune: one of them": 1, "This one of them is fine": 0,
		"the caller sees his rights": 1, "the caller sees this right": 0, "for somebody\nelse": 1,
	} {
		if got := clumsyIn(text, true); len(got) != want {
			t.Errorf("%q: %q, want %d", text, got, want)
		}
	}
	if got := clumsyIn("Edgar sees his rights", false); len(got) != 0 {
		t.Error(got)
	}
}
