package expr

import (
	"context"
	"fmt"
	"strings"
)

// TypeCEL is the condition type of everything that Compile makes (CA-11).
const TypeCEL = "k8s.io/authorization-cel"

// Condition is something that is decided in two steps: with the request alone
// when the request is authorized, and with the object when it is admitted. A
// *Program is one; restrictions written in Go are others.
//
// Laws, for every request, effect and data:
//   - Decide = True or False implies that Evaluate gives the same, except that
//     an Allow may be False where Evaluate fails;
//   - Decide = Failed implies that Evaluate fails;
//   - all methods are pure and safe for concurrent use.
type Condition interface {
	// Type is the condition type shown in reviews: a label key.
	Type() string
	// Decide returns what is known without the object.
	Decide(req *Request, effect Effect) Finding
	// Evaluate decides with everything. An error means that the condition
	// fails; the caller treats that according to the effect.
	Evaluate(ctx context.Context, req *Request, effect Effect, data *Data) (bool, error)
	// Text describes the rest of the condition for people.
	Text(req *Request, effect Effect) string
}

// All returns a condition that holds when every one of the given conditions
// holds: a rule may have a where, a when and restrictions. It is decided from
// left to right and stops at the first condition that is false or fails.
func All(conds ...Condition) Condition {
	if len(conds) == 1 {
		return conds[0]
	}
	return all(append([]Condition(nil), conds...))
}

type all []Condition

// Type is TypeCEL if every part is CEL, otherwise the type of the first part that is not: text that mixes languages
// must not reach a CEL parser.
func (a all) Type() string {
	for _, c := range a {
		if t := c.Type(); t != TypeCEL {
			return t
		}
	}
	return TypeCEL
}

// Decide stops at the first part that is left open when the effect is not Allow: a later false must not hide that the
// earlier part may fail (CA-12).
func (a all) Decide(req *Request, effect Effect) Finding {
	open := false
	var failure error
	for _, c := range a {
		out := c.Decide(req, effect)
		switch out.Truth() {
		case True:
			if failure == nil {
				failure = out.err // the where of a deny holds if it fails, and still reports the failure
			}
			continue
		case False, Failed:
			if !open || effect == Allow {
				return out
			}
		default:
			open = true
		}
		if open && effect != Allow {
			break
		}
	}
	if open {
		return Undecided(a, req, effect)
	}
	return Finding{truth: True, err: failure}
}

func (a all) Evaluate(ctx context.Context, req *Request, effect Effect, data *Data) (bool, error) {
	for _, c := range a {
		ok, err := c.Evaluate(ctx, req, effect, data)
		if err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// Text joins the undecided parts.
func (a all) Text(req *Request, effect Effect) string {
	var parts []string
	for _, c := range a {
		if c.Decide(req, effect).Truth() == True {
			continue
		}
		part := c.Text(req, effect)
		if strings.Contains(part, "//") {
			part += "\n" // it may end in a comment
		}
		parts = append(parts, part)
	}
	switch len(parts) {
	case 0:
		return "true"
	case 1:
		return parts[0]
	}
	text := joinParts(parts)
	if len(text) > MaxLength {
		// With the known values it is too long. As written it fits, see FitTogether.
		text = joinParts(a.written(req, effect))
	}
	if len(text) > MaxLength {
		return truncateText(text)
	}
	return text
}

func joinParts(parts []string) string { return "(" + strings.Join(parts, ") && (") + ")" }

// written returns every part as it was written.
func (a all) written(req *Request, effect Effect) []string {
	var parts []string
	for _, c := range a {
		var part string
		if p, ok := c.(*Program); ok {
			part = p.fallback(req, effect) + "\n" // it may end in a comment
		} else {
			part = c.Text(req, effect)
		}
		parts = append(parts, part)
	}
	return parts
}

// FitTogether reports whether the text of a rule with this where and this when stays within the limit for every
// request, or what is too long about it.
func FitTogether(where, when string) error {
	if where == "" || when == "" {
		return nil // each alone is checked when it is compiled
	}
	longest := joinParts([]string{whereFrame + where + "\n", when + "\n"})
	if len(longest) <= MaxLength {
		return nil
	}
	return fmt.Errorf("where and when are too long together: %d bytes, the limit is %d; shorten them, or split them into two rules",
		len(where)+len(when), MaxLength-(len(longest)-len(where)-len(when)))
}
