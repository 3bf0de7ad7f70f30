package pki

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"proviso.dev/proviso/internal/platform/atomicfile"
)

const (
	tempMark = ".proviso-tmp-"
	// largest is far above any PEM file; it keeps a wrong path (a disk image, a device) from being read into memory.
	largest = 1 << 20
)

// FileError is a file that cannot be used, with what to do about it.
type FileError struct {
	Path    string
	Problem string
	Remedy  string
}

func (e *FileError) Error() string {
	return fmt.Sprintf("pki file %s %s; %s", e.Path, e.Problem, e.Remedy)
}

const remedyLeaf = "restore it or remove it to have it generated again"

// exists does not follow links: a dangling link is something an administrator made, and is reported when read.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// read returns a file that only its owner can write and, if secret, only its owner can read.
func read(path string, secret bool, remedy string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, &FileError{path, "cannot be read: " + cause(err), remedy}
	}
	if !info.Mode().IsRegular() {
		return nil, &FileError{path, "is not a regular file", remedy}
	}
	if info.Size() > largest {
		return nil, &FileError{path, fmt.Sprintf("is corrupt: %d bytes are too many", info.Size()), remedy}
	}
	mode := info.Mode().Perm()
	switch {
	case secret && mode&0o077 != 0:
		return nil, &FileError{path, fmt.Sprintf("has mode %04o and holds a private key that others may read", mode),
			"run `chmod 600` on it, and replace it if others may have read it"}
	case mode&0o022 != 0:
		return nil, &FileError{path, fmt.Sprintf("has mode %04o and can be changed by others", mode),
			"check its content and run `chmod 600` on it"}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, &FileError{path, "cannot be read: " + cause(err), remedy}
	}
	if len(data) == 0 {
		return nil, &FileError{path, "is corrupt: it is empty", remedy}
	}
	return data, nil
}

// cause strips operation and path from an error of the os package: the message names the path already.
func cause(err error) string {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err.Error()
	}
	return err.Error()
}

// write replaces a file such that after a crash at any moment either the old or the new content is there.
func (e *ensurer) write(path string, data []byte) error {
	if err := e.cfg.fault("create", path); err != nil {
		return err
	}
	var crash error
	err := atomicfile.Replace(path, data, atomicfile.Options{
		Sync: !e.cfg.noSync, SyncDir: !e.cfg.noSync, Temp: "." + filepath.Base(path) + tempMark + "*",
		Step: func(step string) error {
			if step == "renamed" {
				e.files.Changed = append(e.files.Changed, path)
			}
			crash = e.cfg.fault(step, path)
			return crash
		},
	})
	if err != nil && crash == nil {
		return fmt.Errorf("pki file %s cannot be written: %w", path, err)
	}
	return crash
}

// privateDir makes a directory that only its owner can enter and clears what a killed process left half-written there.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("pki directory %s cannot be created: %w", dir, err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("pki directory %s cannot be made private: %w", dir, err)
	}
	return sweep(dir)
}

func sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("pki directory %s cannot be read: %w", dir, err)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") && strings.Contains(entry.Name(), tempMark) {
			if err := os.Remove(filepath.Join(dir, entry.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("pki directory %s cannot be cleaned: %w", dir, err)
			}
		}
	}
	return nil
}
