package text

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// Binding strengths of CEL's grammar, weakest first.
const (
	precTernary = iota + 1
	precOr
	precAnd
	precRelation
	precAdd
	precMultiply
	precUnary
	precMember
)

var binaryPrec = map[string]int{
	operators.LogicalOr: precOr, operators.LogicalAnd: precAnd,
	operators.Equals: precRelation, operators.NotEquals: precRelation, operators.In: precRelation,
	operators.Less: precRelation, operators.LessEquals: precRelation,
	operators.Greater: precRelation, operators.GreaterEquals: precRelation,
	operators.Add: precAdd, operators.Subtract: precAdd,
	operators.Multiply: precMultiply, operators.Divide: precMultiply, operators.Modulo: precMultiply,
}

// printer writes an expression with unexpanded macros as source. We do not use cel-go's, because it drops parentheses
// that matter, as in (-x).f().
type printer struct {
	strings.Builder
}

// Source writes an expression as source.
func Source(e ast.Expr) string {
	var p printer
	p.expr(e, precTernary)
	return p.String()
}

// expr writes e, in parentheses if it binds weaker than its context requires.
func (p *printer) expr(e ast.Expr, at int) {
	if precedence(e) < at {
		p.WriteByte('(')
		p.bare(e)
		p.WriteByte(')')
		return
	}
	p.bare(e)
}

func precedence(e ast.Expr) int {
	switch e.Kind() {
	case ast.CallKind:
		call := e.AsCall()
		switch fn := call.FunctionName(); fn {
		case operators.Conditional:
			return precTernary
		case operators.LogicalNot, operators.Negate:
			return precUnary
		default:
			if prec, ok := binaryPrec[fn]; ok {
				return prec
			}
		}
	case ast.LiteralKind:
		switch v := e.AsLiteral().(type) {
		case types.Int:
			if v < 0 {
				return precUnary
			}
		case types.Double:
			if strings.HasPrefix(formatDouble(float64(v)), "-") {
				return precUnary
			}
		}
	}
	return precMember
}

func (p *printer) bare(e ast.Expr) {
	switch e.Kind() {
	case ast.IdentKind:
		p.WriteString(e.AsIdent())
	case ast.LiteralKind:
		p.literal(e)
	case ast.SelectKind:
		sel := e.AsSelect()
		p.expr(sel.Operand(), precMember)
		p.WriteByte('.')
		p.WriteString(sel.FieldName())
	case ast.CallKind:
		p.call(e.AsCall())
	case ast.ListKind:
		p.list(e.AsList())
	case ast.MapKind:
		p.mapping(e.AsMap())
	case ast.StructKind:
		p.message(e.AsStruct())
	}
}

func (p *printer) call(call ast.CallExpr) {
	args := call.Args()
	fn := call.FunctionName()
	if prec, ok := binaryPrec[fn]; ok && len(args) == 2 {
		right := prec + 1
		if fn == operators.LogicalAnd || fn == operators.LogicalOr {
			right = prec // associative
		}
		op, _ := operators.FindReverseBinaryOperator(fn)
		p.expr(args[0], prec)
		p.WriteString(" " + op + " ")
		p.expr(args[1], right)
		return
	}
	switch fn {
	case operators.Conditional:
		p.expr(args[0], precOr)
		p.WriteString(" ? ")
		p.expr(args[1], precOr)
		p.WriteString(" : ")
		p.expr(args[2], precTernary)
	case operators.LogicalNot:
		p.WriteByte('!')
		p.expr(args[0], precMember)
	case operators.Negate:
		p.WriteByte('-')
		p.negated(args[0])
	case operators.Index, operators.OptIndex:
		p.expr(args[0], precMember)
		p.WriteByte('[')
		if fn == operators.OptIndex {
			p.WriteByte('?')
		}
		p.expr(args[1], precTernary)
		p.WriteByte(']')
	case operators.OptSelect:
		p.expr(args[0], precMember)
		p.WriteString(".?")
		name, _ := args[1].AsLiteral().(types.String)
		p.WriteString(string(name))
	default:
		if call.IsMemberFunction() {
			p.expr(call.Target(), precMember)
			p.WriteByte('.')
		}
		p.WriteString(fn)
		p.WriteByte('(')
		p.separated(len(args), func(i int) { p.expr(args[i], precTernary) })
		p.WriteByte(')')
	}
}

// negated writes the operand of a minus. A number is put in parentheses: -(1)
// is a negation, -1 a literal.
func (p *printer) negated(e ast.Expr) {
	if e.Kind() == ast.LiteralKind {
		p.WriteByte('(')
		p.bare(e)
		p.WriteByte(')')
		return
	}
	p.expr(e, precMember)
}

func (p *printer) separated(n int, item func(int)) {
	for i := range n {
		if i > 0 {
			p.WriteString(", ")
		}
		item(i)
	}
}

func (p *printer) list(l ast.ListExpr) {
	optional := make(map[int32]bool, len(l.OptionalIndices()))
	for _, i := range l.OptionalIndices() {
		optional[i] = true
	}
	p.WriteByte('[')
	p.separated(l.Size(), func(i int) {
		if optional[int32(i)] {
			p.WriteByte('?')
		}
		p.expr(l.Elements()[i], precTernary)
	})
	p.WriteByte(']')
}

func (p *printer) mapping(m ast.MapExpr) {
	p.WriteByte('{')
	p.separated(m.Size(), func(i int) {
		entry := m.Entries()[i].AsMapEntry()
		if entry.IsOptional() {
			p.WriteByte('?')
		}
		p.expr(entry.Key(), precTernary)
		p.WriteString(": ")
		p.expr(entry.Value(), precTernary)
	})
	p.WriteByte('}')
}

func (p *printer) message(m ast.StructExpr) {
	p.WriteString(m.TypeName())
	p.WriteByte('{')
	p.separated(len(m.Fields()), func(i int) {
		f := m.Fields()[i].AsStructField()
		if f.IsOptional() {
			p.WriteByte('?')
		}
		p.WriteString(f.Name() + ": ")
		p.expr(f.Value(), precTernary)
	})
	p.WriteByte('}')
}

func (p *printer) literal(e ast.Expr) {
	switch v := e.AsLiteral().(type) {
	case types.Bool:
		p.WriteString(strconv.FormatBool(bool(v)))
	case types.Int:
		p.WriteString(strconv.FormatInt(int64(v), 10))
	case types.Uint:
		p.WriteString(strconv.FormatUint(uint64(v), 10) + "u")
	case types.Double:
		p.WriteString(formatDouble(float64(v)))
	case types.String:
		p.WriteString(strconv.Quote(string(v)))
	case types.Bytes:
		p.WriteString(`b"`)
		for _, b := range []byte(v) {
			fmt.Fprintf(p, `\x%02x`, b)
		}
		p.WriteByte('"')
	default:
		p.WriteString("null")
	}
}

func formatDouble(f float64) string {
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}
