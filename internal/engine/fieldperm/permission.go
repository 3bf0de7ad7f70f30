package fieldperm

import (
	"fmt"
	"strings"
)

// permission is a compiled declaration.
type permission struct {
	Declaration
	// broken is set if the declaration does not compile: it covers nothing, and what it excludes stays excluded.
	broken bool
	when   When
	from   Parameterizer
	// pick names the field of a stand-in object that holds the declared field's value: a Binding's target.name is a
	// pod's spec.nodeName.
	pick string
	// onlyGuards is set for a place that is the field's in some entries of a map: in the others it gives no right.
	onlyGuards bool
}

// compile never fails: a declaration that cannot be compiled is reported and refuses.
func compile(d Declaration, exprs Expressions) (*permission, error) {
	p := &permission{Declaration: d}
	var problems []string
	if err := d.Validate(); err != nil {
		p.broken = true
		problems = append(problems, err.Error())
	}
	if d.Parameter != nil && !builtinParameter(d.Parameter.From) {
		from, err := compileParameter(d.Parameter.From, exprs)
		if err != nil {
			p.broken = true
			problems = append(problems, "parameter: "+err.Error())
		}
		p.from = from
	}
	if d.ExclusiveWhen != "" && exprs == nil {
		problems = append(problems, "exclusiveWhen: no CEL here, the field is exclusive for every value")
	} else if d.ExclusiveWhen != "" {
		when, err := exprs.When(d.ExclusiveWhen)
		if err != nil {
			problems = append(problems, "exclusiveWhen: "+err.Error()+", the field is exclusive for every value")
		} else {
			p.when = when
		}
	}
	if len(problems) > 0 {
		return p, fmt.Errorf("%s: %s", d.Source, strings.Join(problems, "; "))
	}
	return p, nil
}

func builtinParameter(from string) bool {
	switch from {
	case FromKey, FromValue, FromElement, fromElementType:
		return true
	}
	return false
}

func compileParameter(from string, exprs Expressions) (Parameterizer, error) {
	if exprs == nil {
		return nil, fmt.Errorf("no CEL here")
	}
	return exprs.Parameter(from)
}

// treat turns a parameter into the text in the parentheses.
func (p *permission) treat(text string) string {
	if p.Parameter.Treatment == TreatSlashPrefix {
		text, _, _ = strings.Cut(text, "/")
	}
	return text
}

// literals counts the entries that a path names; of two paths to one field, the one with more is more specific.
func (p *permission) literals() int {
	n := 0
	for _, e := range p.Field {
		if e.Bracket && !e.Any {
			n++
		}
	}
	return n
}
