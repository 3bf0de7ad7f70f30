package stock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Run runs those of the three that are set until the context ends, or one of them does.
func (p *Pair) Run(ctx context.Context, out io.Writer) error {
	ended := make(chan error, 3)
	var stops []func()
	defer func() {
		for i := len(stops) - 1; i >= 0; i-- {
			stops[i]()
		}
	}()
	for _, command := range [][]string{p.Etcd, p.Car, p.Server} {
		if command == nil {
			continue
		}
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, p.Dir
		if err := cmd.Start(); err != nil {
			return err
		}
		done := make(chan struct{})
		go func() {
			err := cmd.Wait()
			if err == nil {
				err = errors.New("it ended")
			}
			ended <- fmt.Errorf("%s: %w", filepath.Base(command[0]), err)
			close(done)
		}()
		stops = append(stops, func() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-done:
			case <-time.After(20 * time.Second):
				_ = cmd.Process.Kill()
				<-done
			}
		})
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}
