// Command apireference writes the reference page of the API groups from their OpenAPI definitions, which come from the
// comments of the types.
package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"proviso.dev/proviso/api/openapi"
)

//go:generate go run . ../../docs/reference/api.md

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: apireference FILE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], []byte(page()), 0o644); err != nil { //nolint:gosec // a page of documentation, for everybody
		fmt.Fprintf(os.Stderr, "apireference: %v\n", err)
		os.Exit(1)
	}
}

// groups are ours, by the prefix of the names of their definitions.
var groups = []struct{ name, prefix string }{
	{"policy.proviso.dev/v1alpha1", "dev.proviso.policy.v1alpha1."},
	{"authorization.proviso.dev/v1alpha1", "dev.proviso.authorization.v1alpha1."},
	{"auditregistration.k8s.io/v1alpha1", "io.k8s.auditregistration.v1alpha1."},
	{"access.proviso.dev/v1alpha1", "dev.proviso.access.v1alpha1."},
}

func page() string {
	schemas := map[string]spec.Schema{}
	for name, d := range openapi.Definitions(func(path string) spec.Ref { return spec.MustCreateRef(path) }) {
		schemas[name] = d.Schema
	}
	var out strings.Builder
	out.WriteString("# API\n\nWritten by `make generate` from the types in `api/`. " +
		"`kubectl explain policies.policy.proviso.dev` says the same of a running server.\n")
	for _, g := range groups {
		fmt.Fprintf(&out, "\n## %s\n", g.name)
		for _, name := range slices.Sorted(maps.Keys(schemas)) {
			short, ours := strings.CutPrefix(name, g.prefix)
			if !ours || strings.HasSuffix(short, "List") {
				continue
			}
			s := schemas[name]
			fmt.Fprintf(&out, "\n### %s\n\n%s\n", short, text(s.Description))
			if len(s.Properties) == 0 {
				continue
			}
			out.WriteString("\n| field | type | |\n|---|---|---|\n")
			for _, field := range slices.Sorted(maps.Keys(s.Properties)) {
				p := s.Properties[field]
				if field == "kind" || field == "apiVersion" && strings.HasPrefix(p.Description, "APIVersion defines") {
					continue
				}
				needed := ""
				if slices.Contains(s.Required, field) {
					needed = "Required. "
				}
				fmt.Fprintf(&out, "| `%s` | %s | %s%s |\n", field, kind(&p), needed, strings.ReplaceAll(text(p.Description), "|", "\\|"))
			}
		}
	}
	return out.String()
}

// kind is the type of a field in words.
func kind(s *spec.Schema) string {
	ref := s.Ref.String()
	for _, one := range s.AllOf {
		if ref == "" {
			ref = one.Ref.String()
		}
	}
	switch {
	case ref != "":
		return ref[strings.LastIndexAny(ref, "./")+1:]
	case s.Items != nil && s.Items.Schema != nil:
		return "list of " + kind(s.Items.Schema)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return "map to " + kind(s.AdditionalProperties.Schema)
	case len(s.Type) > 0:
		return strings.Join(s.Type, " or ")
	}
	return "any"
}

func text(s string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(s, "<", "&lt;")), " ")
}
