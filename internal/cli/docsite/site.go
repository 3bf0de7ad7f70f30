package docsite

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

//go:embed assets
var assets embed.FS

var layout = template.Must(template.ParseFS(assets, "assets/page.html"))

// Site is every file of it, by its path.
type Site map[string][]byte

// page is one document.
type page struct {
	source, file string // in the repository, and in the site
	title        string
	body         template.HTML
	text         string // what the search sees
	links        []string
	unlisted     bool // in the menu
	anchors      map[string]bool
}

// section is one group of pages in the menu.
type section struct {
	Title string
	Pages []entry
}

type entry struct{ Title, Href string }

// sections say where a document belongs, by its path; the first that fits.
var sections = []struct{ title, prefix string }{
	{"Begin", "README.md"},
	{"Tutorial", "docs/tutorial/"},
	{"How to", "docs/how-to/"},
	{"Examples", "examples/"},
	{"Reference", "docs/reference/"},
	{"Reference", "commands/"},
	{"Reference", "docs/requirements/"},
	{"Run it", "deploy/"},
	{"Explanation", "ARCHITECTURE.md"},
	{"Explanation", "docs/adr/"},
	{"Explanation", "docs/"},
	{"Project", ""},
}

// New makes the site from documents and the commands of a program. A link to a document that does not exist is an
// error.
func New(documents fs.FS, root *cobra.Command) (Site, error) {
	pages, err := read(documents)
	if err != nil {
		return nil, err
	}
	commands(root, func(p *page) { pages = append(pages, p) })
	if err := check(documents, pages); err != nil {
		return nil, err
	}
	site := Site{}
	menu := menuOf(pages)
	type found struct{ Title, Href, Text string }
	var index []found
	for _, p := range pages {
		up := strings.Repeat("../", strings.Count(p.file, "/"))
		var out bytes.Buffer
		err := layout.Execute(&out, map[string]any{"Title": p.title, "Body": p.body, "Up": up, "Menu": menu, "File": p.file})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.source, err)
		}
		site[p.file] = out.Bytes()
		index = append(index, found{p.title, p.file, p.text})
	}
	if site["search.json"], err = json.Marshal(index); err != nil {
		return nil, err
	}
	for _, name := range []string{"style.css", "search.js"} {
		if site[name], err = assets.ReadFile("assets/" + name); err != nil {
			return nil, err
		}
	}
	err = fs.WalkDir(documents, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) == ".md" {
			return err
		}
		site[name], err = fs.ReadFile(documents, name)
		return err
	})
	return site, err
}

func read(documents fs.FS) (pages []*page, err error) {
	err = fs.WalkDir(documents, ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && name != "." {
			p, err := listing(documents, name)
			if p != nil {
				pages = append(pages, p)
			}
			return err
		}
		if err != nil || entry.IsDir() || path.Ext(name) != ".md" {
			return err
		}
		data, err := fs.ReadFile(documents, name)
		if err != nil {
			return err
		}
		pages = append(pages, render(name, data))
		return nil
	})
	return pages, err
}

// listing returns a page for a directory without its own; nil if it has one.
func listing(documents fs.FS, dir string) (*page, error) {
	if _, err := fs.Stat(documents, dir+"/README.md"); err == nil {
		return nil, nil
	}
	entries, err := fs.ReadDir(documents, dir)
	if err != nil {
		return nil, err
	}
	text := "# " + dir + "\n\n"
	for _, e := range entries {
		text += "- [" + e.Name() + "](" + e.Name() + ")\n"
	}
	p := render(dir+"/README.md", []byte(text))
	p.unlisted = dir != "examples" && dir != "docs/adr"
	return p, nil
}

// fileOf is where a document is in the site. The README is the first page, and that of a directory its index.
func fileOf(source string) string {
	dir, base := path.Split(source)
	if base == "README.md" {
		return dir + "index.html"
	}
	return strings.TrimSuffix(source, ".md") + ".html"
}

func menuOf(pages []*page) (menu []section) {
	var ranks = map[string]int{}
	of := func(p *page) int {
		return slices.IndexFunc(sections, func(s struct{ title, prefix string }) bool { return strings.HasPrefix(p.source, s.prefix) })
	}
	for _, p := range pages {
		ranks[p.source] = of(p)
	}
	slices.SortStableFunc(pages, func(a, b *page) int {
		if d := ranks[a.source] - ranks[b.source]; d != 0 {
			return d
		}
		return strings.Compare(a.file, b.file)
	})
	for _, p := range pages {
		title := sections[ranks[p.source]].title
		at := slices.IndexFunc(menu, func(s section) bool { return s.Title == title })
		if at < 0 {
			at, menu = len(menu), append(menu, section{Title: title})
		}
		if p.unlisted {
			continue
		}
		menu[at].Pages = append(menu[at].Pages, entry{p.title, p.file})
	}
	return menu
}

// check wants every link between documents to lead somewhere, to a heading that exists if it names one.
func check(documents fs.FS, pages []*page) error {
	files := map[string]*page{}
	for _, p := range pages {
		files[p.file] = p
	}
	var dead []string
	for _, p := range pages {
		for _, link := range p.links {
			file, anchor, _ := strings.Cut(link, "#")
			target, ok := files[file]
			if !ok {
				if _, err := fs.Stat(documents, file); err == nil && anchor == "" {
					continue
				}
			}
			if !ok || anchor != "" && !target.anchors[anchor] {
				dead = append(dead, p.source+" → "+link)
			}
		}
	}
	if len(dead) > 0 {
		slices.Sort(dead)
		return fmt.Errorf("dead links:\n  %s", strings.Join(dead, "\n  "))
	}
	return nil
}
