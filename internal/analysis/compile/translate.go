package compile

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/expr/text"
)

// What an admission policy calls the parts of a request. It leaves out what is empty.
const (
	celUser   = `request.userInfo.?username.orValue("")`
	celGroups = `request.userInfo.?groups.orValue([])`
	celExtra  = `request.userInfo.?extra.orValue({})`
	celName   = `request.?name.orValue("")`
	celPlace  = `request.?namespace.orValue("")`
	celSub    = `request.?requestSubResource.orValue("")`
	celGroup  = `request.requestResource.group`
	celPlural = `request.requestResource.resource`
	celKind   = `request.requestKind.kind.lowerAscii()`
)

// requestFields are the fields of a rule's request, as an admission policy says them. What a request does not name, its
// object does.
var requestFields = map[string]string{
	"user": celUser, "uid": `request.userInfo.?uid.orValue("")`, "groups": celGroups, "extra": celExtra,
	"apiGroup": celGroup, "apiVersion": "request.requestResource.version", "resource": celPlural, "subresource": celSub,
	"namespace": celPlace,
	"name":      `(` + celName + ` != "" ? request.name : (object != null ? object : oldObject).metadata.?name.orValue(""))`,
}

var userFields = map[string]string{
	"username": celUser, "uid": requestFields["uid"], "groups": celGroups, "extra": celExtra,
}

// reserved are names that mean something else there, and that a loop variable must not have.
var reserved = []string{"request", "object", "oldObject", "options", "target", "operation", "namespaceObject", "impersonatedRequest", "variables", "authorizer", "params"}

// translator writes the expressions of one rule in terms of an admission policy.
type translator struct {
	cel *expr.Compiler
	// verb is the verb of requests in CEL; empty if it cannot be told.
	verb string
	// spaces is true if some resource of the rule has no namespace, or is namespaces.
	spaces bool

	failure error
}

func (t *translator) fail(format string, args ...any) {
	if t.failure == nil {
		t.failure = fmt.Errorf(format, args...)
	}
}

// when is a when as an expression of an admission policy.
func (t *translator) when(source string) (string, error) {
	e, issues := t.cel.Syntax(source)
	if len(issues) > 0 {
		return "", issues
	}
	return t.source(e)
}

// where is a where: of an allow it holds for every version that exists, of a deny for any.
func (t *translator) where(source string, deny bool) (string, error) {
	e, issues := t.cel.Syntax(source)
	if len(issues) > 0 {
		return "", issues
	}
	var parts []string
	for _, version := range []string{"oldObject", "object"} {
		one, err := t.source(expr.About(e, version))
		if err != nil {
			return "", err
		}
		parts = append(parts, forVersion(version, one, deny))
	}
	return strings.Join(parts, map[bool]string{true: " || ", false: " && "}[deny]), nil
}

// forVersion is an expression about one version, which may not exist.
func forVersion(version, source string, deny bool) string {
	if deny {
		return "(" + version + " != null && (" + source + "))"
	}
	return "(" + version + " == null || (" + source + "))"
}

func (t *translator) source(e ast.Expr) (string, error) {
	for _, name := range reserved {
		if expr.Binds(e, name) {
			return "", fmt.Errorf("a loop variable is called %s, which means something else there", name)
		}
	}
	t.failure = nil
	out := expr.Replace(e, t.replace)
	if t.failure != nil {
		return "", t.failure
	}
	return text.Source(out), nil
}

// replace is what stands in for a part of an expression.
func (t *translator) replace(e ast.Expr) (ast.Expr, bool) {
	switch e.Kind() {
	case ast.SelectKind:
		if field, ok := t.selected(e.AsSelect()); ok {
			return field, true
		}
	case ast.CallKind:
		if call := e.AsCall(); call.FunctionName() == "has" && len(call.Args()) == 1 && call.Args()[0].Kind() == ast.SelectKind {
			if _, ok := t.selected(call.Args()[0].AsSelect()); ok {
				return ast.NewExprFactory().NewLiteral(0, types.True), true // a request has all of its fields
			}
		}
	case ast.IdentKind:
		return t.variable(strings.TrimPrefix(e.AsIdent(), "."), e), true
	}
	return nil, false
}

// selected is a field of the request.
func (t *translator) selected(s ast.SelectExpr) (ast.Expr, bool) {
	switch of := s.Operand(); of.Kind() {
	case ast.IdentKind:
		if strings.TrimPrefix(of.AsIdent(), ".") != "request" || s.FieldName() == "userInfo" {
			return nil, false
		}
		return t.parse(t.field(s.FieldName())), true
	case ast.SelectKind:
		in := of.AsSelect()
		if in.Operand().Kind() != ast.IdentKind || strings.TrimPrefix(in.Operand().AsIdent(), ".") != "request" || in.FieldName() != "userInfo" {
			return nil, false
		}
		return t.parse(userFields[s.FieldName()]), true
	}
	return nil, false
}

func (t *translator) field(name string) string {
	switch {
	case name == "verb" && t.verb != "":
		return t.verb
	case name == "verb":
		t.fail("its condition asks for request.verb, and admission does not tell an update from a patch")
	case name == "namespace" && t.spaces:
		t.fail("its condition asks for request.namespace, and it is about namespaces themselves")
	case requestFields[name] == "":
		t.fail("its condition asks for request.%s, which admission does not have", name)
	}
	return requestFields[name]
}

// variable is a variable of the rule's dialect.
func (t *translator) variable(name string, e ast.Expr) ast.Expr {
	switch name {
	case "operation":
		return t.parse("request.operation")
	case "namespaceObject":
		if t.spaces {
			t.fail("its condition asks for namespaceObject, and some of its resources have no namespace")
		}
	case "request":
		t.fail("its condition uses the request as a whole")
	case "target":
		t.fail("its condition asks for the target of a connection, which admission does not have")
	case "options", "impersonatedRequest":
		t.fail("its condition asks for %s, which admission has in another form", name)
	}
	return e
}

// parse reads an expression of ours.
func (t *translator) parse(source string) ast.Expr {
	if source == "" {
		t.fail("its condition asks for a field of the user that admission does not have")
		source = "null"
	}
	e, issues := t.cel.Syntax(source)
	if len(issues) > 0 {
		t.failure = errors.Join(t.failure, issues)
		return ast.NewExprFactory().NewLiteral(0, types.NullValue)
	}
	return e
}

// celList is a list of texts.
func celList(all []string) string {
	quoted := make([]string, len(all))
	for i, one := range all {
		quoted[i] = strconv.Quote(one)
	}
	slices.Sort(quoted)
	return "[" + strings.Join(slices.Compact(quoted), ", ") + "]"
}
