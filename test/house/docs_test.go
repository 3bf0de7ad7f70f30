package house

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Requirements are written down in docs/requirements, one list entry each: "- **CA-7** …". One that is still to be
// built says so at its end.
var (
	requirementEntry = regexp.MustCompile(`(?m)^- \*\*([A-Z]{2}-[0-9]+)\*\*`)
	requirementID    = regexp.MustCompile(`\b(?:CA|PO|FP|PA|DA|SV|SC|RD|TR|EX|OP|NI|TM|HF|TK|MC)-[0-9]+\b`)
)

const notBuilt = "(Not built yet.)"

// requirements maps every ID on the pages to whether it is built.
func requirements(t *testing.T) map[string]bool {
	t.Helper()
	pages, err := filepath.Glob("../../docs/requirements/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages in docs/requirements: %v", err)
	}
	all := map[string]bool{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		found := requirementEntry.FindAllSubmatchIndex(text, -1)
		for i, at := range found {
			end := len(text)
			if i+1 < len(found) {
				end = found[i+1][0]
			}
			id := string(text[at[2]:at[3]])
			if _, twice := all[id]; twice {
				t.Errorf("%s: %s is defined twice", page, id)
			}
			all[id] = !strings.Contains(strings.Join(strings.Fields(string(text[at[0]:end])), " "), notBuilt)
		}
	}
	return all
}

// TestRequirementsResolve: whoever reads an ID in the code finds it in docs/requirements.
func TestRequirementsResolve(t *testing.T) {
	known := requirements(t)
	for _, f := range tree(t) {
		for _, id := range idsIn(t, f) {
			if _, ok := known[id]; !ok {
				t.Errorf("%s refers to %s, which no page of docs/requirements defines", f.path, id)
			}
		}
	}
}

// TestRequirementsAreProven: a requirement that no test names is not done.
func TestRequirementsAreProven(t *testing.T) {
	named := map[string]bool{}
	for _, f := range tree(t) {
		if !f.isTest() || f.path == "test/house/docs_test.go" {
			continue
		}
		for _, id := range idsIn(t, f) {
			named[id] = true
		}
	}
	for id, built := range requirements(t) {
		if built && !named[id] {
			t.Errorf("no test names %s: add a test that proves it, or write %q at the end of its entry", id, notBuilt)
		}
	}
}

func idsIn(t *testing.T, f file) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../..", f.path))
	if err != nil {
		t.Fatal(err)
	}
	return requirementID.FindAllString(string(text), -1)
}

// TestArchitectureListsEveryFolder: ARCHITECTURE.md links to every folder of internal/, in their order.
func TestArchitectureListsEveryFolder(t *testing.T) {
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, folder := range folders {
		next := strings.Index(string(text[at:]), "| [`"+folder+"/`](internal/"+folder+") |")
		if next < 0 {
			t.Errorf("ARCHITECTURE.md has no row for internal/%s behind that of the folder above it", folder)
			continue
		}
		at += next
	}
}

var (
	adrTitle  = regexp.MustCompile(`^# ([0-9]+)\. .+\n\nStatus: (accepted|superseded by .+)\n`)
	linkToDoc = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
)

// TestDecisionsHaveAStatus: every ADR has its number, a title and a status, and no number is used twice.
func TestDecisionsHaveAStatus(t *testing.T) {
	pages, err := filepath.Glob("../../docs/adr/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no decisions in docs/adr: %v", err)
	}
	used := map[string]string{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		m := adrTitle.FindSubmatch(text)
		if m == nil {
			t.Errorf("%s does not begin with `# N. Title`, an empty line and `Status: accepted` or `Status: superseded by …`", page)
			continue
		}
		number := fmt.Sprintf("%04s", m[1])
		if !strings.HasPrefix(filepath.Base(page), number+"-") {
			t.Errorf("%s calls itself number %s", page, m[1])
		}
		if other, twice := used[number]; twice {
			t.Errorf("%s and %s have the same number", other, page)
		}
		used[number] = page
	}
}

// TestLinksInDocsResolve: a link to a file of the repository leads somewhere.
func TestLinksInDocsResolve(t *testing.T) {
	for page, text := range pages(t) {
		for _, m := range linkToDoc.FindAllStringSubmatch(text, -1) {
			target := m[1]
			if strings.ContainsAny(target, " `<") {
				continue
			}
			if _, err := os.Stat(path.Join(path.Dir(page), target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, target)
			}
		}
	}
}

// pages are the texts of all pages for people, by their path from here.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/*/*.md", "../../examples/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range found {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			all[filepath.ToSlash(page)] = string(text)
		}
	}
	return all
}

// TestMapOfTheFolders: the table in ARCHITECTURE.md names every package directly below the folders whose contents it
// lists. // OP-10
func TestMapOfTheFolders(t *testing.T) {
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| \\[`(\\w+)/`\\].*$").FindAllStringSubmatch(string(text), -1)
	if len(rows) < 9 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		ring := row[1]
		if ring == "cli" || ring == "features" { // which their rows describe as a whole
			continue
		}
		inside, err := os.ReadDir(filepath.Join("../../internal", ring))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range inside {
			if entry.IsDir() && !strings.Contains(row[0], "`"+entry.Name()+"`") {
				t.Errorf("ARCHITECTURE.md: the row of %s/ does not name %s", ring, entry.Name())
			}
		}
	}
}
