package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestContributorsFindTheirWay: the templates can be read, and the page for
// contributors has the examples that are promised. // OP-11
func TestContributorsFindTheirWay(t *testing.T) {
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

// TestWorkflowRunsVerify: the jobs of CI's workflow are the parts of `make verify`, each once, and the job that branch
// protection requires waits for them. // OP-11
func TestWorkflowRunsVerify(t *testing.T) {
	var workflow struct {
		Jobs map[string]struct {
			Needs    string
			Strategy struct{ Matrix struct{ Run []string } }
			Steps    []struct{ Run string }
		}
	}
	read(t, "../../.github/workflows/verify.yaml", &workflow)
	part := workflow.Jobs["part"]
	if !slices.ContainsFunc(part.Steps, func(s struct{ Run string }) bool { return s.Run == "bash .ci/run ${{ matrix.run }}" }) {
		t.Error("the workflow does not run .ci/run")
	}
	if workflow.Jobs["verify"].Needs != "part" {
		t.Error("the job verify does not wait for the parts")
	}
	var runs []string
	for _, command := range part.Strategy.Matrix.Run {
		if targets, ok := strings.CutPrefix(command, "make "); ok {
			runs = append(runs, strings.Fields(targets)...)
		} else {
			runs = append(runs, strings.TrimPrefix(command, "go run ./hack/prove "))
		}
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, list := range regexp.MustCompile(`(?m)^VERIFY\w* *= (.*)$`).FindAllStringSubmatch(string(makefile), -1) {
		want = append(want, strings.Fields(list[1])...)
	}
	slices.Sort(runs)
	slices.Sort(want)
	if !slices.Equal(runs, want) || len(want) < 2 {
		t.Errorf("the workflow runs %v, make verify runs %v", runs, want)
	}
}

// TestCommandsExist: a make target or a proof that a page or a comment names is there.
func TestCommandsExist(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile("../../hack/prove/proofs.go")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`).FindAllStringSubmatch(string(makefile), -1) {
		known["make "+m[1]] = true
	}
	for _, m := range regexp.MustCompile(`(?m)^\t\{"([a-z-]+)",`).FindAllStringSubmatch(string(list), -1) {
		known["prove "+m[1]] = true
	}
	texts := pages(t)
	for _, f := range tree(t) {
		if f.dir() != "test/house" {
			texts[f.path] = strings.Join(f.text, "\n")
		}
	}
	for where, text := range texts {
		report(t, unknownCommands(where, text, known))
	}
}

var commands = regexp.MustCompile("`(?:[a-z ]+ && )?(make)\\s+([a-z][a-z0-9-]*)|\\./hack/(prove) ([a-z][a-z0-9-]*)")

func unknownCommands(where, text string, known map[string]bool) (problems []string) {
	for _, m := range commands.FindAllStringSubmatch(text, -1) {
		if command := m[1] + m[3] + " " + m[2] + m[4]; !known[command] {
			problems = append(problems, where+": there is no `"+command+"`")
		}
	}
	return problems
}

// TestUnknownCommands: the rule sees a target and a proof that are not there, and leaves those alone that are.
func TestUnknownCommands(t *testing.T) {
	known := map[string]bool{"make test": true, "prove hunt": true}
	for text, want := range map[string]int{
		"`make test`": 0, "`make\ntest X=1`": 0, "`make tests`": 1, "they make tests": 0, "go run ./hack/prove hunt": 0, "`go run ./hack/prove test`": 1, "`go run ./hack/prove`": 0,
	} {
		if got := unknownCommands("x.md", text, known); len(got) != want {
			t.Errorf("%q: %v", text, got)
		}
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
