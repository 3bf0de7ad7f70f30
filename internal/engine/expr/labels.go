package expr

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"proviso.dev/proviso/internal/engine/expr/text"
)

// Labels returns the label keys of the object that an expression from Syntax names: by selection, by index or with
// `in`. Computed keys are not among them. They are sorted.
func Labels(e ast.Expr) []string {
	found := map[string]bool{}
	labelsIn(e, found)
	keys := make([]string, 0, len(found))
	for key := range found {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func labelsIn(e ast.Expr, found map[string]bool) {
	if of, key, ok := step(e); ok && areLabels(of) {
		found[key] = true
	}
	switch e.Kind() {
	case ast.SelectKind:
		labelsIn(e.AsSelect().Operand(), found)
	case ast.CallKind:
		call := e.AsCall()
		if call.FunctionName() == operators.In && len(call.Args()) == 2 && areLabels(call.Args()[1]) {
			if key, ok := text.StringLiteral(call.Args()[0]); ok {
				found[key] = true
			}
		}
		if call.IsMemberFunction() {
			labelsIn(call.Target(), found)
		}
		for _, arg := range call.Args() {
			labelsIn(arg, found)
		}
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			labelsIn(element, found)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			labelsIn(entry.AsMapEntry().Key(), found)
			labelsIn(entry.AsMapEntry().Value(), found)
		}
	}
}

// step is one step of a path: of.key, of.?key, of["key"] or of[?"key"].
func step(e ast.Expr) (of ast.Expr, key string, ok bool) {
	switch e.Kind() {
	case ast.SelectKind:
		return e.AsSelect().Operand(), e.AsSelect().FieldName(), true
	case ast.CallKind:
		call := e.AsCall()
		switch call.FunctionName() {
		case operators.Index, operators.OptIndex, operators.OptSelect:
			if len(call.Args()) == 2 {
				key, ok = text.StringLiteral(call.Args()[1])
				return call.Args()[0], key, ok
			}
		}
	}
	return nil, "", false
}

// areLabels reports whether an expression is the labels of the object, stored or new, also with a default for an object
// without labels.
func areLabels(e ast.Expr) bool {
	if e.Kind() == ast.CallKind && e.AsCall().IsMemberFunction() && strings.HasPrefix(e.AsCall().FunctionName(), "or") {
		return areLabels(e.AsCall().Target()) // orValue, or
	}
	metadata, key, ok := step(e)
	if !ok || key != "labels" {
		return false
	}
	object, key, ok := step(metadata)
	if !ok || key != "metadata" || object.Kind() != ast.IdentKind {
		return false
	}
	return slices.Contains(objectNames, strings.TrimPrefix(object.AsIdent(), "."))
}
