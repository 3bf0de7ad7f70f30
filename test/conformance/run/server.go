package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// server is one running `proviso serve` with a data directory of its own.
type server struct {
	binary     string
	kubeconfig string
	log        string
	cmd        *exec.Cmd
	exited     chan error
}

// start runs the server and returns when it is ready.
func start(ctx context.Context, binary, dir, user, gate string, flags ...string) (*server, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	var list []string
	for _, g := range gates {
		list = append(list, g+"="+gate)
	}
	data := filepath.Join(dir, "data")
	s := &server{binary: binary, kubeconfig: filepath.Join(data, user+".kubeconfig"), log: filepath.Join(dir, "server.log"), exited: make(chan error, 1)}
	log, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	// Not bound to the context: the server is stopped by stop, after the suite.
	s.cmd = exec.Command(binary, append([]string{"serve", "--data-dir", data, fmt.Sprintf("--secure-port=%d", port),
		"--feature-gates", strings.Join(list, ","),
		// One spec waits for a list token to expire by compaction, ten minutes with the default of five.
		"--etcd-compaction-interval=45s"}, flags...)...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { s.exited <- s.cmd.Wait() }()
	if err := s.ready(ctx, fmt.Sprintf("https://127.0.0.1:%d/readyz", port)); err != nil {
		text := s.tail(40)
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, text), s.stop())
	}
	return s, nil
}

// ready polls until the server says that it is ready. The certificate is not checked: nothing is read but a status.
func (s *server) ready(ctx context.Context, url string) error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-s.exited:
			s.exited <- err
			return fmt.Errorf("the server ended before it was ready: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("the server is not ready: %w", ctx.Err())
		case <-tick.C:
		}
		resp, err := client.Get(url)
		if err != nil {
			continue
		}
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			if _, err := os.Stat(s.kubeconfig); err == nil {
				return nil
			}
		}
	}
}

// stop ends the server and reports one that had ended by itself, or that does not end in time.
func (s *server) stop() error {
	select {
	case err := <-s.exited:
		return fmt.Errorf("the server had ended by itself: %w", err)
	default:
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-s.exited:
		return nil
	case <-time.After(30 * time.Second):
		return errors.Join(errors.New("the server did not end within 30 s of SIGTERM"), s.cmd.Process.Kill())
	}
}

func (s *server) tail(n int) string {
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
