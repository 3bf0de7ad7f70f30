package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
)

// Options say how far Replace goes.
type Options struct {
	// Sync waits until the text is on stable storage before it takes the place of the old one.
	Sync bool
	// SyncDir waits until the new name is, too.
	SyncDir bool
	// Temp is a pattern, as of os.CreateTemp, for where the text is written first, beside the file. Empty is the file's
	// name with .new behind it: what a crash has left there is removed the next time.
	Temp string
	// Step, for tests, is told what comes next. An error of it is a crash: nothing is cleaned up.
	Step func(step string) error
}

func (o Options) step(name string) error {
	if o.Step == nil {
		return nil
	}
	return o.Step(name)
}

// Replace writes a file, which only its owner can read, so that a reader sees the old text or the new one, never a
// part. The mode of the old file does not matter, and a symbolic link is replaced, not followed.
func Replace(path string, text []byte, o Options) error {
	temp, err := o.open(path)
	if err != nil {
		return err
	}
	if _, err = temp.Write(text); err == nil {
		if crash := o.step("sync"); crash != nil {
			return errors.Join(crash, temp.Close())
		}
		if o.Sync {
			err = temp.Sync()
		}
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
		return err
	}
	if o.SyncDir {
		if err := SyncDir(filepath.Dir(path)); err != nil {
			return err
		}
	}
	return o.step("renamed")
}

func (o Options) open(path string) (*os.File, error) {
	if o.Temp != "" {
		return os.CreateTemp(filepath.Dir(path), o.Temp) // of mode 0600, whatever the umask
	}
	// The file must be a new one: one that is there may be readable by others, or a link to another place.
	if err := os.Remove(path + ".new"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(path+".new", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
}

// SyncDir waits until the names in a directory are on stable storage.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
