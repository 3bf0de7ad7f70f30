package house

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxWidth is the width of comments and of prose, with four columns for a tab. Code, tables, pictures and output are as
// wide as they have to be.
const maxWidth = 120

func TestCommentsStayNarrow(t *testing.T) {
	report(t, wideComments(tree(t)))
}

func wideComments(files []file) (problems []string) {
	for _, f := range files {
		if f.isGenerated() {
			continue
		}
		for _, group := range f.ast.Comments {
			for _, comment := range group.List {
				at := fset.Position(comment.Pos())
				// Text that is indented is a picture or a table; what follows code is as wide as it must be.
				prose := strings.HasPrefix(comment.Text, "// ") && !strings.HasPrefix(comment.Text, "//  ")
				alone := strings.TrimLeft(f.text[at.Line-1], "\t") == comment.Text
				width := 4*(at.Column-1) + utf8.RuneCountInString(comment.Text)
				if prose && alone && width > maxWidth {
					problems = append(problems, fmt.Sprintf("%s:%d is %d columns wide, more than %d", f.path, at.Line, width, maxWidth))
				}
			}
		}
	}
	return problems
}

func TestProseStaysNarrow(t *testing.T) {
	for page, text := range pages(t) {
		if !strings.HasPrefix(page, "../../docs/reference/") { // generated
			report(t, wideProse(page, text))
		}
	}
}

func wideProse(page, text string) (problems []string) {
	fenced := false // in a block of code; an indented one counts as well, and a line of one word cannot be broken
	for n, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") {
			fenced = !fenced
		}
		if fenced || trimmed == "" || strings.ContainsAny(trimmed[:1], "|<[#") || strings.HasPrefix(line, "    ") || !strings.Contains(trimmed, " ") {
			continue
		}
		if width := utf8.RuneCountInString(line); width > maxWidth {
			problems = append(problems, fmt.Sprintf("%s:%d is %d columns wide, more than %d", page, n+1, width, maxWidth))
		}
	}
	return problems
}
