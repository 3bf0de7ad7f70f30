package pki

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"proviso.dev/proviso/internal/platform/atomicfile"
)

const lockName = "proviso.lock"

// Lock is the exclusive use of a data directory. The kernel drops it with the process, however that ends.
type Lock struct {
	dir  string
	file *os.File
}

// Dir is the absolute path of the directory.
func (l *Lock) Dir() string { return l.dir }

// Release gives the directory up. The file stays: removing it would let two processes hold locks on two files of the
// same name.
func (l *Lock) Release() error {
	return errors.Join(l.file.Truncate(0), l.file.Close())
}

// LockDataDir creates the directory if it is missing (mode 0700) and takes its lock.
//
// A directory that others can enter is made private if it is this package's own (it holds the lock file) or empty. Any
// other is refused: the user may have named a directory that is meant to be shared, such as their home.
func LockDataDir(dir string) (*Lock, error) {
	if dir == "" {
		return nil, errors.New("data dir is empty; name one")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("data dir %s: %w", dir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data dir %s cannot be created: %s; choose another --data-dir", dir, cause(err))
	}
	if err := makePrivate(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, lockName)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data dir %s is not writable: %s; choose another --data-dir or change its owner", dir, cause(err))
	}
	if err := atomicfile.TryLock(file); err != nil {
		defer file.Close()
		if errors.Is(err, atomicfile.ErrLocked) {
			return nil, fmt.Errorf("data dir %s is in use by %s; stop it or choose another --data-dir", dir, occupant(file))
		}
		return nil, fmt.Errorf("data dir %s cannot be locked: %s; it must be on a file system that supports locks", dir, cause(err))
	}
	lock := &Lock{dir: dir, file: file}
	if err := lock.sign(); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("data dir %s is not writable: %s; free some space or choose another --data-dir", dir, cause(err))
	}
	return lock, nil
}

// sign leaves the process id for a process that finds the directory locked.
func (l *Lock) sign() error {
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err := l.file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func occupant(file *os.File) string {
	data, err := io.ReadAll(io.LimitReader(file, 32))
	pid, convErr := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || convErr != nil {
		return "another process"
	}
	return "process " + strconv.Itoa(pid)
}

func makePrivate(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("data dir %s cannot be read: %s", dir, cause(err))
	}
	if owner, known := ownerOf(info); known && owner != os.Geteuid() {
		return fmt.Errorf("data dir %s belongs to user id %d, not to %d who runs this; change its owner or choose another --data-dir",
			dir, owner, os.Geteuid())
	}
	mode := info.Mode().Perm()
	if mode&0o077 != 0 {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("data dir %s cannot be read: %s", dir, cause(err))
		}
		if len(entries) > 0 && !exists(filepath.Join(dir, lockName)) {
			return fmt.Errorf("data dir %s has mode %04o and holds other files; choose an empty directory, or run `chmod 700` on it",
				dir, mode)
		}
		// Only others lose permissions; a directory its owner made read-only stays so and is reported as that.
		if err := os.Chmod(dir, mode&^0o077); err != nil {
			return fmt.Errorf("data dir %s cannot be made private: %s; run `chmod 700` on it", dir, cause(err))
		}
	}
	return nil
}
