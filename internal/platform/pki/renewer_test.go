package pki

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// SV-1: a server that runs for longer than a certificate lasts has it renewed, and a failure is reported and retried.
func TestRenewer(t *testing.T) {
	dir := t.TempDir()
	cfg, clk := testConfig()
	files := mustEnsure(t, dir, cfg)
	type report struct {
		changed []string
		err     error
	}
	reports := make(chan report, 1)
	renewer, err := NewRenewer(dir, cfg, func(changed []string, err error) { reports <- report{changed, err} })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() { defer close(stopped); renewer.Run(ctx) }()
	for !clk.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	old := certOf(t, files.ServingCert)

	hidden := filepath.Join(dir, "hidden")
	if err := os.Rename(files.CAKey, hidden); err != nil {
		t.Fatal(err)
	}
	clk.SetTime(old.NotAfter.Add(-29 * 24 * time.Hour))
	if got := <-reports; got.err == nil {
		t.Errorf("a missing key was not reported: %v", got)
	}
	if err := os.Rename(hidden, files.CAKey); err != nil {
		t.Fatal(err)
	}
	clk.Step(time.Hour)
	if got := <-reports; got.err != nil || !slices.Contains(got.changed, files.ServingCert) {
		t.Errorf("after the repair: %+v", got)
	}
	if renewed := certOf(t, files.ServingCert); !renewed.NotAfter.After(old.NotAfter) {
		t.Error("the serving certificate was not renewed")
	}
	cancel()
	<-stopped
}
