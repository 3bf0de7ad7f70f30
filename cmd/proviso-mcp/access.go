package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"proviso.dev/proviso/internal/cli"
)

// access is the credential of the tools: a kubeconfig with a narrowed token, which is renewed before it expires.
type access struct {
	request *cli.TokenRequestOptions
	dir     string

	mu         sync.Mutex
	renew, end time.Time
}

// open asks for the first token. Its directory can be read by its owner only.
func (a *access) open(ctx context.Context) (err error) {
	if !a.request.Given() {
		a.request.Allow(defaultAllow)
	}
	a.request.Allow(questionsAllow)
	if a.dir, err = os.MkdirTemp("", "proviso-mcp-"); err != nil {
		return err
	}
	_, err = a.kubeconfig(ctx)
	return err
}

// close removes the token from this machine.
func (a *access) close() {
	if a.dir != "" {
		_ = os.RemoveAll(a.dir)
	}
}

// kubeconfig returns a file whose only credential is a short-lived token. If the token cannot be renewed, the present
// one is used until it expires.
func (a *access) kubeconfig(ctx context.Context) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	file := filepath.Join(a.dir, "kubeconfig")
	now := time.Now()
	if now.Before(a.renew) {
		return file, nil
	}
	text, status, err := a.request.Kubeconfig(ctx)
	if err != nil && now.Before(a.end) {
		return file, nil
	}
	if err != nil {
		return "", fmt.Errorf("no token: %w", err)
	}
	next := file + ".next"
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return "", err
	}
	if err := os.Rename(next, file); err != nil {
		return "", err
	}
	a.end = status.ExpirationTimestamp.Time
	a.renew = now.Add(a.end.Sub(now) * 3 / 4)
	return file, nil
}

// flags returns the flags of a client with the token and nothing of the user's own configuration.
func (a *access) flags(ctx context.Context) (*genericclioptions.ConfigFlags, error) {
	file, err := a.kubeconfig(ctx)
	if err != nil {
		return nil, err
	}
	flags := genericclioptions.NewConfigFlags(true)
	cache := filepath.Join(a.dir, "cache")
	flags.KubeConfig, flags.CacheDir = &file, &cache
	return flags, nil
}
