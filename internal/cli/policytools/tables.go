package policytools

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"proviso.dev/proviso/internal/platform/terminal"
)

// wide is the output in which nothing is left out of a table.
const wide = "wide"

// fitted is where the lines of a table go: cut to the terminal, unless all is wanted.
func fitted(out io.Writer, format string, colour func(string) terminal.Colour) *terminal.Fitted {
	hint := "Lines are cut to the width of the terminal; -o wide shows all of them."
	if format == wide {
		hint = ""
	}
	return terminal.Fit(out, hint, colour)
}

// gainOrLoss colours the lines of a plan. The words say the same.
func gainOrLoss(line string) terminal.Colour {
	switch {
	case strings.Contains(line, "→ Yes"), strings.Contains(line, ", wider"), strings.Contains(line, "No → If"):
		return terminal.Green
	case strings.Contains(line, "Yes →"), strings.Contains(line, "→ Denied"), strings.Contains(line, ", narrower"), strings.Contains(line, "If → No"):
		return terminal.Red
	}
	return terminal.None
}

// enough is from how many lines on what one role changes for a subject is said in one.
const enough = 4

// folded says in one line what becomes of everything that a role gives a subject in one place, where all of it becomes
// the same, or how many rights do if it is not everything. Conditions are not folded: they have counterexamples.
func folded(lines []*line) (out []*line) {
	type group struct{ who, where, role string }
	of := func(l *line) group {
		role, _, _ := strings.Cut(l.rule, " rule ")
		return group{l.who, l.where, role}
	}
	all := map[group][]*line{}
	for _, l := range lines {
		all[of(l)] = append(all[of(l)], l)
	}
	done := map[group]bool{}
	for _, l := range lines {
		g := of(l)
		same := !slices.ContainsFunc(all[g], func(o *line) bool { return o.change != l.change || o.witness != nil })
		switch {
		case g.role == "" || len(all[g]) < enough || !same:
			out = append(out, l)
		case !done[g]:
			done[g] = true
			one := *l
			one.what, one.rule = fmt.Sprintf("everything of role %s (-o wide lists it)", g.role), g.role
			if slices.ContainsFunc(all[g], func(o *line) bool { return !o.whole }) {
				n := 0
				for _, o := range all[g] {
					n += o.count
				}
				one.what = fmt.Sprintf("%d changes by role %s (-o wide lists them)", n, g.role)
			}
			out = append(out, &one)
		}
	}
	return out
}
