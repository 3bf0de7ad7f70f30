package policytools

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/analysis/compare"
	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/hosts/offline/replay"
)

// planReport is what scripts rely on (TR-16).
type planReport struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Tally counts the subjects that gain or lose something.
	Tally         planTally          `json:"tally"`
	Changes       []planChange       `json:"changes"`
	Rejected      []rejected         `json:"rejected"`
	WithoutEffect []plan.Ineffective `json:"withoutEffect"`
	AppliedBy     []applier          `json:"appliedBy,omitempty"`
	Replay        *replay.Report     `json:"replay,omitempty"`
}

type planTally struct {
	Gain   int `json:"gain"`
	Lose   int `json:"lose"`
	Change int `json:"change"`
}

type rejected struct {
	Message string `json:"message"`
}

type planChange struct {
	Subject  *planSubject  `json:"subject,omitempty"`
	Subjects []planSubject `json:"subjects,omitempty"`
	// MoreSubjects is how many others there are beside those that are named.
	MoreSubjects int    `json:"moreSubjects,omitempty"`
	Verb         string `json:"verb"`
	APIGroup     string `json:"apiGroup"`
	Resource     string `json:"resource,omitempty"`
	Path         string `json:"path,omitempty"`
	Namespace    string `json:"namespace"`
	// ExceptNamespaces are those in which it is not so, if it is in all others.
	ExceptNamespaces []string `json:"exceptNamespaces,omitempty"`
	Name             string   `json:"name,omitempty"`
	// ExceptNames are those for which it is not so, if it is for all others.
	ExceptNames []string `json:"exceptNames,omitempty"`

	Before   plan.Effect      `json:"before"`
	After    plan.Effect      `json:"after"`
	Relation compare.Relation `json:"relation"`
	Why      string           `json:"why,omitempty"`
	Witness  *planWitness     `json:"witness,omitempty"`
	Rule     string           `json:"rule"`
}

type planSubject struct {
	User           string `json:"user,omitempty"`
	Group          string `json:"group,omitempty"`
	ServiceAccount string `json:"serviceAccount,omitempty"`
}

func (s planSubject) String() string {
	switch {
	case s.Group != "":
		return "group " + s.Group
	case s.ServiceAccount != "":
		return "service account " + s.ServiceAccount
	}
	return s.User
}

type planWitness struct {
	User      string         `json:"user,omitempty"`
	Groups    []string       `json:"groups,omitempty"`
	Object    map[string]any `json:"object,omitempty"`
	OldObject map[string]any `json:"oldObject,omitempty"`
}

func subjectOf(s ruleset.Subject) planSubject {
	if s.Group {
		return planSubject{Group: s.Name}
	}
	if account, ok := strings.CutPrefix(s.Name, "system:serviceaccount:"); ok {
		return planSubject{ServiceAccount: strings.Replace(account, ":", "/", 1)}
	}
	return planSubject{User: s.Name}
}

func (c planChange) who() string {
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
	witness                        *planWitness
}

func (r *planReport) lines() (lines []*line) {
	index := map[string]*line{}
	for _, one := range r.perResource() {
		key := strings.Join([]string{one.who, one.where, one.change, one.rule, strings.Join(one.verbs, ",")}, "\x00")
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
		if n := len(l.resources); n > 4 {
			l.resources = append(l.resources[:4], fmt.Sprintf("and %d more", n-4))
		}
		l.what = strings.Join(l.verbs, ",") + " " + strings.Join(l.resources, ", ")
	}
	return lines
}

// perResource has one line for each resource, with all its verbs.
func (r *planReport) perResource() (lines []*line) {
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
		where := c.where()
		key := strings.Join([]string{c.who(), where, change, c.Rule, resource}, "\x00")
		l := index[key]
		if l == nil {
			l = &line{who: c.who(), where: where, change: change, rule: c.Rule, resources: []string{resource}}
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

func (w *planWitness) text() string {
	if w == nil {
		return ""
	}
	data, err := json.Marshal(w)
	if err != nil {
		return ""
	}
	return string(data)
}

func (r *planReport) print(out io.Writer, format string) error {
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
		return r.markdown(out)
	}
	if len(r.Changes) == 0 {
		fmt.Fprintln(out, "Nobody gains or loses anything.")
	} else {
		w := tabwriter.NewWriter(out, 0, 4, 3, ' ', 0)
		fmt.Fprintln(w, "WHO\tWHAT\tNAMESPACE\tCHANGE\tBY")
		for _, l := range r.lines() {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", l.who, l.what, l.where, l.change, l.rule)
		}
		if err := w.Flush(); err != nil {
			return err
		}
		for _, l := range r.lines() {
			if l.witness != nil {
				fmt.Fprintf(out, "for example, %s of %s: %s\n", l.change, l.rule, l.witness.text())
			}
		}
	}
	for _, p := range r.Rejected {
		fmt.Fprintf(out, "rejected: %s\n", p.Message)
	}
	for _, p := range r.WithoutEffect {
		fmt.Fprintf(out, "without effect: %s: %s\n", p.Rule, p.Reason)
	}
	for _, line := range applierLines(r.AppliedBy) {
		fmt.Fprintf(out, "may be applied: %s\n", line)
	}
	if r.Replay != nil {
		return printReplay(out, r.Replay)
	}
	return nil
}

// markdown is for a pull request.
func (r *planReport) markdown(out io.Writer) error {
	var b strings.Builder
	if len(r.Changes) == 0 {
		b.WriteString("Nobody gains or loses anything.\n")
	} else {
		b.WriteString("| who | what | namespace | change | by |\n|---|---|---|---|---|\n")
		for _, l := range r.lines() {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(escaped([]string{l.who, l.what, l.where, l.change, l.rule}), " | "))
		}
		for _, l := range r.lines() {
			if l.witness != nil {
				fmt.Fprintf(&b, "\n%s of %s, for example: `%s`\n", l.change, l.rule, l.witness.text())
			}
		}
	}
	for _, p := range r.Rejected {
		fmt.Fprintf(&b, "\n**Rejected**: %s\n", p.Message)
	}
	for _, p := range r.WithoutEffect {
		fmt.Fprintf(&b, "\n**Without effect**: %s: %s\n", p.Rule, p.Reason)
	}
	for _, line := range applierLines(r.AppliedBy) {
		fmt.Fprintf(&b, "\n**May be applied**: %s\n", line)
	}
	if r.Replay != nil {
		markdownReplay(&b, r.Replay)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
