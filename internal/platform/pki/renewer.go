package pki

import (
	"context"
	"errors"
	"time"
)

// Renewer keeps certificates valid while a server runs; the server reloads the files when they change. A failure is
// reported and tried again: certificates are renewed long before they end, so that there is time to repair.
type Renewer struct {
	dataDir string
	cfg     Config
	report  func(changed []string, err error)
}

// NewRenewer returns a renewer for what Ensure made with the same arguments. Report is called after each round that
// changed files or failed.
func NewRenewer(dataDir string, cfg Config, report func(changed []string, err error)) (*Renewer, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	if report == nil {
		return nil, errors.New("renewer needs a function that reports failures")
	}
	return &Renewer{dataDir: dataDir, cfg: cfg, report: report}, nil
}

// Run blocks until the context ends.
func (r *Renewer) Run(ctx context.Context) {
	// Several rounds fit into the notice of the shortest-lived certificate; an hour is often enough otherwise, and also
	// catches up soon after the machine was suspended.
	ticker := r.cfg.Clock.NewTicker(max(time.Second, min(time.Hour, r.cfg.LeafLife/12)))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		files, err := Ensure(r.dataDir, r.cfg)
		if err != nil {
			r.report(nil, err)
		} else if len(files.Changed) > 0 {
			r.report(files.Changed, nil)
		}
	}
}
