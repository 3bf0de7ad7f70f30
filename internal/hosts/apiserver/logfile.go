package apiserver

import (
	"os"
	"path/filepath"
	"sync"
)

// logLimit bounds one log file; one older file is kept beside it.
const logLimit = 64 << 20

// logFile is the server's log under its data directory. It is opened by the first line that is written after the
// directory exists, and never fails the server: a line that cannot be written is dropped.
type logFile struct {
	// Path is where it is; it is asked when the file is opened.
	Path func() string

	mu   sync.Mutex
	file *os.File
	size int64
}

// Write appends, and starts a new file when the logLimit is reached.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil && l.size+int64(len(p)) > logLimit {
		_ = l.file.Close()
		l.file = nil
		_ = os.Rename(l.Path(), l.Path()+".1")
	}
	if l.file == nil && !l.open() {
		return len(p), nil
	}
	n, _ := l.file.Write(p) // an error would make klog end the process: a full disk must not do that
	l.size += int64(n)
	return len(p), nil
}

func (l *logFile) open() bool {
	path := l.Path()
	dir := filepath.Dir(path)
	// The data directory itself is made, and checked, by the code that takes its lock.
	if _, err := os.Stat(filepath.Dir(dir)); err != nil {
		return false
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	l.file, l.size = f, 0
	if info, err := f.Stat(); err == nil {
		l.size = info.Size()
	}
	return true
}
