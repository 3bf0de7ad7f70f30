package policytools

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"proviso.dev/proviso/internal/analysis/matrix"
	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/platform/terminal"
)

// accessMatrix is what scripts rely on.
type accessMatrix struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Verbs      []string    `json:"verbs"`
	Rows       []matrixRow `json:"rows"`
}

// matrixRow is the same access of several subjects to several resources in several namespaces.
type matrixRow struct {
	Subjects []offline.Subject `json:"subjects"`
	// More are subjects that are not named, with --limit.
	More       int                    `json:"more,omitempty"`
	Namespaces []string               `json:"namespaces"`
	Resources  []string               `json:"resources"`
	Access     map[string]plan.Effect `json:"access"`
	// Roles have the rules that make it so.
	Roles []string `json:"roles"`
	// sets are those of the cells; their subjects are named at the end.
	sets []int
}

// rowsOf collapses cells: subjects first, then namespaces, then resources. At most limit subjects of a row are named; 0
// is all.
func rowsOf(cells []matrix.Cell, everywhere []string, limit int) []matrixRow {
	rows, sets := []matrixRow{}, map[int][]ruleset.Subject{}
	for i, c := range cells {
		sets[c.Set] = c.Subjects
		if i == 0 || c.Compare(cells[i-1]) != 0 {
			namespace := c.Namespace
			rows = append(rows, matrixRow{sets: []int{c.Set}, Namespaces: []string{namespace}, Resources: []string{resourceName(c.Group, c.Resource, c.Subresource)}, Access: map[string]plan.Effect{}})
		}
		row := &rows[len(rows)-1]
		row.Access[c.Verb] = c.Access
		for _, rule := range c.By {
			if role, _, _ := strings.Cut(rule, " rule "); !slices.Contains(row.Roles, role) {
				row.Roles = append(row.Roles, role)
			}
		}
		slices.Sort(row.Roles)
	}
	rows = merge(rows, func(r *matrixRow) *[]int { return &r.sets })
	rows = merge(rows, func(r *matrixRow) *[]string { return &r.Namespaces })
	for i := range rows {
		if len(everywhere) > 0 && len(rows[i].Namespaces) == len(everywhere) && !slices.Contains(rows[i].Namespaces, "") {
			rows[i].Namespaces = []string{matrix.Elsewhere}
			continue
		}
		for n, namespace := range rows[i].Namespaces {
			if namespace == matrix.Elsewhere {
				rows[i].Namespaces[n] = plan.Other
			}
		}
	}
	rows = merge(rows, func(r *matrixRow) *[]string { return &r.Resources })
	for i := range rows {
		rows[i].name(sets, limit)
	}
	return rows
}

// name names the subjects of a row.
func (r *matrixRow) name(sets map[int][]ruleset.Subject, limit int) {
	var who []ruleset.Subject
	for _, set := range r.sets {
		who = append(who, sets[set]...)
	}
	slices.SortFunc(who, ruleset.Subject.Compare)
	if limit > 0 && len(who) > limit {
		r.More, who = len(who)-limit, who[:limit]
	}
	for _, s := range who {
		r.Subjects = append(r.Subjects, offline.SubjectOf(s))
	}
}

// merge makes one row of those that differ in one part only.
func merge[T any](rows []matrixRow, part func(*matrixRow) *[]T) (out []matrixRow) {
	at := map[string]int{}
	for _, row := range rows {
		rest := row
		*part(&rest) = nil
		key := fmt.Sprintf("%v", rest)
		if i, seen := at[key]; seen {
			*part(&out[i]) = append(*part(&out[i]), *part(&row)...)
			continue
		}
		at[key] = len(out)
		out = append(out, row)
	}
	return out
}

// cellText is how people see an access.
func cellText(e plan.Effect) string {
	if e == "" {
		return "-"
	}
	return strings.ToLower(string(e))
}

func (r matrixRow) who() string {
	var names []string
	for _, s := range r.Subjects {
		names = append(names, s.String())
	}
	text := strings.Join(names, ", ")
	if r.More > 0 {
		text += fmt.Sprintf(" and %d more", r.More)
	}
	return text
}

func (r matrixRow) where() string {
	places := slices.Clone(r.Namespaces)
	for i, namespace := range places {
		if namespace == "" {
			places[i] = "-"
		}
	}
	return strings.Join(places, ", ")
}

// what names the first resources, and counts the others.
func (r matrixRow) what(most int) string {
	if len(r.Resources) > most+1 {
		return strings.Join(r.Resources[:most], ", ") + fmt.Sprintf(" and %d more", len(r.Resources)-most)
	}
	return strings.Join(r.Resources, ", ")
}

func printMatrix(out io.Writer, format string, verbs []string, cells []matrix.Cell, everywhere []string, limit int) error {
	if format == "csv" {
		return printCells(out, cells)
	}
	m := accessMatrix{APIVersion: offline.ToolsVersion, Kind: "AccessMatrix", Verbs: verbs, Rows: rowsOf(cells, everywhere, limit)}
	if m.Rows == nil {
		m.Rows = []matrixRow{}
	}
	switch format {
	case "json":
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(m)
	case "html":
		return m.printHTML(out)
	}
	if len(m.Rows) == 0 {
		_, err := terminal.Fprintln(out, "Nothing is allowed, and nothing is denied.")
		return err
	}
	fit := fitted(out, format, nil)
	table := tabwriter.NewWriter(fit, 0, 0, 2, ' ', 0)
	terminal.Fprintf(table, "WHO\tNAMESPACE\tRESOURCES\t%s\tBY\n", terminal.Lines(strings.ToUpper(strings.Join(verbs, "\t"))))
	for _, r := range m.Rows {
		named := 3
		if format == wide {
			named = len(r.Resources)
		}
		terminal.Fprintf(table, "%s\t%s\t%s\t", r.who(), r.where(), r.what(named))
		for _, v := range verbs {
			terminal.Fprintf(table, "%s\t", cellText(r.Access[v]))
		}
		terminal.Fprintln(table, strings.Join(r.Roles, ", "))
	}
	return errors.Join(table.Flush(), fit.Close())
}

// printCells writes one line for each cell.
func printCells(out io.Writer, cells []matrix.Cell) error {
	w := csv.NewWriter(out)
	_ = w.Write([]string{"subject", "namespace", "apiGroup", "resource", "verb", "access", "by"})
	for _, c := range cells {
		namespace := c.Namespace
		if namespace == matrix.Elsewhere {
			namespace = plan.Other
		}
		for _, s := range c.Subjects {
			_ = w.Write([]string{harmless(offline.SubjectOf(s).String()), harmless(namespace), c.Group, harmless(resourceName("", c.Resource, c.Subresource)), harmless(c.Verb), cellText(c.Access), harmless(strings.Join(c.By, "; "))})
		}
	}
	w.Flush()
	return w.Error()
}

// harmless keeps a spreadsheet from taking a name for a formula.
func harmless(text string) string {
	text = terminal.Text(text)
	if text != "" && strings.ContainsRune("=+-@|%", rune(text[0])) {
		return "'" + text
	}
	return text
}

var matrixHTML = template.Must(template.New("matrix").Funcs(template.FuncMap{"line": terminal.Text}).Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Who may do what</title>
<style>
body { font: 14px sans-serif; margin: 2em }
table { border-collapse: collapse }
th, td { border: 1px solid #bbb; padding: .3em .6em; text-align: left; vertical-align: top }
th { position: sticky; top: 0; background: #eee }
.yes { background: #c8e6c9 } .if { background: #fff3c4 } .denied { background: #f5c6c6 } .no { color: #999 }
</style></head><body>
<h1>Who may do what</h1>
<table><thead><tr><th>Who<th>Namespace<th>Resources{{range .Verbs}}<th>{{.}}{{end}}<th>By</tr></thead><tbody>
{{range .Lines}}<tr><td>{{line .Who}}<td>{{line .Where}}<td>{{line .What}}{{$by := line .By}}{{range .Cells}}<td class="{{.}}" title="{{$by}}">{{.}}{{end}}<td>{{$by}}</tr>
{{end}}</tbody></table>
</body></html>
`))

// printHTML writes a page that needs nothing else.
func (m accessMatrix) printHTML(out io.Writer) error {
	type line struct {
		Who, Where, What, By string
		Cells                []string
	}
	page := struct {
		Verbs []string
		Lines []line
	}{Verbs: m.Verbs}
	for _, r := range m.Rows {
		l := line{Who: r.who(), Where: r.where(), What: strings.Join(r.Resources, ", "), By: strings.Join(r.Roles, ", ")}
		for _, v := range m.Verbs {
			text := cellText(r.Access[v])
			if text == "-" {
				text = "no"
			}
			l.Cells = append(l.Cells, text)
		}
		page.Lines = append(page.Lines, l)
	}
	return matrixHTML.Execute(out, page)
}
