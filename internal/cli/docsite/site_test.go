package docsite

import (
	"bytes"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	proviso "proviso.dev/proviso"
)

func program() *cobra.Command {
	root := &cobra.Command{Use: "proviso", Short: "A server"}
	serve := &cobra.Command{Use: "serve", Short: "Run it", Run: func(*cobra.Command, []string) {}}
	serve.Flags().String("etcd-servers", "", "Where <etcd> is.")
	serve.SetUsageFunc(func(c *cobra.Command) error { _, err := fmt.Fprintln(c.OutOrStderr(), "Usage: see --help"); return err })
	root.AddCommand(serve)
	root.AddCommand(&cobra.Command{Use: "who-can", Short: "Who can <do> this", Run: func(*cobra.Command, []string) {}}, &cobra.Command{Use: "secret", Hidden: true})
	return root
}

// OP-9: the documents of the repository make one site without a dead link, in which every page can be found.
func TestTheSiteOfTheRepository(t *testing.T) {
	site, err := New(proviso.Documents, program())
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"index.html", "docs/how-to/index.html", "docs/reference/metrics.html", "docs/reference/lint.html", "commands/proviso-who-can.html", "ARCHITECTURE.html", "style.css", "search.js"} {
		if len(site[file]) == 0 {
			t.Errorf("there is no %s", file)
		}
		if strings.HasSuffix(file, ".html") && !bytes.Contains(site["search.json"], []byte(`"Href":"`+file+`"`)) {
			t.Errorf("%s cannot be found", file)
		}
	}
	if _, ok := site["commands/proviso-secret.html"]; ok {
		t.Error("a hidden command has a page")
	}
	for name, data := range site {
		if strings.HasSuffix(name, ".html") && (bytes.Contains(data, []byte("<script>")) || bytes.Contains(data, []byte(` style="`)) || bytes.Contains(data, []byte(`src="http`))) {
			t.Errorf("%s has a script or a style of its own, or loads something from elsewhere", name)
		}
	}
	if page := string(site["commands/proviso-who-can.html"]); !strings.Contains(page, "Who can &lt;do&gt; this") {
		t.Errorf("the page of a command:\n%s", page)
	}
}

// A link that leads nowhere is an error that names it; what is not part of the site is not linked.
func TestLinks(t *testing.T) {
	documents := fstest.MapFS{
		"README.md":      {Data: []byte("# Begin\n\n[guide](docs/a.md#second-part) [code](internal/x.go) [far](https://example.com) [here](#begin) [dir](docs) <b onclick=x>raw</b>\n")},
		"docs/a.md":      {Data: []byte("# A\n\n## Second part\n\n[back](../README.md) ![picture](p.png)\n")},
		"docs/README.md": {Data: []byte("# All\n")},
		"docs/p.png":     {Data: []byte("png")},
	}
	site, err := New(documents, program())
	if err != nil {
		t.Fatal(err)
	}
	first := string(site["index.html"])
	for _, want := range []string{`href="docs/a.html#second-part"`, ` code `, `href="https://example.com"`, `href="#begin"`, `href="docs/index.html"`} {
		if !strings.Contains(first, want) {
			t.Errorf("no %s in\n%s", want, first)
		}
	}
	if strings.Contains(first, "onclick") {
		t.Error("HTML of a document is taken over")
	}
	if page := string(site["docs/a.html"]); !strings.Contains(page, `href="../index.html"`) || !strings.Contains(page, `src="../docs/p.png"`) {
		t.Errorf("%s", page)
	}
	for _, link := range []string{"docs/none.md", "docs/a.md#third-part", "#elsewhere", "docs/none.png"} {
		documents["README.md"] = &fstest.MapFile{Data: []byte("# Begin\n\n[x](" + link + ")\n")}
		if _, err := New(documents, program()); err == nil || !strings.Contains(err.Error(), "README.md → ") {
			t.Errorf("%s: %v", link, err)
		}
	}
}

// The site is served under a strict policy, is only read, and is written to an empty directory only.
func TestServeAndWrite(t *testing.T) {
	site, err := New(fstest.MapFS{"README.md": {Data: []byte("# Begin\n")}, "examples/a.yaml": {Data: []byte("<script>")}}, program())
	if err != nil {
		t.Fatal(err)
	}
	for target, want := range map[string]struct {
		method string
		code   int
		kind   string
	}{
		"/": {"GET", 200, "text/html"}, "/index.html": {"GET", 200, "text/html"}, "/search.json": {"GET", 200, "application/json"}, "/examples/a.yaml": {"GET", 200, "text/plain"},
		"/../etc/passwd": {"GET", 404, "text/plain"}, "/none": {"GET", 404, "text/plain"}, "/style.css": {"POST", 405, "text/plain"},
	} {
		r := httptest.NewRequest(want.method, "http://x"+target, nil)
		w := httptest.NewRecorder()
		site.ServeHTTP(w, r)
		if w.Code != want.code || !strings.HasPrefix(w.Header().Get("Content-Type"), want.kind) || w.Header().Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %d %v", target, w.Code, w.Header())
		}
	}
	dir := filepath.Join(t.TempDir(), "site")
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	if err := site.write(dir, streams); err != nil || !strings.Contains(out.String(), "index.html") {
		t.Errorf("%v: %s", err, out)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "examples", "a.yaml")); err != nil || string(data) != "<script>" {
		t.Errorf("%q %v", data, err)
	}
	if err := site.write(dir, streams); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("written over another site: %v", err)
	}
}

// OP-1: every command has a manual page, which is the same whenever it is written.
func TestManualPages(t *testing.T) {
	root := &cobra.Command{Use: "proviso", Short: "an API server"}
	root.AddCommand(&cobra.Command{Use: "who-can VERB", Short: "Who can do it", Example: "  proviso who-can get pods", Run: func(*cobra.Command, []string) {}})
	write := func() map[string]string {
		dir := filepath.Join(t.TempDir(), "man")
		streams, _, _, _ := genericiooptions.NewTestIOStreams()
		if err := writeMan(root, dir, streams); err != nil {
			t.Fatal(err)
		}
		pages := map[string]string{}
		for _, name := range []string{"proviso.1", "proviso-who-can.1"} {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			pages[name] = string(data)
		}
		return pages
	}
	first := write()
	if page := first["proviso-who-can.1"]; !strings.Contains(page, "proviso who-can get pods") || !strings.Contains(page, ".TH") {
		t.Errorf("the page of who-can: %s", page)
	}
	if !maps.Equal(first, write()) {
		t.Error("two writings differ")
	}
}

// OP-9: the flags of a command that its usage does not list are in its page, and can be found; there is a tutorial, and
// a reference of the API.
func TestSectionsOfTheSite(t *testing.T) {
	site, err := New(proviso.Documents, program())
	if err != nil {
		t.Fatal(err)
	}
	if page := string(site["commands/proviso-serve.html"]); !strings.Contains(page, `<tr id="etcd-servers"><td><code>--etcd-servers</code>`) || strings.Contains(page, "<etcd>") {
		t.Errorf("the flags of serve: %s", page)
	}
	if !strings.Contains(string(site["search.json"]), "--etcd-servers") {
		t.Error("flags cannot be found")
	}
	index := string(site["index.html"])
	for _, want := range []string{"Tutorial", "How to", "Reference", "Explanation", "docs/tutorial/first-refusal.html", "docs/reference/api.html"} {
		if !strings.Contains(index, want) {
			t.Errorf("the menu has no %q", want)
		}
	}
}
