package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// site is one way to break one file.
type site struct {
	file          string
	line          int
	before, after string
	mutant        []byte
}

// String identifies a mutant without its line, so that an answer outlives changes elsewhere in the file.
func (s site) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s: %s -> %s", filepath.ToSlash(filepath.Clean(s.file)), s.before, s.after))
}

// operators maps each operator to what it is mistaken for.
var operators = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.LAND: token.LOR, token.LOR: token.LAND, token.ADD: token.SUB, token.SUB: token.ADD,
}

// decisions maps each name that decides something to another one.
var decisions = map[string]string{
	"DecisionAllow": "DecisionNoOpinion", "DecisionDeny": "DecisionAllow", "DecisionNoOpinion": "DecisionAllow",
	"Allows": "Denies", "Denies": "Allows", "true": "false", "false": "true", "Always": "Never", "Never": "Always",
}

// sitesIn finds every place of a package that can be broken, in the order of the source.
func sitesIn(dir string) ([]site, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var all []site
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(filepath.Base(file), "zz_generated") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		found, err := sitesOf(file, text)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("there is nothing to mutate")
	}
	return all, nil
}

func sitesOf(file string, text []byte) ([]site, error) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, text, 0)
	if err != nil {
		return nil, err
	}
	var all []site
	replace := func(from, to token.Pos, with string) {
		begin, end := fset.Position(from), fset.Position(to)
		mutant := append([]byte{}, text[:begin.Offset]...)
		mutant = append(append(mutant, with...), text[end.Offset:]...)
		all = append(all, site{file: file, line: begin.Line, before: lineAt(text, begin.Offset), after: lineAt(mutant, begin.Offset), mutant: mutant})
	}
	negate := func(cond ast.Expr) {
		if cond != nil {
			replace(cond.Pos(), cond.End(), "!("+source(fset, cond)+")")
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			return n.Tok == token.VAR || n.Tok == token.CONST
		case *ast.BinaryExpr:
			if to, ok := operators[n.Op]; ok {
				replace(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), to.String())
			}
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				replace(n.OpPos, n.OpPos+1, "")
			}
		case *ast.IfStmt:
			negate(n.Cond)
		case *ast.ForStmt:
			return true // negating a loop mostly makes it endless
		case *ast.SelectorExpr:
			if to, ok := decisions[n.Sel.Name]; ok {
				replace(n.Sel.Pos(), n.Sel.End(), to)
			}
		case *ast.Ident:
			if to, ok := decisions[n.Name]; ok && (n.Name == "true" || n.Name == "false") {
				replace(n.Pos(), n.End(), to)
			}
		case *ast.ExprStmt:
			if _, ok := n.X.(*ast.CallExpr); ok {
				replace(n.Pos(), n.End(), "")
			}
		}
		return true
	})
	return all, nil
}

// lineAt is the line of the text that an offset lies in, in one space.
func lineAt(text []byte, offset int) string {
	begin := bytes.LastIndexByte(text[:offset], '\n') + 1
	end := len(text)
	if i := bytes.IndexByte(text[offset:], '\n'); i >= 0 {
		end = offset + i
	}
	return strings.Join(strings.Fields(string(text[begin:end])), " ")
}

func source(fset *token.FileSet, n ast.Node) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, fset, n); err != nil {
		return ""
	}
	return b.String()
}
