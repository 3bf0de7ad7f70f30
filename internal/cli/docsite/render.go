package docsite

import (
	"bytes"
	"fmt"
	"html"
	"html/template"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/russross/blackfriday/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// inSite are the trees of the repository that the site has. What lies elsewhere, such as source, is named and not
// linked.
var inSite = regexp.MustCompile(`^(README\.md|ARCHITECTURE\.md|CHANGELOG\.md|CONTRIBUTING\.md|SECURITY\.md|LICENSE|(docs|examples|deploy)/.*)$`)

// renderer writes a document as HTML and notes what it links to.
type renderer struct {
	*blackfriday.HTMLRenderer
	page *page
}

func render(source string, data []byte) *page {
	p := &page{source: source, file: fileOf(source), anchors: map[string]bool{}}
	const extensions = blackfriday.CommonExtensions | blackfriday.NoEmptyLineBeforeBlock
	parser := blackfriday.New(blackfriday.WithExtensions(extensions))
	root := parser.Parse(data)
	r := &renderer{blackfriday.NewHTMLRenderer(blackfriday.HTMLRendererParameters{Flags: blackfriday.SkipHTML}), p}
	var out, text bytes.Buffer
	root.Walk(func(n *blackfriday.Node, entering bool) blackfriday.WalkStatus {
		switch n.Type {
		case blackfriday.Heading:
			if entering {
				r.head(n)
			}
		case blackfriday.Link, blackfriday.Image:
			if entering {
				n.Destination = []byte(r.link(string(n.Destination)))
			}
			if len(n.Destination) == 0 {
				return blackfriday.GoToNext // its text alone
			}
		case blackfriday.Text, blackfriday.Code, blackfriday.CodeBlock:
			text.Write(n.Literal)
			text.WriteByte(' ')
		}
		return r.RenderNode(&out, n, entering)
	})
	p.body = template.HTML(out.String()) //nolint:gosec // our own documents, without the HTML in them
	p.text = strings.Join(strings.Fields(text.String()), " ")
	if p.title == "" {
		p.title = source
	}
	return p
}

// head gives a heading the anchor that the usual hosts give it.
func (r *renderer) head(n *blackfriday.Node) {
	var words strings.Builder
	n.Walk(func(n *blackfriday.Node, _ bool) blackfriday.WalkStatus {
		words.Write(n.Literal)
		return blackfriday.GoToNext
	})
	if n.Level == 1 && r.page.title == "" {
		r.page.title = words.String()
	}
	anchor := strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case c == '-' || c == '_' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c > 127:
			return c
		}
		return -1
	}, strings.ToLower(words.String()))
	n.HeadingID = anchor
	r.page.anchors[anchor] = true
}

// link turns a link between files of the repository into one between pages.
func (r *renderer) link(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" {
		return to
	}
	if u.Path == "" {
		r.page.links = append(r.page.links, r.page.file+"#"+u.Fragment)
		return to
	}
	target := path.Join(path.Dir(r.page.source), u.Path)
	switch {
	case !inSite.MatchString(target) && !inSite.MatchString(target+"/"):
		return ""
	case path.Ext(target) == ".md":
		target = fileOf(target)
	case path.Ext(target) == "" && target != "LICENSE":
		target += "/index.html"
	}
	if u.Fragment != "" {
		target += "#" + u.Fragment
	}
	r.page.links = append(r.page.links, target)
	return strings.Repeat("../", strings.Count(r.page.file, "/")) + target
}

// commands makes a page of each command, as its help shows it.
func commands(c *cobra.Command, add func(*page)) {
	if c.Hidden {
		return
	}
	name := c.CommandPath()
	help := c.Long
	if help == "" {
		help = c.Short
	}
	body := "<h1>" + html.EscapeString(name) + "</h1>\n<pre class=help>" + html.EscapeString(strings.TrimSpace(help)) + "\n\n" + html.EscapeString(c.UsageString()) + "</pre>\n"
	flags := unsaid(c)
	if len(flags) > 0 { // those of kube-apiserver
		body += "<h2 id=flags>Flags</h2>\n<table><tr><th>flag<th>default<th></tr>\n"
		for _, f := range flags {
			body += fmt.Sprintf("<tr id=\"%[1]s\"><td><code>--%[1]s</code> %[2]s<td>%[3]s<td>%[4]s</tr>\n",
				html.EscapeString(f.Name), html.EscapeString(f.Value.Type()), html.EscapeString(f.DefValue), html.EscapeString(f.Usage))
			help += " --" + f.Name + " " + f.Usage
		}
		body += "</table>\n"
	}
	add(&page{source: "commands/" + name, file: "commands/" + strings.ReplaceAll(name, " ", "-") + ".html", title: name,
		body: template.HTML(body), text: help + " " + c.UsageString(), anchors: map[string]bool{}}) //nolint:gosec // escaped above
	for _, sub := range c.Commands() {
		commands(sub, add)
	}
}

// unsaid are the flags of a command that its usage does not list: a server has hundreds, by section in its help.
func unsaid(c *cobra.Command) (flags []*pflag.Flag) {
	usage := c.UsageString()
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" && !strings.Contains(usage, "--"+f.Name) {
			flags = append(flags, f)
		}
	})
	return flags
}
