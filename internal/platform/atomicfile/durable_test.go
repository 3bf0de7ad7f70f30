package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A reader sees the old text or the new one, whenever the process dies; and the next one can write again.
func TestReplaceIsWhole(t *testing.T) {
	for _, temp := range []string{"", ".name-tmp-*"} {
		path := filepath.Join(t.TempDir(), "name")
		content := func(want string) {
			t.Helper()
			got, err := os.ReadFile(path)
			if err != nil || string(got) != want {
				t.Errorf("the file has %q, %v, want %q", got, err, want)
			}
		}
		if err := Replace(path, []byte("old"), Options{Sync: true, SyncDir: true, Temp: temp}); err != nil {
			t.Fatal(err)
		}
		content("old")
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		died := errors.New("died")
		for step, want := range map[string]string{"sync": "old", "renamed": "newer"} {
			err := Replace(path, []byte("newer"), Options{Temp: temp, Step: func(s string) error {
				if s == step {
					return died
				}
				return nil
			}})
			if !errors.Is(err, died) {
				t.Errorf("%s: %v", step, err)
			}
			content(want)
			if err := Replace(path, []byte("old"), Options{Temp: temp}); err != nil {
				t.Fatal(err)
			}
			content("old")
		}
	}
}

// Others cannot read the file, even if they could read the old one, or a file in the place of the temporary one.
func TestReplaceIsPrivate(t *testing.T) {
	for _, in := range []string{"name", "name.new"} {
		for _, link := range []bool{false, true} {
			dir := t.TempDir()
			path, there, elsewhere := filepath.Join(dir, "name"), filepath.Join(dir, in), filepath.Join(dir, "elsewhere")
			err := os.WriteFile(elsewhere, []byte("theirs"), 0o644)
			if link {
				err = errors.Join(err, os.Symlink(elsewhere, there))
			} else {
				err = errors.Join(err, os.WriteFile(there, []byte("old"), 0o644))
			}
			if err != nil {
				t.Fatal(err)
			}
			reader, err := os.Open(there) // of another user, say
			if err != nil {
				t.Fatal(err)
			}
			if err := Replace(path, []byte("secret"), Options{}); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 {
				t.Errorf("%s, link %v: %v, %v", in, link, info.Mode(), err)
			}
			if text, err := os.ReadFile(elsewhere); err != nil || string(text) != "theirs" {
				t.Errorf("%s, link %v: the link was followed: %q, %v", in, link, text, err)
			}
			if text, err := io.ReadAll(reader); err != nil || string(text) == "secret" {
				t.Errorf("%s, link %v: a file that was open has %q, %v", in, link, text, err)
			}
			_ = reader.Close()
		}
	}
}

// What fails leaves the old file and nothing else.
func TestReplaceCleansUp(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "name")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, []byte("text"), Options{Sync: true}); err == nil {
		t.Error("a directory was replaced by a file")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left are %v, %v", entries, err)
	}
	if err := Replace(filepath.Join(dir, "missing", "name"), nil, Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that does not exist: %v", err)
	}
	if err := SyncDir(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("sync of a directory that does not exist: %v", err)
	}
}

// One has the lock, until the file is closed.
func TestTryLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	first, second := open(), open()
	if err := TryLock(first); err != nil {
		t.Fatal(err)
	}
	if err := TryLock(second); !errors.Is(err, ErrLocked) {
		t.Errorf("a second lock: %v", err)
	}
	_ = first.Close()
	if err := TryLock(second); err != nil {
		t.Errorf("after the first was closed: %v", err)
	}
	if err := TryLock(first); err == nil || errors.Is(err, ErrLocked) {
		t.Errorf("a closed file: %v", err)
	}
}
