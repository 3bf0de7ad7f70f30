package sink

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"proviso.dev/proviso/internal/platform/atomicfile"
)

// lockPatience is how long a server that ends may still hold the directory of the one that replaces it.
const lockPatience = 10 * time.Second

// lock makes sure that no other server uses the directory. The kernel lets go of it however the process ends.
func (r *Router) lock() error {
	f, err := os.OpenFile(filepath.Join(r.cfg.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("audit spool: %w", err)
	}
	for deadline := time.Now().Add(lockPatience); ; {
		err := atomicfile.TryLock(f)
		if err == nil {
			r.lockFile = f
			return nil
		}
		if !errors.Is(err, atomicfile.ErrLocked) || time.Now().After(deadline) {
			_ = f.Close()
			return fmt.Errorf("audit spool: directory %s is in use by another server: %w", r.cfg.Dir, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (r *Router) unlock() {
	if r.lockFile != nil {
		_ = r.lockFile.Close()
		r.lockFile = nil
	}
}
