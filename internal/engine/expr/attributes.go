package expr

import (
	"math"
	"slices"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/fields"

	"proviso.dev/proviso/internal/engine/expr/text"
)

// attribute is a label or a selectable field that a where uses.
type attribute struct {
	path     []string
	label    bool
	field    selectableField // unless label
	constant []ref.Val       // what it is compared with
	free     bool            // it is used in another way, too
	direct   bool            // it is used itself, not only something that contains it
}

// attributesOf finds the attributes that an expression uses. False means that it uses something of the object that no
// selector can express.
func attributesOf(e ast.Expr, req *Request, fields []selectableField) ([]*attribute, bool) {
	s := &scan{req: req, fields: fields, ok: true}
	s.expr(e)
	return s.found, s.ok
}

type scan struct {
	req    *Request
	fields []selectableField
	found  []*attribute
	hidden int // loops in scope whose variable is called resource
	ok     bool
}

func (s *scan) fail() { s.ok = false }

// pathOf resolves a chain of selections on `resource` by constant names.
func (s *scan) pathOf(e ast.Expr) ([]string, bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return nil, e.AsIdent() == varResource && s.hidden == 0
	case ast.SelectKind:
		sel := e.AsSelect()
		path, ok := s.pathOf(sel.Operand())
		return append(path, sel.FieldName()), ok
	case ast.CallKind:
		call := e.AsCall()
		switch call.FunctionName() {
		case operators.Index, operators.OptIndex, operators.OptSelect:
			name, isName := text.StringLiteral(call.Args()[1])
			path, ok := s.pathOf(call.Args()[0])
			return append(path, name), ok && isName
		}
	}
	return nil, false
}

// attribute returns the attribute at a path, or nil if there is none.
func (s *scan) attribute(path []string) *attribute {
	for _, a := range s.found {
		if slices.Equal(a.path, path) {
			return a
		}
	}
	a := &attribute{path: slices.Clone(path)}
	if isLabel(path) {
		a.label = true
	} else {
		i := slices.IndexFunc(s.fields, func(f selectableField) bool { return slices.Equal(f.path, path) })
		if i < 0 {
			return nil
		}
		a.field = s.fields[i]
	}
	s.found = append(s.found, a)
	return a
}

func isLabel(path []string) bool {
	return len(path) == 3 && path[0] == "metadata" && path[1] == "labels"
}

// expr looks for attributes that are used as values.
func (s *scan) expr(e ast.Expr) {
	if !s.ok {
		return
	}
	if path, ok := s.pathOf(e); ok {
		a := s.attribute(path)
		if a == nil {
			s.fail()
			return
		}
		a.free, a.direct = true, true
		return
	}
	switch e.Kind() {
	case ast.IdentKind:
		if name := e.AsIdent(); name == "."+varResource || name == varResource && s.hidden == 0 {
			s.fail()
		}
	case ast.CallKind:
		s.call(e.AsCall())
	default:
		text.Children(e, s.expr)
	}
}

func (s *scan) call(call ast.CallExpr) {
	args := call.Args()
	switch fn := call.FunctionName(); {
	case fn == operators.Equals || fn == operators.NotEquals:
		if s.compared(args[0], args[1]) || s.compared(args[1], args[0]) {
			return
		}
	case fn == operators.In:
		if s.compared(args[0], args[1]) || s.labelTest(args[0], args[1]) {
			return
		}
	case isPresenceTest(call) && len(args) == 1:
		if path, ok := s.pathOf(args[0]); ok {
			s.presence(path)
			return
		}
	case fn == "hasValue" && call.IsMemberFunction():
		if path, ok := s.pathOf(call.Target()); ok {
			s.presence(path)
			return
		}
	}
	if call.IsMemberFunction() {
		s.expr(call.Target())
	}
	vars, rest := text.LoopVars(call)
	if slices.Contains(vars, varResource) {
		s.hidden++
		defer func() { s.hidden-- }()
	}
	for _, a := range rest {
		s.expr(a)
	}
}

// compared handles attribute == constant and attribute in [constants].
func (s *scan) compared(e, with ast.Expr) bool {
	consts, ok := constants(with)
	if !ok {
		return false
	}
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == "orValue" && e.AsCall().IsMemberFunction() &&
		len(e.AsCall().Args()) == 1 && e.AsCall().Args()[0].Kind() == ast.LiteralKind {
		// The default is compared, too, but it is a constant itself.
		e = e.AsCall().Target()
	}
	path, ok := s.pathOf(e)
	if !ok {
		return false
	}
	a := s.attribute(path)
	if a == nil {
		s.fail()
		return true
	}
	a.constant, a.direct = append(a.constant, consts...), true
	a.free = a.free || slices.ContainsFunc(consts, severalWhole)
	return true
}

// severalWhole reports whether a constant equals several whole numbers: beyond 2^53 not every one of them is a double.
// Then its values cannot be listed.
func severalWhole(c ref.Val) bool {
	d, ok := c.(types.Double)
	return ok && !(math.Abs(float64(d)) < 1<<53)
}

// constants returns the value of a literal, or those of a list of literals.
func constants(e ast.Expr) ([]ref.Val, bool) {
	switch e.Kind() {
	case ast.LiteralKind:
		return []ref.Val{e.AsLiteral()}, true
	case ast.ListKind:
		var out []ref.Val
		for _, el := range e.AsList().Elements() {
			if el.Kind() != ast.LiteralKind {
				return nil, false
			}
			out = append(out, el.AsLiteral())
		}
		return out, len(e.AsList().OptionalIndices()) == 0
	}
	return nil, false
}

// labelTest handles "key" in resource.metadata.labels.
func (s *scan) labelTest(key, in ast.Expr) bool {
	name, isName := text.StringLiteral(key)
	path, ok := s.pathOf(in)
	if !isName || !ok || !slices.Equal(path, []string{"metadata", "labels"}) {
		return false
	}
	s.presence(append(path, name))
	return true
}

// presence handles has() of an attribute, or of something that contains one.
func (s *scan) presence(path []string) {
	if a := s.attribute(path); a != nil {
		a.direct = true
		return
	}
	// A container exists if any of its attributes does. The attributes that the selectors mention may settle it; one
	// more stands for the rest.
	if slices.Equal(path, []string{"metadata", "labels"}) {
		for _, r := range s.req.LabelSelector {
			s.attribute([]string{"metadata", "labels", r.Key()})
		}
		s.attribute([]string{"metadata", "labels", ""})
		return
	}
	inside := false
	for _, f := range s.fields {
		if len(f.path) <= len(path) || !slices.Equal(f.path[:len(path)], path) {
			continue
		}
		selected := slices.ContainsFunc(s.req.FieldSelector, func(r fields.Requirement) bool { return r.Field == f.key })
		if selected || !inside {
			s.attribute(f.path)
			inside = true
		}
	}
	if !inside {
		s.fail()
	}
}
