package house

import (
	"fmt"
	"path"
	"strings"
	"testing"
)

// testedElsewhere are the packages of internal/ without a test beside them, and the test that breaks when they are
// wrong: its directory and its name. They adapt one thing to another, and only the whole shows whether they do.
var testedElsewhere = map[string]string{
	"internal/analysis/lint":                "internal/cli/policytools TestLintCodes",
	"internal/engine/expr/cost":             "internal/engine/expr TestBoundsHold",
	"internal/engine/expr/text":             "internal/engine/expr TestTextMeansTheSame",
	"internal/engine/links":                 "internal/apis/policyreview TestWhoCanSaysWhatItCannotKnow",
	"internal/engine/shadowrule":            "internal/state/snapshot TestShadowFields",
	"internal/features":                     "test/server TestPictureOfTheChain",
	"internal/features/conditionalreads":    "test/server TestReadsUnderACondition",
	"internal/features/conditions":          "test/server TestConditionsReachEveryServer",
	"internal/features/feature":             "test/server TestPictureOfTheChain",
	"internal/features/hiddenfields":        "test/server TestHiddenFieldsAreNotShown",
	"internal/features/protectedattributes": "test/server TestProtectedAttributesMatrix",
	"internal/hosts/explorer/page":          "internal/hosts/explorer TestAssets",
	"internal/hosts/offline/policytest":     "internal/cli/policytools TestCasesHoldOrFail",
	"internal/state/selfclient":             "test/server TestRevisionsAcrossReplicas",
}

// TestEveryPackageIsTested: a package has a test beside it, or its line in testedElsewhere.
func TestEveryPackageIsTested(t *testing.T) {
	report(t, untested(tree(t), testedElsewhere))
}

func untested(files []file, elsewhere map[string]string) (problems []string) {
	beside, code, tests := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, f := range files {
		if folderOf(f.dir()) != "" && !f.isTest() && !f.isGenerated() {
			code[f.dir()] = true
		}
		if !f.isTest() {
			continue
		}
		beside[f.dir()] = true
		for _, line := range f.text {
			if name, ok := strings.CutPrefix(line, "func Test"); ok {
				name, _, _ = strings.Cut(name, "(")
				tests[f.dir()+" Test"+name] = true
			}
		}
	}
	for dir := range code {
		if where, listed := elsewhere[dir]; !beside[dir] && !listed {
			problems = append(problems, fmt.Sprintf("%s has no test: write one beside it, or say in test/house/tested_test.go where it is tested", dir))
		} else if beside[dir] && listed {
			problems = append(problems, fmt.Sprintf("%s has a test beside it, and is listed as tested by %s: delete that line", dir, where))
		}
	}
	for dir, where := range elsewhere {
		if !code[dir] {
			problems = append(problems, fmt.Sprintf("%s is listed as tested by %s, and is not there", dir, where))
		}
		if !tests[where] {
			problems = append(problems, fmt.Sprintf("%s is listed as tested by %s, which is not there", dir, path.Join(strings.Fields(where)...)))
		}
	}
	return problems
}

// TestUntested: the rule sees a package without a test, and a line that is no longer true.
func TestUntested(t *testing.T) {
	source := map[string]string{"internal/engine/a/a.go": "package a", "internal/engine/b/b.go": "package b", "internal/engine/b/b_test.go": "package b\nfunc TestB(t *T) {}\n"}
	var files []file
	for name, text := range source {
		f, err := parse(name, text)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	for _, c := range []struct {
		name      string
		elsewhere map[string]string
		want      int
	}{
		{"not listed", nil, 1},
		{"listed", map[string]string{"internal/engine/a": "internal/engine/b TestB"}, 0},
		{"a test that is not there", map[string]string{"internal/engine/a": "internal/engine/b TestC"}, 1},
		{"a package that has one", map[string]string{"internal/engine/a": "internal/engine/b TestB", "internal/engine/b": "internal/engine/b TestB"}, 1},
		{"a package that is not there", map[string]string{"internal/engine/a": "internal/engine/b TestB", "internal/engine/c": "internal/engine/b TestB"}, 1},
	} {
		if got := untested(files, c.elsewhere); len(got) != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
