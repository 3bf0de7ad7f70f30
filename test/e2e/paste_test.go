package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

var rewrite = flag.Bool("update", false, "write what the commands of the documents really print into the documents")

// attempts is how often a page is pasted before its output counts as wrong: a policy is effective a moment after it was
// written, and on a busy machine a command may come in between. A page cleans up after itself, so that it can be pasted
// again.
const attempts = 3

// notPasted stands in front of a block of commands that cannot be pasted, such as one that starts a server on another
// machine.
const notPasted = "<!-- not pasted: "

// page is a document with commands.
type page struct {
	path  string // from the root of the repository
	text  string
	steps []step
}

// step is a block of shell commands of a page and what they print.
type step struct {
	script, want string
	// at is where the output is in the page, or belongs.
	from, to int
}

var fence = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```\n")

// readPage takes the commands out of a page. A text block right behind an sh block is what that prints; without one it
// prints nothing.
func readPage(t *testing.T, path string) *page {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../..", path))
	if err != nil {
		t.Fatal(err)
	}
	p := &page{path: path, text: string(data)}
	blocks := fence.FindAllStringSubmatchIndex(p.text, -1)
	for i, b := range blocks {
		kind, body := p.text[b[2]:b[3]], p.text[b[4]:b[5]]
		before := p.text[:b[0]]
		line := strings.TrimSpace(before[strings.LastIndex(strings.TrimRight(before, "\n"), "\n")+1:])
		switch {
		case strings.HasPrefix(line, notPasted):
			continue
		case kind == "console" || kind == "bash" || kind == "shell":
			t.Errorf("%s: a block of %s is not pasted by a test; write the commands as sh, and what they print as text behind it, or say why not: %s…", path, kind, notPasted)
		case kind != "sh":
			continue
		}
		s := step{script: body, from: b[1], to: b[1]}
		if i+1 < len(blocks) {
			if next := blocks[i+1]; p.text[next[2]:next[3]] == "text" && strings.TrimSpace(p.text[b[1]:next[0]]) == "" {
				s.want, s.from, s.to = p.text[next[4]:next[5]], next[0], next[1]
			}
		}
		p.steps = append(p.steps, s)
	}
	return p
}

// SV-12: every command of README, guides and examples works as it is written, in one shell for a page as a reader has
// one terminal, prints what the page says, and leaves nothing behind. With PASTE_AGAIN they are pasted again on the
// same server, in reverse order, except for the examples, which have policy tests, too. The tutorial is one of the
// pages (OP-9), and so is the guide of managed clusters (MC-8).
func TestDocumentsCanBePasted(t *testing.T) {
	t.Parallel()
	paths := []string{"README.md"}
	for _, pattern := range []string{"docs/tutorial/*.md", "docs/how-to/*.md", "docs/reference/*.md", "examples/*/README.md"} {
		found, err := filepath.Glob(filepath.Join("../..", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, f := range found {
			paths = append(paths, strings.TrimPrefix(filepath.ToSlash(f), "../../"))
		}
	}
	picked := regexp.MustCompile(os.Getenv("PASTE"))
	var pages []*page
	for _, path := range paths {
		p := readPage(t, path)
		if strings.HasPrefix(path, "examples/") && len(p.steps) == 0 {
			t.Errorf("%s: there is nothing to paste", path)
		}
		if len(p.steps) > 0 && picked.MatchString(path) {
			pages = append(pages, p)
		}
	}

	root := checkout(t)
	s := serve(t, filepath.Join(root, "proviso-data"), "--feature-gates=UnionReads=true,NarrowedTokens=true") // as `make run` does
	before := s.inventory()
	rounds := [][]*page{pages}
	if os.Getenv("PASTE_AGAIN") != "" {
		again := slices.DeleteFunc(slices.Clone(pages), func(p *page) bool { return strings.HasPrefix(p.path, "examples/") })
		slices.Reverse(again)
		rounds = append(rounds, again)
	}
	for round, list := range rounds {
		outputs := pasteAll(t, list, root)
		for i, p := range list {
			t.Run(fmt.Sprintf("%d/%s", round+1, strings.TrimSuffix(p.path, "/README.md")), func(t *testing.T) {
				for attempt := 1; ; attempt++ {
					wrong := p.compare(t, <-outputs[i])
					if wrong == "" {
						return
					}
					if attempt == attempts {
						t.Fatal(wrong)
					}
					t.Logf("attempt %d: %s", attempt, wrong)
					outputs[i] = make(chan []string, 1)
					outputs[i] <- p.run(t, root, func() {})
				}
			})
		}
		if *rewrite {
			return
		}
		s.await("the pages to have cleaned up", func() bool { return s.inventory() == before })
	}
}

// pasteAll runs pages one after the other. Only the deletion of a namespace, for which Kubernetes takes five seconds,
// goes on while the next page begins, if that has no namespace of the same name.
func pasteAll(t *testing.T, list []*page, root string) []chan []string {
	outputs := make([]chan []string, len(list))
	ended := map[string]chan struct{}{}
	for i, p := range list {
		outputs[i] = make(chan []string, 1)
		for _, namespace := range p.namespaces() {
			if before := ended[namespace]; before != nil {
				<-before
			}
		}
		released, done := make(chan struct{}), make(chan struct{})
		for _, namespace := range p.namespaces() {
			ended[namespace] = done
		}
		go func() {
			defer close(done)
			outputs[i] <- p.run(t, root, sync.OnceFunc(func() { close(released) }))
		}()
		<-released
	}
	for _, done := range ended {
		<-done
	}
	return outputs
}

var created = regexp.MustCompile(`(?m)^namespace/(\S+) created$`)

// namespaces are those that the page creates.
func (p *page) namespaces() (names []string) {
	for _, s := range p.steps {
		for _, m := range created.FindAllStringSubmatch(s.want, -1) {
			names = append(names, m[1])
		}
	}
	return names
}

// checkout is a directory as a reader has it after `make build`: programs, examples, and the server's data in it.
func checkout(t *testing.T) string {
	t.Helper()
	root := tempDir(t)
	if err := os.MkdirAll(filepath.Join(root, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"proviso", "kubectl", "kubectl-proviso"} {
		if err := os.Symlink(binary(t), filepath.Join(root, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(filepath.Dir(binary(t)), "proviso-mcp"), filepath.Join(root, "bin", "proviso-mcp")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"examples", "deploy", "api"} {
		if err := os.CopyFS(filepath.Join(root, dir), os.DirFS("../../"+dir)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// inventory is what a page could leave behind.
func (s *server) inventory() string {
	s.t.Helper()
	return s.kubectl("get", "-A", "-o", "name", "--ignore-not-found",
		"namespaces,configmaps,secrets,pods,services,deployments,persistentvolumes,persistentvolumeclaims,priorityclasses,certificatesigningrequests,nodes,"+
			"roles,rolebindings,clusterroles,clusterrolebindings,customresourcedefinitions,validatingadmissionpolicies,validatingadmissionpolicybindings,"+
			"policies.policy.proviso.dev,policybindings.policy.proviso.dev,roles.authorization.proviso.dev,rolebindings.authorization.proviso.dev,"+
			"fieldpermissions,protectedattributes,clusterprotectedattributes,auditsinks,auditclasses,accessrules")
}

// compare says what a page prints that is not written there.
func (p *page) compare(t *testing.T, got []string) string {
	t.Helper()
	var wrong []string
	for i, s := range p.steps {
		if i >= len(got) {
			t.Fatalf("step %d was not reached:\n%s\nafter:\n%s", i+1, s.script, strings.Join(got, ""))
		}
		if !sameOutput(s.want, got[i]) {
			wrong = append(wrong, fmt.Sprintf("step %d prints something else.\n--- commands\n%s--- written\n%s--- printed\n%s", i+1, s.script, s.want, got[i]))
		}
	}
	if len(wrong) > 0 && *rewrite {
		p.rewrite(t, got)
		return ""
	}
	return strings.Join(wrong, "\n")
}

// Marks in the output: a step has ended; all that is left to do is to delete namespaces.
const (
	markStep = "@@ end of step @@"
	markLast = "@@ only namespaces are left @@"
)

var deletesNamespaces = regexp.MustCompile(`(?m)^(k|kubectl) delete namespace .*\n\z`)

// run runs the commands of a page in one shell, as a reader has one terminal, and returns what each step has printed.
// It calls release when another page can begin.
func (p *page) run(t *testing.T, root string, release func()) []string {
	defer release()
	var script strings.Builder
	for i, s := range p.steps {
		if last := deletesNamespaces.FindString(s.script); i == len(p.steps)-1 && last != "" {
			s.script = strings.TrimSuffix(s.script, last) + "echo '" + markLast + "'\n" + last
		}
		script.WriteString(s.script + "\necho '" + markStep + "'\n")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script.String())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Dir = root
	if p.path != "README.md" { // docs/how-to/README.md tells the reader to do so
		if strings.HasPrefix(p.path, "examples/") {
			cmd.Dir = filepath.Join(root, filepath.Dir(p.path))
		}
		cmd.Env = append(os.Environ(), "PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"), "KUBECONFIG="+filepath.Join(root, "proviso-data", "admin.kubeconfig"))
	}
	out := &watched{release: release}
	cmd.Stdout, cmd.Stderr = out, out
	_ = cmd.Run() // a command that is refused is part of most pages
	return strings.Split(strings.Replace(out.String(), markLast+"\n", "", 1), markStep+"\n")
}

// watched is output in which a mark is waited for.
type watched struct {
	output
	release func()
}

func (w *watched) Write(p []byte) (int, error) {
	n, err := w.output.Write(p)
	if strings.Contains(w.String(), markLast) {
		w.release()
	}
	return n, err
}

// rewrite puts what was printed into the document.
func (p *page) rewrite(t *testing.T, got []string) {
	t.Helper()
	text := p.text
	for i := len(p.steps) - 1; i >= 0; i-- {
		s := p.steps[i]
		if sameOutput(s.want, got[i]) {
			continue
		}
		printed := ""
		if strings.TrimSpace(got[i]) != "" {
			printed = "```text\n" + strings.TrimRight(got[i], "\n") + "\n```\n"
		}
		text = text[:s.from] + printed + text[s.to:]
	}
	write(t, filepath.Join("../..", p.path), text)
	t.Logf("%s has changed: read it, and write … for what differs every time", p.path)
}

// sameOutput compares line by line; … stands for anything within a line, and a line of its own for any number of lines.
func sameOutput(want, got string) bool {
	pattern := "^"
	for _, line := range strings.Split(strings.TrimSpace(want), "\n") {
		if strings.TrimSpace(line) == "…" {
			pattern += `(.*\n)*?`
			continue
		}
		pattern += strings.ReplaceAll(regexp.QuoteMeta(strings.TrimRight(line, " ")), "…", ".*") + ` *\n`
	}
	return regexp.MustCompile(pattern + "$").MatchString(strings.TrimSpace(got) + "\n")
}
