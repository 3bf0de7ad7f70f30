// Command fieldreference writes the reference page of the shipped field permissions from the table that the server
// uses.
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"proviso.dev/proviso/internal/engine/fieldperm"
)

//go:generate go run . ../../docs/reference/declared-permissions.md

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: fieldreference FILE")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintf(os.Stderr, "fieldreference: %v\n", err)
		os.Exit(1)
	}
}

func write(file string) error {
	table, issues := fieldperm.New(fieldperm.Config{})
	if len(issues) > 0 {
		return fmt.Errorf("shipped permissions do not compile: %v", issues)
	}
	return os.WriteFile(file, []byte(page(table)), 0o644) //nolint:gosec // a page of documentation, for everybody
}

const introduction = `<!-- Written by hack/fieldreference; ` + "`make generate`" + ` writes it again. -->

# Shipped field permissions

A field permission is granted as a verb on the resource that has the field, in a rule of RBAC, of a Policy role or by a
webhook. A user who may not write the whole object also needs the verb ` + "`granular`" + ` on the resource. A text in angle
brackets stands for what you fill in: ` + "`granular:label(<prefix>)`" + ` is granted as
` + "`granular:label(example.com)`" + `, for the labels ` + "`example.com/…`" + `; the prefix of a label without a slash is the
label itself.

A permission covers what lies below its field. "Also covered by" names the more general permissions that do.

No shipped permission is exclusive: the general right to write an object covers all of these fields. What is declared on
a cluster, by FieldPermission objects and in the schemas of custom resources, is listed there by ` + "`proviso permissions`" + `
or ` + "`kubectl get permissions`" + `, for one resource by ` + "`proviso permissions RESOURCE`" + ` or
` + "`kubectl get permissions --field-selector resource=RESOURCE.GROUP`" + `. Both need the right to list ` + "`permissions`" + `
of the API group ` + "`authorization.proviso.dev`" + `, which cluster admins have, and which they can give to others:

    kubectl create clusterrole permission-reader --verb=get,list --resource=permissions.authorization.proviso.dev

Custom resources with a scale subresource have ` + "`granular:replicas`" + ` on the field that it names.
`

// page lists the permissions by name, and then by resource.
func page(table *fieldperm.Table) string {
	var b strings.Builder
	b.WriteString(introduction)
	b.WriteString("\n## By permission\n\n| grant | field | resources |\n|---|---|---|\n")
	var verbs []string
	fields, resources := map[string][]string{}, map[string][]string{}
	for _, e := range table.Permissions() {
		verbs = add(verbs, e.Verb)
		fields[e.Verb] = add(fields[e.Verb], code(e.Field))
		resources[e.Verb] = add(resources[e.Verb], named(e.Resource))
	}
	for _, v := range verbs {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", code(v), strings.Join(fields[v], ", "), strings.Join(resources[v], ", "))
	}

	b.WriteString("\n## By resource\n\n| resource | field | grant | also covered by |\n|---|---|---|---|\n")
	every := table.For(fieldperm.Resource{})
	rows(&b, every, every)
	for _, r := range particular(table) {
		own := table.For(r)
		rows(&b, slices.DeleteFunc(slices.Clone(own), func(e fieldperm.Entry) bool { return everywhere(every, e) }), own)
	}
	return b.String()
}

// rows are the entries of one resource, with what else of all covers each of them.
func rows(b *strings.Builder, entries, all []fieldperm.Entry) {
	for _, e := range entries {
		var by []string
		for _, general := range slices.Backward(all) {
			if below(e.Field, general.Field) {
				by = append(by, code(general.Verb))
			}
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", named(e.Resource), code(e.Field), code(e.Verb), strings.Join(by, ", "))
	}
}

// particular are the resources with fields of their own, in order.
func particular(table *fieldperm.Table) []fieldperm.Resource {
	var all []fieldperm.Resource
	for _, e := range table.Permissions() {
		if r, err := fieldperm.ParseResource(e.Resource); err == nil && !r.All() && !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b fieldperm.Resource) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// below reports whether a field lies inside of another.
func below(field, other string) bool {
	rest, inside := strings.CutPrefix(field, other)
	return inside && (strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "["))
}

// everywhere reports whether every resource has the entry.
func everywhere(every []fieldperm.Entry, e fieldperm.Entry) bool {
	return slices.ContainsFunc(every, func(x fieldperm.Entry) bool { return x.Verb == e.Verb && x.Field == e.Field })
}

func add(list []string, text string) []string {
	if slices.Contains(list, text) {
		return list
	}
	return append(list, text)
}

func code(text string) string { return "`" + text + "`" }

func named(resource string) string {
	if resource == "*" {
		return "all that have the field"
	}
	return code(resource)
}
