package house

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"strings"
	"testing"
)

// words are the words of the house that are types, each with the package where it lives. ARCHITECTURE.md says what they
// mean.
var words = map[string]string{
	"truth": "expr", "finding": "expr", "certainty": "ruleset", "standing": "ruleset", "verdict": "authorize", "pass": "requestctx",
	"outcome": "requestctx", "snapshot": "snapshot", "decision": "authorizer, which is upstream's",
}

// A word that means two things costs every reader a look at the import.
func TestWordsMeanOneThing(t *testing.T) {
	report(t, misusedWords(tree(t)))
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Words\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for word := range words {
		if !strings.Contains(section, "| **"+strings.ToUpper(word[:1])+word[1:]+"** |") {
			t.Errorf("ARCHITECTURE.md does not say what %s means, in its section Words", word)
		}
	}
}

// misusedWords finds types that take a word away from the package where it lives, and functions that are called by a
// word and return something else.
func misusedWords(files []file) (problems []string) {
	for _, f := range files {
		own := path.Base(f.dir())
		if folderOf(f.dir()) == "" {
			continue
		}
		complain := func(what, name string) {
			if home := words[strings.ToLower(name)]; home != "" && home != own {
				problems = append(problems, fmt.Sprintf("%s declares the %s %s: that word lives in package %s (ARCHITECTURE.md, Words). Find another", f.path, what, name, home))
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch d := n.(type) {
			case *ast.TypeSpec:
				complain("type", d.Name.Name)
			case *ast.FuncDecl:
				if !returns(d.Type, d.Name.Name) {
					complain("function", d.Name.Name)
				}
			}
			return true
		})
	}
	return problems
}

// returns reports whether the first result is of a type with the name, in whatever package, and however it begins.
func returns(t *ast.FuncType, name string) bool {
	if t.Results == nil || len(t.Results.List) == 0 {
		return false
	}
	result := t.Results.List[0].Type
	if p, ok := result.(*ast.StarExpr); ok {
		result = p.X
	}
	switch r := result.(type) {
	case *ast.SelectorExpr:
		return strings.EqualFold(r.Sel.Name, name)
	case *ast.Ident:
		return strings.EqualFold(r.Name, name)
	}
	return false
}
