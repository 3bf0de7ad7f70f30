package authzwebhook

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
)

// The webhook of these tests is a real HTTPS server in a process of its own: this test binary, started once more.
const childVariable = "PROVISO_TEST_WEBHOOK_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		runChild()
		return
	}
	code := m.Run()
	stopChild()
	os.Exit(code)
}

// script is how the webhook behaves under one path.
type script struct {
	Status int    // HTTP status, 200 if 0
	Body   string // the answer
	// Location is where a redirect leads.
	Location string
	Fill     int    // that many bytes of a long string follow
	Tail     string // what comes after them
	Hang     bool   // no answer until the caller gives up
	Drop     bool   // the connection is closed instead
}

// recorded is what the webhook has received.
type recorded struct {
	Body   string
	Header http.Header
}

// runChild serves until its standard input ends, which it does at the latest with the parent.
func runChild() {
	var mu sync.Mutex
	scripts, calls := map[string]script{}, map[string][]recorded{}
	mux := http.NewServeMux()
	mux.HandleFunc("/script/", func(w http.ResponseWriter, r *http.Request) {
		var s script
		if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		scripts[strings.TrimPrefix(r.URL.Path, "/script")] = s
	})
	mux.HandleFunc("/calls/", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_ = json.NewEncoder(w).Encode(calls[strings.TrimPrefix(r.URL.Path, "/calls")])
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		s := scripts[r.URL.Path]
		calls[r.URL.Path] = append(calls[r.URL.Path], recorded{Body: string(body), Header: r.Header})
		mu.Unlock()
		switch {
		case s.Hang:
			<-r.Context().Done()
			return
		case s.Drop:
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if s.Location != "" {
			w.Header().Set("Location", s.Location)
		}
		if s.Status != 0 {
			w.WriteHeader(s.Status)
		}
		_, _ = io.WriteString(w, s.Body)
		chunk := bytes.Repeat([]byte("x"), 1<<16)
		for left := s.Fill; left > 0; left -= len(chunk) {
			if _, err := w.Write(chunk[:min(left, len(chunk))]); err != nil {
				return
			}
		}
		_, _ = io.WriteString(w, s.Tail)
	})
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	_ = json.NewEncoder(os.Stdout).Encode(hello{URL: server.URL, CA: ca})
	_, _ = io.Copy(io.Discard, os.Stdin)
}

type hello struct {
	URL string
	CA  []byte
}

type process struct {
	hello
	command *exec.Cmd
	stdin   io.Closer
}

func startProcess() (*process, error) {
	p := &process{command: exec.Command(os.Args[0])}
	p.command.Env = append(os.Environ(), childVariable+"=1")
	p.command.Stderr = os.Stderr
	stdin, err := p.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.stdin = stdin
	stdout, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("webhook process said nothing: %w", err)
	}
	return p, json.Unmarshal(line, &p.hello)
}

func (p *process) stop() {
	_ = p.stdin.Close()
	_ = p.command.Wait()
}

var shared struct {
	once sync.Once
	p    *process
	err  error
}

func child(t testing.TB) *process {
	t.Helper()
	shared.once.Do(func() { shared.p, shared.err = startProcess() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.p
}

func stopChild() {
	if shared.p != nil {
		shared.p.stop()
	}
}

// at is the client configuration for a path of the webhook.
func (p *process) at(path string) *rest.Config {
	return &rest.Config{Host: p.URL + path, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: p.CA, ServerName: "example.com"}}
}

func (p *process) do(t testing.TB, path string, in, out any) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(p.at(""))
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Post(p.URL+path, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", path, response.Status)
	}
	if out != nil {
		if err := json.NewDecoder(response.Body).Decode(out); err != nil {
			t.Fatal(err)
		}
	}
}

func (p *process) behave(t testing.TB, path string, s script) {
	t.Helper()
	p.do(t, "/script"+path, s, nil)
}

func (p *process) calls(t testing.TB, path string) []recorded {
	t.Helper()
	var all []recorded
	p.do(t, "/calls"+path, nil, &all)
	return all
}
