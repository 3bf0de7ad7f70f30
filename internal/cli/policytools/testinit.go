package policytools

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/analysis/matrix"
	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/platform/terminal"
	"proviso.dev/proviso/internal/state/source"
)

// maxFirstCases is how many cases a first test has: enough to go on from.
const maxFirstCases = 20

// initialize writes a first test for the policies of a directory: what they decide today, one case for each role and
// subject. People keep what is meant so, and change the rest.
func (o *TestOptions) initialize(ctx context.Context) error {
	dir := o.Paths[0]
	file := filepath.Join(dir, "policy.test.yaml")
	if len(o.Paths) > 1 {
		return errors.New("--init: name one directory")
	}
	documents, err := manifests.Read([]string{dir}, nil)
	if err != nil {
		return err
	}
	host, err := offline.New(offline.Config{Texts: manifests.Texts(documents), MasterNamespace: o.MasterNamespace})
	if err != nil {
		return err
	}
	u, err := offline.NewUniverse(host)
	if err != nil {
		return err
	}
	cells, err := matrix.Cells(ctx, matrix.Input{Index: host.Snapshot().Rules, Server: host, Resources: u.Resources, Verbs: verbs.All(), Namespaces: append(u.Namespaces, ""), Names: u.Names})
	if err != nil {
		return err
	}
	cases := firstCases(cells)
	if len(cases) == 0 {
		return fmt.Errorf("%s: no policy there grants or denies anything, so there is nothing to test", dir)
	}
	globs, err := policyGlobs(dir)
	if err != nil {
		return err
	}
	body, err := yaml.Marshal(map[string]any{"apiVersion": offline.ToolsVersion, "kind": "PolicyTest", "metadata": map[string]any{"name": "policy"}, "policies": globs, "cases": cases})
	if err != nil {
		return err
	}
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s already exists: nothing was written", file)
	}
	if err != nil {
		return err
	}
	_, err = out.WriteString("# What the policies decide today. Keep the cases that are intended, and change the others.\n" + string(body))
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	_, err = terminal.Fprintf(o.Out, "%s has %s: proviso test %s\n", file, terminal.Count(len(cases), "case", "cases"), dir)
	return err
}

// firstCases are one case for each rule and subject.
func firstCases(cells []matrix.Cell) (cases []map[string]any) {
	seen := map[string]bool{}
	for _, c := range cells {
		if len(c.By) == 0 || len(cases) >= maxFirstCases || c.Namespace == matrix.Elsewhere {
			continue
		}
		for _, s := range c.Subjects {
			decision := map[plan.Effect]string{plan.Yes: "Allow", plan.If: "Conditional", plan.Denied: "Deny"}[c.Access]
			key := fmt.Sprint(s, c.By[0], decision)
			if decision == "" || seen[key] || strings.HasPrefix(s.Name, "system:") || len(cases) >= maxFirstCases {
				continue
			}
			seen[key] = true
			cases = append(cases, caseOf(s, c, decision))
		}
	}
	return cases
}

func caseOf(s ruleset.Subject, c matrix.Cell, decision string) map[string]any {
	who := offline.SubjectOf(s)
	out := map[string]any{"name": fmt.Sprintf("%s %s %s", who, c.Verb, resourceName(c.Group, c.Resource, c.Subresource)), "verb": c.Verb,
		"resource": resourceName(c.Group, c.Resource, c.Subresource), "expect": decision}
	if s.Group {
		out["user"], out["groups"] = "a-member", []string{s.Name}
	} else {
		out["user"] = s.Name
	}
	if c.Namespace != "" {
		out["namespace"] = c.Namespace
	}
	return out
}

// policyGlobs name the policies beside a test.
func policyGlobs(dir string) (globs []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, ext := range []string{".yaml", ".yml", ".json"} {
		for _, e := range entries {
			if !e.IsDir() && filepath.Ext(e.Name()) == ext && !source.IsTest(e.Name()) {
				globs = append(globs, "*"+ext)
				break
			}
		}
	}
	if len(globs) == 0 {
		return nil, fmt.Errorf("%s: no *.yaml or *.json files found", dir)
	}
	return globs, nil
}
