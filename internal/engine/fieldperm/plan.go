package fieldperm

import (
	"fmt"
	"slices"
	"strings"
)

var tooManyReason = fmt.Sprintf("the request changes fields that need more than %d checks of field permissions: "+
	"hold a more general permission, or change less in one request", MaxChecks)

// plan asks about each verb once, and about at most MaxChecks verbs.
type plan struct {
	check   func(verb string) (bool, error)
	answers map[string]bool
	checks  []Check
	tooMany bool
}

func (p *plan) holds(verb string) bool {
	if allowed, asked := p.answers[verb]; asked {
		return allowed
	}
	if len(p.checks) == MaxChecks {
		p.tooMany = true
		return false
	}
	c := Check{Verb: verb}
	if p.check != nil {
		c.Allowed, c.Err = p.check(verb)
		c.Allowed = c.Allowed && c.Err == nil
	}
	if p.answers == nil {
		p.answers = map[string]bool{}
	}
	p.answers[verb] = c.Allowed
	p.checks = append(p.checks, c)
	return c.Allowed
}

// unmet returns the first need of a class that the caller's permissions do not meet, going from the most general
// permission to the most specific, or nil. It stops as soon as the limit is reached.
func (p *plan) unmet(c *class) *need {
	for i := range c.needs {
		if !slices.ContainsFunc(c.needs[i].alternatives, func(a alternative) bool { return p.meets(a) }) {
			return &c.needs[i]
		}
	}
	return nil
}

func (p *plan) meets(a alternative) bool {
	for _, v := range a.verbs {
		if p.tooMany || !p.holds(v) {
			return false
		}
	}
	return true
}

// missing returns what would meet a need.
func (n *need) missing(field Path) *Missing {
	m := &Missing{Field: field.String(), Note: n.note}
	if n.note == "" && len(n.alternatives) == 0 {
		m.Note = "has no separate permission: only the right to write the whole object covers it"
	}
	for i, a := range slices.Backward(n.alternatives) {
		if i == len(n.alternatives)-1 {
			m.Permission = a.String()
		} else if text := a.String(); text != m.Permission && !slices.Contains(m.Alternatives, text) {
			m.Alternatives = append(m.Alternatives, text)
		}
	}
	return m
}

// String is the message of FP-9.
func (m *Missing) String() string {
	text := "field " + m.Field + " " + m.Note
	if m.Permission != "" {
		text = "field " + m.Field + " needs " + m.Permission
		if len(m.Alternatives) > 0 {
			text += " (or " + strings.Join(m.Alternatives, ", ") + ")"
		}
	}
	if m.Manager != "" {
		text += ": the request leaves its value as it is and would change its managers, the entry of " + m.Manager + " in managedFields"
	}
	return text
}
