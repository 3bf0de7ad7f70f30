package policytools

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/policychange"
	"proviso.dev/proviso/internal/platform/terminal"
)

// whoOf names the subjects of a change, five at most.
func whoOf(c policychange.Change) string {
	if c.Subject != nil {
		return c.Subject.String()
	}
	const most = 5
	var names []string
	for _, s := range c.Subjects[:min(most, len(c.Subjects))] {
		names = append(names, s.String())
	}
	if more := len(c.Subjects) + c.MoreSubjects - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// line is what is shown of changes that differ in their verb and resource only: every verb of it with every resource.
type line struct {
	who, what, where, change, rule string
	verbs, resources               []string
	// count is how many changes it is, and whole is set if they are those of a role that is got or lost.
	count   int
	whole   bool
	witness *policychange.Witness
}

func planLines(r *policychange.Report) (lines []*line) {
	index := map[string]*line{}
	for _, one := range perResource(r) {
		key := strings.Join([]string{one.who, one.where, one.change, one.rule, fmt.Sprint(one.whole), strings.Join(one.verbs, ",")}, "\x00")
		if l := index[key]; l != nil {
			l.resources = append(l.resources, one.resources...)
			if l.witness == nil {
				l.witness = one.witness
			}
			continue
		}
		index[key] = one
		lines = append(lines, one)
	}
	for _, l := range lines {
		l.count = len(l.verbs) * len(l.resources)
		if n := len(l.resources); n > 4 {
			l.resources = append(l.resources[:4], fmt.Sprintf("and %d more", n-4))
		}
		l.what = strings.Join(l.verbs, ",") + " " + strings.Join(l.resources, ", ")
	}
	return lines
}

// perResource has one line for each resource, with all its verbs.
func perResource(r *policychange.Report) (lines []*line) {
	index := map[string]*line{}
	for _, c := range r.Changes {
		resource := c.Resource
		if c.APIGroup != "" {
			resource += "." + c.APIGroup
		}
		if c.Path != "" {
			resource = c.Path
		}
		if c.Name != "" {
			resource += " " + c.Name
		}
		if len(c.ExceptNames) > 0 {
			resource += " except " + strings.Join(c.ExceptNames, " and ")
		}
		change := fmt.Sprintf("%s → %s", c.Before, c.After)
		if c.Before == plan.If || c.After == plan.If {
			change += ", " + string(c.Relation)
		}
		where := whereOf(c)
		key := strings.Join([]string{whoOf(c), where, change, c.Rule, fmt.Sprint(c.Whole), resource}, "\x00")
		l := index[key]
		if l == nil {
			l = &line{who: whoOf(c), where: where, change: change, rule: c.Rule, whole: c.Whole, resources: []string{resource}}
			index[key] = l
			lines = append(lines, l)
		}
		if !slices.Contains(l.verbs, c.Verb) {
			l.verbs = append(l.verbs, c.Verb)
		}
		if l.witness == nil {
			l.witness = c.Witness
		}
	}
	return lines
}

func witnessText(w *policychange.Witness) string {
	if w == nil {
		return ""
	}
	data, err := json.Marshal(w)
	if err != nil {
		return ""
	}
	return string(data)
}

// printPlan writes what a change does.
func printPlan(out io.Writer, format string, r *policychange.Report) error {
	switch format {
	case "json":
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	case "yaml":
		data, err := yaml.Marshal(r)
		if err == nil {
			_, err = out.Write(data)
		}
		return err
	case "markdown":
		return markdownPlan(out, r)
	}
	switch {
	case len(r.Changes) == 0 && len(r.Unknown) == 0:
		terminal.Fprintln(out, "Nobody gains or loses anything.")
	case len(r.Changes) == 0:
		terminal.Fprintln(out, "No rule grants or denies anything new, but access may still change:")
	default:
		lines := planLines(r)
		if format != wide {
			lines = folded(lines)
		}
		fit := fitted(out, format, gainOrLoss)
		w := tabwriter.NewWriter(fit, 0, 4, 3, ' ', 0)
		terminal.Fprintf(w, "WHO\tWHAT\tNAMESPACE\tCHANGE\tBY\n")
		for _, l := range lines {
			terminal.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", l.who, l.what, l.where, l.change, l.rule)
		}
		if err := errors.Join(w.Flush(), fit.Close()); err != nil {
			return err
		}
		for _, l := range planLines(r) {
			if l.witness != nil {
				terminal.Fprintf(out, "for example, %s of %s: %s\n", l.change, l.rule, witnessText(l.witness))
			}
		}
	}
	for _, line := range r.Unknown {
		terminal.Fprintf(out, "may change: %s\n", line)
	}
	for _, p := range r.Rejected {
		terminal.Fprintf(out, "rejected: %s\n", p.Message)
	}
	for _, p := range r.WithoutEffect {
		terminal.Fprintf(out, "without effect: %s: %s\n", p.Rule, p.Reason)
	}
	for _, line := range applierLines(r.AppliedBy) {
		terminal.Fprintf(out, "may be applied: %s\n", line)
	}
	if r.Replay != nil {
		return printReplay(out, r.Replay)
	}
	return nil
}

// markdownPlan is for a pull request.
func markdownPlan(out io.Writer, r *policychange.Report) error {
	var b strings.Builder
	switch {
	case len(r.Changes) == 0 && len(r.Unknown) == 0:
		b.WriteString("Nobody gains or loses anything.\n")
	case len(r.Changes) == 0:
		b.WriteString("No rule grants or denies anything new, but access may still change:\n")
	default:
		b.WriteString("| who | what | namespace | change | by |\n|---|---|---|---|---|\n")
		for _, l := range planLines(r) {
			terminal.Fprintf(&b, "| %s |\n", strings.Join(escaped([]string{l.who, l.what, l.where, l.change, l.rule}), " | "))
		}
		for _, l := range planLines(r) {
			if l.witness != nil {
				terminal.Fprintf(&b, "\n%s of %s, for example: `%s`\n", l.change, l.rule, witnessText(l.witness))
			}
		}
	}
	for _, line := range r.Unknown {
		terminal.Fprintf(&b, "\n**May change**: %s\n", line)
	}
	for _, p := range r.Rejected {
		terminal.Fprintf(&b, "\n**Rejected**: %s\n", p.Message)
	}
	for _, p := range r.WithoutEffect {
		terminal.Fprintf(&b, "\n**Without effect**: %s: %s\n", p.Rule, p.Reason)
	}
	for _, line := range applierLines(r.AppliedBy) {
		terminal.Fprintf(&b, "\n**May be applied**: %s\n", line)
	}
	if r.Replay != nil {
		markdownReplay(&b, r.Replay)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// whereOf is the place of a change for people.
func whereOf(c policychange.Change) string {
	where := c.Namespace
	if where == "" {
		where = "-"
	}
	if len(c.ExceptNamespaces) > 0 {
		where += " except " + listed(c.ExceptNamespaces)
	}
	return where
}

// applierLines say it for people: one line for all objects that the same subjects may write.
func applierLines(all []policychange.Applier) (lines []string) {
	index := map[string][]string{}
	var order []string
	for _, a := range all {
		names := func(subjects []offline.Subject) string {
			var list []string
			for _, s := range subjects {
				list = append(list, s.String())
			}
			if len(list) > 5 {
				list = append(list[:5], fmt.Sprintf("and %d more", len(list)-5))
			}
			return strings.Join(list, ", ")
		}
		text := "by " + cmp.Or(names(a.Subjects), "nobody")
		if len(a.Refused) > 0 {
			text += "; not by " + names(a.Refused) + ": " + a.Why
		}
		if !slices.Contains(order, text) {
			order = append(order, text)
		}
		index[text] = append(index[text], a.Verb+" "+a.Object)
	}
	for _, text := range order {
		lines = append(lines, strings.Join(index[text], ", ")+": "+text)
	}
	return lines
}
