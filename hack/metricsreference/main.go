// Command metricsreference writes the reference page of the metrics from the source that declares them.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

//go:generate go run . ../../internal ../../docs/reference/metrics.md

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: metricsreference DIRECTORY FILE")
		os.Exit(2)
	}
	all, err := read(os.Args[1])
	if err == nil {
		err = os.WriteFile(os.Args[2], []byte(page(all)), 0o644) //nolint:gosec // a page of documentation, for everybody
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "metricsreference: %v\n", err)
		os.Exit(1)
	}
}

// metric is one that the source declares.
type metric struct {
	name, kind, help string
	labels           []string
}

// read finds the metrics below a directory. One that it cannot read is an error, so that none is missing on the page.
func read(dir string) (all []metric, err error) {
	err = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		found, err := declared(file)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, found...)
		return nil
	})
	slices.SortFunc(all, func(a, b metric) int { return strings.Compare(a.name, b.name) })
	return all, err
}

// declared lists the metrics of a file: those made from options, and those that a function `desc` makes from a name, a
// help text and labels.
func declared(file *ast.File) (all []metric, err error) {
	prefix, first := collected(file)
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || err != nil {
			return err == nil
		}
		var m metric
		var found bool
		switch fun := call.Fun.(type) {
		case *ast.SelectorExpr:
			found, err = m.options(fun, call)
		case *ast.Ident:
			if fun.Name == "desc" && prefix != "" {
				found, err = true, m.description(prefix, first, call)
			}
		}
		if found && err == nil {
			all = append(all, m)
		}
		return err == nil
	})
	return all, err
}

// options reads metrics.NewCounterVec(&metrics.CounterOpts{…}, []string{…}) and the like.
func (m *metric) options(fun *ast.SelectorExpr, call *ast.CallExpr) (bool, error) {
	pkg, ok := fun.X.(*ast.Ident)
	kind, isNew := strings.CutPrefix(fun.Sel.Name, "New")
	kind = strings.TrimSuffix(kind, "Vec")
	if !ok || pkg.Name != "metrics" || !isNew || !slices.Contains([]string{"Counter", "Gauge", "Histogram"}, kind) {
		return false, nil
	}
	m.kind = strings.ToLower(kind)
	parts := map[string]string{}
	options, ok := call.Args[0].(*ast.UnaryExpr)
	if !ok {
		return false, errors.New("a metric whose options are not written where it is made")
	}
	for _, element := range options.X.(*ast.CompositeLit).Elts {
		pair := element.(*ast.KeyValueExpr)
		if text, err := literal(pair.Value); err == nil {
			parts[pair.Key.(*ast.Ident).Name] = text
		}
	}
	if parts["Name"] == "" || parts["Help"] == "" {
		return false, errors.New("a metric without a name or a help text")
	}
	var name []string
	for _, part := range []string{"Namespace", "Subsystem", "Name"} {
		if parts[part] != "" {
			name = append(name, parts[part])
		}
	}
	m.name, m.help = strings.Join(name, "_"), parts["Help"]
	if len(call.Args) > 1 {
		list, ok := call.Args[1].(*ast.CompositeLit)
		if !ok {
			return false, fmt.Errorf("%s: labels that are not written where it is made", m.name)
		}
		return true, m.label(list.Elts)
	}
	return true, nil
}

// collected finds, in a file whose metrics are collected, what every name begins with and the label that all have.
func collected(file *ast.File) (prefix, label string) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if fun, ok := call.Fun.(*ast.SelectorExpr); !ok || fun.Sel.Name != "NewDesc" {
			return true
		}
		if name, ok := call.Args[0].(*ast.BinaryExpr); ok {
			prefix, _ = literal(name.X) // or none
		}
		ast.Inspect(call.Args[2], func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && label == "" {
				label, _ = literal(text) // or none
			}
			return true
		})
		return false
	})
	return prefix, label
}

func (m *metric) description(prefix, first string, call *ast.CallExpr) error {
	m.labels, m.kind = []string{first}, "gauge"
	if err := m.label(call.Args); err != nil {
		return err
	}
	if len(m.labels) < 3 {
		return errors.New("a description without a name or a help text")
	}
	m.name, m.help = prefix+m.labels[1], m.labels[2]
	m.labels = slices.Delete(m.labels, 1, 3)
	if strings.HasSuffix(m.name, "_total") {
		m.kind = "counter"
	}
	return nil
}

func (m *metric) label(list []ast.Expr) error {
	for _, e := range list {
		text, err := literal(e)
		if err != nil {
			return err
		}
		m.labels = append(m.labels, text)
	}
	return nil
}

func literal(e ast.Expr) (string, error) {
	text, ok := e.(*ast.BasicLit)
	if !ok || text.Kind != token.STRING {
		return "", errors.New("a text that is not written where it is used")
	}
	return strconv.Unquote(text.Value)
}

const introduction = "<!-- Written by hack/metricsreference; `make generate` writes it again. -->\n\n" + `# Metrics

Proviso serves these at ` + "`/metrics`" + `, beside those of kube-apiserver, which keep their names. All of them are of the
stability level ALPHA: they can change from release to release, and the changelog says so.
[Monitoring](../how-to/monitoring.md) shows what to look at.

| metric | type | labels | what it says |
|---|---|---|---|
`

func page(all []metric) string {
	var b strings.Builder
	b.WriteString(introduction)
	for _, m := range all {
		labels := "–"
		if len(m.labels) > 0 {
			labels = "`" + strings.Join(m.labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, labels, m.help)
	}
	return b.String()
}
