package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// secret is what no tool may say.
const secret = "hunter2"

// world is a running server and its admin.
type world struct {
	t          *testing.T
	kubeconfig string
}

// started runs the server of $PROVISO_BIN.
func started(t *testing.T) world {
	t.Helper()
	binary := os.Getenv("PROVISO_BIN")
	if binary == "" {
		t.Skip("PROVISO_BIN is not set: `make e2e` builds the server and sets it")
	}
	dir := t.TempDir()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "serve", "--data-dir", dir, "--secure-port", fmt.Sprint(port), "--feature-gates=NarrowedTokens=true")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		<-ended
	})
	w := world{t, filepath.Join(dir, "admin.kubeconfig")}
	for {
		if out, err := w.try("", "get", "--raw", "/readyz"); err == nil && strings.Contains(out, "ok") {
			return w
		}
		select {
		case <-ended:
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("the server ended\n%s", text)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (w world) try(in string, args ...string) (string, error) {
	cmd := exec.Command(os.Getenv("PROVISO_BIN"), append([]string{"kubectl", "--kubeconfig", w.kubeconfig}, args...)...)
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (w world) kubectl(args ...string) string {
	w.t.Helper()
	out, err := w.try("", args...)
	if err != nil {
		w.t.Fatalf("kubectl %v: %v\n%s", args, err, out)
	}
	return out
}

// connected is a client of proviso-mcp with flags.
func (w world) connected(flags ...string) *mcp.ClientSession {
	w.t.Helper()
	ours, theirs := mcp.NewInMemoryTransports()
	cmd, _ := newCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: w.t.Output(), ErrOut: w.t.Output()}, theirs)
	cmd.SetArgs(append([]string{"--kubeconfig", w.kubeconfig}, flags...))
	ctx, stop := context.WithCancel(w.t.Context())
	cmd.SetContext(ctx)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Execute() }()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "v1"}, nil).Connect(ctx, ours, nil)
	if err != nil {
		stop()
		w.t.Fatal(err, <-ended)
	}
	w.t.Cleanup(func() {
		_ = session.Close()
		stop()
		<-ended
	})
	return session
}

// called returns the text of an answer and whether it is an error.
func called(t *testing.T, s *mcp.ClientSession, tool string, arguments map[string]any) (string, bool) {
	t.Helper()
	result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return err.Error(), true
	}
	var text []string
	for _, c := range result.Content {
		text = append(text, c.(*mcp.TextContent).Text)
	}
	return strings.Join(text, "\n"), result.IsError
}

func expect(t *testing.T, s *mcp.ClientSession, tool string, arguments map[string]any, failed bool, want ...string) string {
	t.Helper()
	text, isError := called(t, s, tool, arguments)
	for _, w := range want {
		if isError != failed || !strings.Contains(text, w) {
			t.Errorf("%s %v: error %v, want %v and %q in\n%s", tool, arguments, isError, failed, w, text)
		}
	}
	return text
}

// TK-9
func TestTools(t *testing.T) {
	w := started(t)
	w.kubectl("create", "namespace", "web")
	w.kubectl("create", "configmap", "settings", "-n", "web", "--from-literal=colour=blue")
	w.kubectl("create", "secret", "generic", "password", "-n", "web", "--from-literal=value="+secret)
	t.Run("reads", w.reads)
	t.Run("widening", w.widening)
	t.Run("apply", w.applies)
}

// reads: without flags, the tools read everything but secrets.
func (w world) reads(t *testing.T) {
	s := w.connected()
	found, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range found.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != "apply can_i explain get lint list plan who_can" {
		t.Error(got)
	}
	maps := map[string]any{"resource": "configmaps", "name": "settings", "namespace": "web"}
	expect(t, s, "get", maps, false, "colour: blue")
	expect(t, s, "get", map[string]any{"resource": "nonsense", "name": "x"}, true, "nonsense")
	expect(t, s, "list", map[string]any{"resource": "cm", "allNamespaces": true}, false, "NAMESPACE", "settings")
	expect(t, s, "list", map[string]any{"resource": "cm", "namespace": "web", "limit": 1}, false, "continue: ")
	expect(t, s, "list", map[string]any{"resource": "cm", "limit": 501}, true, "limit")
	expect(t, s, "list", map[string]any{"resource": "secrets", "namespace": "web"}, true, "secrets is forbidden: User", "your token does not allow it: link 1")
	expect(t, s, "can_i", map[string]any{"verb": "get", "resource": "configmaps", "namespace": "web"}, false, "yes")
	expect(t, s, "can_i", map[string]any{"verb": "get", "resource": "secrets", "namespace": "web"}, false, "no")
	expect(t, s, "can_i", map[string]any{"verb": "delete", "resource": "configmaps", "namespace": "web"}, false, "no")
	expect(t, s, "who_can", map[string]any{"verb": "get", "resource": "secrets", "namespace": "web"}, false, "system:masters")
	expect(t, s, "explain", map[string]any{"verb": "delete", "resource": "configmaps", "name": "settings", "namespace": "web"}, false, "token")
	const grant = `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: all}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: eve}]}`
	expect(t, s, "plan", map[string]any{"manifests": grant}, false, "eve")
	expect(t, s, "lint", nil, false, "")
	expect(t, s, "lint", map[string]any{"manifests": `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: x}, rules: [{verbs: [get], apiGroups: [""], resources: [podz]}]}`}, false, "podz", "manifests.yaml")
	expect(t, s, "apply", map[string]any{"manifests": settings("red")}, true, "your token does not allow it")

	var out bytes.Buffer
	cmd, _ := newCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: t.Output()}, nil)
	cmd.SetArgs([]string{"call", "get", `{"resource": "configmaps", "name": "settings", "namespace": "web"}`, "--kubeconfig", w.kubeconfig})
	if err := cmd.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), "colour: blue") {
		t.Error(err, out.String())
	}
}

func settings(colour string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: web}\ndata: {colour: " + colour + "}\n"
}

// widening: no argument of a tool gets more than the flags allow.
func (w world) widening(t *testing.T) {
	s := w.connected("--allow", "get,list configmaps -n web")
	admin, err := os.ReadFile(w.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	found, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	base := map[string]any{"verb": "get", "resource": "secrets", "name": "password", "namespace": "web"}
	words := []string{"--kubeconfig=" + w.kubeconfig, "--kubeconfig", "-f" + w.kubeconfig, w.kubeconfig, "--as=admin", "--as-group=system:masters", "--allow=* *",
		"web --kubeconfig=" + w.kubeconfig, "web\x00", "--", "../../../../secrets", "secrets/password?x=", "--raw=/api/v1/namespaces/web/secrets/password", "@" + w.kubeconfig}
	tried := 0
	for _, tool := range found.Tools {
		schema, _ := json.Marshal(tool.InputSchema)
		var shape struct {
			Properties map[string]struct{ Type string }
		}
		if err := json.Unmarshal(schema, &shape); err != nil {
			t.Fatal(err)
		}
		for property, p := range shape.Properties {
			if p.Type != "string" {
				continue
			}
			for _, word := range words {
				arguments := map[string]any{}
				for name, value := range base {
					if _, has := shape.Properties[name]; has {
						arguments[name] = value
					}
				}
				arguments[property] = word
				tried++
				if text, _ := called(t, s, tool.Name, arguments); strings.Contains(text, secret) || strings.Contains(text, "aHVudGVyMg") || strings.Contains(text, string(admin[len(admin)-200:])) {
					t.Errorf("%s %v tells what the token may not read:\n%s", tool.Name, arguments, text)
				}
			}
		}
	}
	if tried < 200 {
		t.Errorf("only %d tried", tried)
	}
	for _, other := range []string{"default", "kube-system"} {
		expect(t, s, "list", map[string]any{"resource": "configmaps", "namespace": other}, true, "your token does not allow it")
	}
}

// applies: what is applied was shown, once, and has not changed since.
func (w world) applies(t *testing.T) {
	s := w.connected("--allow", "get,list,patch,create configmaps -n web", "--description", "web agent")
	shown := func(colour string) string {
		text := expect(t, s, "apply", map[string]any{"manifests": settings(colour)}, false, "Nothing was changed", ".data.colour", colour)
		_, rest, _ := strings.Cut(text, `confirmationId "`)
		id, _, _ := strings.Cut(rest, `"`)
		return id
	}
	stored := func() string {
		return w.kubectl("get", "configmap", "settings", "-n", "web", "-o", "jsonpath={.data.colour}")
	}
	w.kubectl("patch", "configmap", "settings", "-n", "web", "-p", `{"data":{"colour":null}}`)
	id := shown("red")
	if got := stored(); got != "" {
		t.Errorf("%q after the dry run", got)
	}
	expect(t, s, "apply", map[string]any{"confirmationId": id, "manifests": settings("green")}, true, "one of them")
	expect(t, s, "apply", map[string]any{"confirmationId": id}, false, "settings in namespace web applied")
	if got := stored(); got != "red" {
		t.Errorf("%q after it", got)
	}
	expect(t, s, "apply", map[string]any{"confirmationId": id}, true, "not one that is waiting")
	id = shown("green")
	w.kubectl("label", "configmap", "settings", "-n", "web", "a=b")
	expect(t, s, "apply", map[string]any{"confirmationId": id}, true, "changed since")
	expect(t, s, "apply", map[string]any{"manifests": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fresh, namespace: web}\n"}, false, "would be created")
	expect(t, s, "apply", map[string]any{"manifests": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fresh, namespace: default}\n"}, true, "your token does not allow it: link 1, *web agent*")
	expect(t, s, "apply", map[string]any{"manifests": "kind: ConfigMap"}, true, "want apiVersion, kind and metadata.name")
	expect(t, s, "apply", map[string]any{"manifests": strings.Repeat("#", maxManifests+1)}, true, "at most")
	if got := stored(); got != "red" {
		t.Errorf("%q at the end", got)
	}
}

// A token is asked for again before it ends, and the file goes with the program.
func TestAccessRenews(t *testing.T) {
	w := started(t)
	cmd, a := newCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: t.Output(), ErrOut: t.Output()}, nil)
	if err := cmd.ParseFlags([]string{"--kubeconfig", w.kubeconfig, "--for", "20m"}); err != nil {
		t.Fatal(err)
	}
	if err := a.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer a.close()
	read := func() string {
		file, err := a.kubeconfig(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	first := read()
	if read() != first {
		t.Error("asked for again at once")
	}
	if left := time.Until(a.renew); left < 10*time.Minute || left > 16*time.Minute {
		t.Errorf("the next one in %s", left)
	}
	a.renew = time.Time{}
	if read() == first {
		t.Error("not asked for again")
	}
	a.close()
	if _, err := os.Stat(a.dir); err == nil {
		t.Error("the file stays")
	}
}

func TestDifferences(t *testing.T) {
	old := map[string]any{"a": map[string]any{"b": "x", "gone": int64(1)}, "l": []any{"1", "2"}, "metadata": map[string]any{"resourceVersion": "1"}}
	updated := map[string]any{"a": map[string]any{"b": "y", "new": map[string]any{}}, "l": []any{"1"}, "metadata": map[string]any{"resourceVersion": "2"}}
	want := "  ~ .a.b: \"x\" → \"y\"\n  - .a.gone: 1\n  + .a.new: {}\n  - .l[1]: \"2\"\n"
	if got := strings.Join(differences(old, updated), ""); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := differences(old, old); got != nil {
		t.Error(got)
	}
}

// Rows of an aggregated server that do not fit its columns are printed as far as they do.
func TestTableOfAnotherServer(t *testing.T) {
	table := &metav1.Table{
		ColumnDefinitions: []metav1.TableColumnDefinition{{Name: "Name"}, {Name: "Age\nb", Priority: 1}, {Name: "State\nc"}},
		Rows:              []metav1.TableRow{{Cells: []any{"a", "1d", "new", "too much"}}, {Cells: []any{"b"}}},
	}
	if got, want := printed(table, false), "NAME  STATE\\nC\na     new\nb\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	table.ColumnDefinitions = nil
	if got, want := printed(table, false), "\n\n\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestPendingIsBounded(t *testing.T) {
	var p pending
	first := p.add([]step{{}})
	for range maxPending {
		p.add([]step{{}})
	}
	if p.take(first) != nil || len(p.wait) != maxPending {
		t.Error("the oldest stays")
	}
	id := p.add([]step{{}})
	p.wait[len(p.wait)-1].until = time.Now().Add(-time.Second)
	if p.take(id) != nil {
		t.Error("it waits for ever")
	}
}

// TK-9: words of the agent are values of flags, or stand behind --, and none of them is a flag.
func TestWordsAreNotFlags(t *testing.T) {
	a := &access{dir: t.TempDir(), renew: time.Now().Add(time.Hour)}
	var ran [][]string
	tools := &tools{access: a, run: func(_ context.Context, args []string, _ io.Reader, _, _ io.Writer) int {
		ran = append(ran, args)
		return 0
	}}
	own := "--kubeconfig=" + filepath.Join(a.dir, "kubeconfig")
	for _, word := range []string{"--kubeconfig=x", "-fx", "--", "--as=admin", "x --as=y"} {
		q := question{Verb: word, Resource: word, Name: word, Namespace: word, Subresource: word}
		_, _ = tools.canI(t.Context(), q)
		_, _ = tools.whoCan(t.Context(), q)
		_, _ = tools.explain(t.Context(), explanation{question: q, Object: word, Stored: true})
		_, _ = tools.plan(t.Context(), change{Manifests: word, Delete: true})
		_, _ = tools.lint(t.Context(), policy{Manifests: word})
		_, _ = tools.lint(t.Context(), policy{})
		for _, args := range ran {
			if args[0] == "lint" && !slices.Contains(args, own) {
				if len(args) != 2 || !strings.HasPrefix(args[1], a.dir) {
					t.Error(args)
				}
				continue
			}
			flags := args[1:slices.Index(args, "--")]
			if flags[0] != own || slices.ContainsFunc(flags[1:], func(f string) bool {
				return !slices.Contains([]string{"--namespace=" + word, "--subresource=" + word, "--filename=-", "--stored", "--delete", "--system"}, f)
			}) {
				t.Errorf("%q: %q", word, args)
			}
		}
		if len(ran) != 6 {
			t.Errorf("%d commands", len(ran))
		}
		ran = nil
	}
}
