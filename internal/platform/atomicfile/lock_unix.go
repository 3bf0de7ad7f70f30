//go:build unix

package atomicfile

import (
	"errors"
	"os"
	"syscall"
)

// TryLock takes the exclusive lock of an open file. It ends when the file is closed, and with the process, however that
// ends.
func TryLock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}
