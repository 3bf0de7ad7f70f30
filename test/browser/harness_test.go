package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience bounds every wait: a busy machine is slow, and nothing here is about speed.
const patience = 90 * time.Second

func binary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("PROVISO_BIN")
	if path == "" {
		t.Skip("PROVISO_BIN is not set: run `go run ./hack/prove browser`")
	}
	return path
}

func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("SKIPPED: there is no Chromium on this machine; `go run ./hack/prove browser` installs it where it may (root, apt-get)")
	return ""
}

// cluster is a running server with its commands.
type cluster struct {
	t      *testing.T
	bin    string
	dir    string
	admin  string
	server *exec.Cmd
	log    *bytes.Buffer
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	bin := binary(t)
	dir, err := os.MkdirTemp("", "pv") // short: the path of a socket is limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	c := &cluster{t: t, bin: bin, dir: dir, admin: filepath.Join(dir, "data", "admin.kubeconfig"), log: &bytes.Buffer{}}
	c.server = exec.Command(bin, "serve", "--data-dir", filepath.Join(dir, "data"), "--secure-port", fmt.Sprint(port))
	c.server.Stdout, c.server.Stderr, c.server.Dir = c.log, c.log, dir
	if err := c.server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.stop() })
	c.await("the server", func() error {
		_, err := c.try(c.admin, "", "kubectl", "get", "--raw", "/readyz")
		return err
	})
	return c
}

func (c *cluster) stop() {
	_ = c.server.Process.Kill()
	_ = c.server.Wait()
}

// await polls until something works.
func (c *cluster) await(what string, try func() error) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for err := try(); err != nil; err = try() {
		if time.Now().After(deadline) {
			c.t.Fatalf("waiting for %s: %v\n%s", what, err, c.log)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// try runs a command as a user. Exit codes up to 2 are answers.
func (c *cluster) try(kubeconfig, in string, args ...string) (string, error) {
	cmd := exec.Command(c.bin, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+c.dir)
	cmd.Stdin = strings.NewReader(in)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() <= 2 && args[0] != "kubectl" {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, errOut.String())
	}
	return string(out), err
}

// must runs a command that has to work.
func (c *cluster) must(kubeconfig, in string, args ...string) string {
	c.t.Helper()
	out, err := c.try(kubeconfig, in, args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

// engine is what a command answers, as JSON: the truth that the page is compared with.
func (c *cluster) engine(into any, in string, args ...string) {
	c.t.Helper()
	if err := json.Unmarshal([]byte(c.must(c.admin, in, append(args, "-o", "json")...)), into); err != nil {
		c.t.Fatalf("%v: %v", args, err)
	}
}

func (c *cluster) user(name string, groups ...string) string {
	c.t.Helper()
	file := filepath.Join(c.dir, name+".kubeconfig")
	args := []string{"kubeconfig", "--data-dir", filepath.Join(c.dir, "data"), "--user", name, "--namespace", "hammer", "-o", file}
	for _, g := range groups {
		args = append(args, "--group", g)
	}
	c.must(c.admin, "", args...)
	return file
}

// explorer starts `proviso explorer` and returns the address that opens it.
func (c *cluster) explorer(kubeconfig string, flags ...string) (address string) {
	c.t.Helper()
	cmd := exec.Command(c.bin, append([]string{"explorer", "--print-url"}, flags...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+c.dir)
	cmd.Dir = c.dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if _, err := fmt.Fscanln(out, &address); err != nil {
		c.t.Fatalf("the explorer printed no address: %v", err)
	}
	return address
}

// tab is a tab of a browser with a profile of its own.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu sync.Mutex
	// foreign are requests that left this machine, and alarms what a page must not do.
	foreign, alarms []string
}

func newTab(t *testing.T, address string) *tab {
	t.Helper()
	// Root has no sandbox, and containers a small /dev/shm.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)), chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("disable-background-networking", true), chromedp.WSURLReadTimeout(patience))
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	b := &tab{t: t, ctx: ctx, base: "http://" + u.Host}
	chromedp.ListenTarget(ctx, b.hear)
	b.run(network.Enable(), runtime.Enable(), page.Enable())
	return b
}

// hear notes what the page does that it must not do.
func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err != nil || u.Scheme != "data" && "http://"+u.Host != b.base {
			b.foreign = append(b.foreign, e.Request.URL)
		}
	case *page.EventJavascriptDialogOpening:
		b.alarms = append(b.alarms, "dialog: "+e.Message)
	case *runtime.EventExceptionThrown:
		b.alarms = append(b.alarms, fmt.Sprintf("exception: %s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError {
			b.alarms = append(b.alarms, fmt.Sprintf("console: %s", e.Args[0].Value))
		}
	}
}

// quiet fails if the page did what it must not do.
func (b *tab) quiet() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.foreign) > 0 {
		b.t.Errorf("requests left this machine: %v", b.foreign)
	}
	if len(b.alarms) > 0 {
		b.t.Errorf("the page: %v", b.alarms)
	}
}

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	// The first call starts the browser, with the life of its context.
	done := make(chan error, 1)
	go func() { done <- chromedp.Run(b.ctx, actions...) }()
	select {
	case err := <-done:
		if err != nil {
			b.t.Fatal(err)
		}
	case <-time.After(patience):
		b.t.Fatal("the browser does not answer")
	}
}

// eval evaluates an expression in the page.
func (b *tab) eval(script string, into any) {
	b.t.Helper()
	b.run(chromedp.Evaluate(script, into))
}

// text evaluates an expression to a text.
func (b *tab) text(script string) (out string) {
	b.t.Helper()
	b.eval("String("+script+")", &out)
	return out
}

// wait waits until an expression is true.
func (b *tab) wait(script string) {
	b.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		var ok bool
		b.eval("!!("+script+")", &ok)
		if ok {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("waiting for %s; the page says:\n%s", script, b.text("document.body.innerText"))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// open opens a path and waits for its answer.
func (b *tab) open(path string) {
	b.t.Helper()
	b.run(chromedp.Navigate(b.base + path))
	b.wait(`document.querySelector('[data-ready="true"], .trouble')`)
}

// size sets the window and the colours.
func (b *tab) size(width int64, colours string) {
	b.t.Helper()
	b.run(emulation.SetDeviceMetricsOverride(width, 900, 1, false),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: colours}}))
}

// shoot takes a picture for the guide, if somebody wants them: PROVISO_SHOTS is the directory.
func (b *tab) shoot(name string, width, height int64) {
	b.t.Helper()
	dir := os.Getenv("PROVISO_SHOTS")
	if dir == "" {
		return
	}
	b.run(emulation.SetDeviceMetricsOverride(width, height, 1, false))
	time.Sleep(300 * time.Millisecond) // for the eye alone
	var picture []byte
	b.run(chromedp.CaptureScreenshot(&picture))
	if err := os.WriteFile(filepath.Join(dir, name+".png"), small(b.t, picture), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// look takes a picture of the whole page, for somebody who wants to look at every screen: PROVISO_LOOK is the
// directory.
func (b *tab) look(name string, width int64) {
	b.t.Helper()
	dir := os.Getenv("PROVISO_LOOK")
	if dir == "" {
		return
	}
	var picture []byte
	b.run(chromedp.FullScreenshot(&picture, 100))
	b.run(emulation.SetDeviceMetricsOverride(width, 900, 1, false))
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
		b.t.Fatal(err)
	}
}
