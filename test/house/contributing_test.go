package house

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestContributorsFindTheirWay: the workflow runs what CI runs here, the templates can be read, and the page for
// contributors has the examples that are promised. // OP-11
func TestContributorsFindTheirWay(t *testing.T) {
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct{ Run string }
		}
	}
	read(t, "../../.github/workflows/verify.yaml", &workflow)
	if !slices.ContainsFunc(workflow.Jobs["verify"].Steps, func(s struct{ Run string }) bool { return s.Run == "bash .ci/run" }) {
		t.Error("the workflow does not run .ci/run")
	}
	templates, err := filepath.Glob("../../.github/ISSUE_TEMPLATE/*.yaml")
	if err != nil || len(templates) == 0 {
		t.Fatalf("no templates: %v", err)
	}
	for _, file := range templates {
		var template struct {
			Name, Description string
			Body              []map[string]any
		}
		if read(t, file, &template); template.Name == "" || template.Description == "" || len(template.Body) == 0 {
			t.Errorf("%s: a template has a name, a description and a body", file)
		}
	}
	text, err := os.ReadFile("../../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, example := range []string{"a new kind of restriction in a rule", "a new system", "a lint finding"} {
		if !strings.Contains(string(text), "## Worked example: "+example+"\n") {
			t.Errorf("CONTRIBUTING.md has no worked example about %s", example)
		}
	}
	module, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(module), "k8s.io/kubernetes v")
	version, _, _ := strings.Cut(after, "\n")
	if page := pages(t)["../../docs/supported-versions.md"]; !strings.Contains(page, "| "+version+" |") {
		t.Errorf("docs/supported-versions.md does not name Kubernetes %s, which go.mod has", version)
	}
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
