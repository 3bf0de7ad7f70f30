package sidecar

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// deafPeriod is how often the manifests are looked at while their directory cannot be listened to. The API server
	// takes a tenth of a second to read a change.
	deafPeriod = 20 * time.Millisecond
	// heardPeriod is how often they are looked at while it is listened to: a file system that is mounted over it makes
	// no sound. The API server looks once a minute.
	heardPeriod = 500 * time.Millisecond
)

// watchManifest compares the directory of static manifests with what was written there, until the context ends. What
// cannot be read is a change. It hears of changes as the API server does, and at the same moment.
func (p *proof) watchManifest(ctx context.Context, dir string, want map[string][]byte, every time.Duration) {
	ears := &ears{dir: dir}
	defer ears.close()
	next := time.NewTimer(0)
	defer next.Stop()
	was, heard := "", false
	for {
		// It listens before it looks: what changes after the look is heard.
		period := every
		if err := ears.open(); err != nil {
			period = min(every, deafPeriod)
		}
		state, stamp := compareDir(dir, want), stampOf(dir, want)
		p.look(heard || stamp != was, state)
		was = stamp
		next.Reset(period)
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			heard = false
		case _, open := <-ears.events():
			if heard = true; !open {
				ears.close()
			}
		case <-ears.errors(): // something was not heard
			heard = true
			ears.close()
		}
	}
}

// ears listen to a directory.
type ears struct {
	dir     string
	watcher *fsnotify.Watcher
}

// open listens to the directory that has the name now, which may be another one than before.
func (e *ears) open() (err error) {
	if e.watcher == nil {
		if e.watcher, err = fsnotify.NewWatcher(); err != nil {
			e.watcher = nil
			return err
		}
	}
	return e.watcher.Add(e.dir)
}

func (e *ears) close() {
	if e.watcher != nil {
		_ = e.watcher.Close()
		e.watcher = nil
	}
}

func (e *ears) events() <-chan fsnotify.Event {
	if e.watcher == nil {
		return nil
	}
	return e.watcher.Events
}

func (e *ears) errors() <-chan error {
	if e.watcher == nil {
		return nil
	}
	return e.watcher.Errors
}

// stampOf changes when a file was replaced meanwhile, even by the same.
func stampOf(dir string, want map[string][]byte) string {
	stamp := ""
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
			stamp += fmt.Sprintf("%s %d %d;", name, info.Size(), info.ModTime().UnixNano())
		}
	}
	if info, err := os.Stat(dir); err == nil {
		stamp += fmt.Sprint(info.ModTime().UnixNano())
	}
	return stamp
}

// compareDir is nil if a directory holds exactly these files.
func compareDir(dir string, want map[string][]byte) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("the static manifest of the admission webhook cannot be read: %w", err)
	}
	for _, e := range entries {
		if _, known := want[e.Name()]; !known && !strings.HasPrefix(e.Name(), ".") {
			return fmt.Errorf("%s holds %s, which `proviso sidecar init` did not write", dir, e.Name())
		}
	}
	for name, content := range want {
		is, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return fmt.Errorf("the static manifest of the admission webhook cannot be read: %w", err)
		}
		if string(is) != string(content) {
			return fmt.Errorf("%s/%s is not as `proviso sidecar init` wrote it", dir, name)
		}
	}
	return nil
}
