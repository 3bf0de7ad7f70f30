package sidecar

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// beforeBytes is how many bytes of a file, before the position of reading, must equal what was read.
const beforeBytes = 1 << 10

// position is how far each file of the log was read: the log itself and what was rotated out of it. A file is told from
// others by its inode, since callers choose much of what is in it: two files can begin alike. Device numbers are left
// out: they change when a machine starts again, and all files are in one directory.
type position struct {
	Files []filePosition `json:"files"`

	// Head and Offset are what earlier releases wrote: the beginning of the file that was read last.
	Head   string `json:"head,omitempty"`
	Offset int64  `json:"offset,omitempty"`
}

// filePosition is how far one file was read.
type filePosition struct {
	Inode  uint64 `json:"inode"`
	Offset int64  `json:"offset"`
	// Before is a hash of the end of what was read. It says whether a file with this inode is still the same file, and
	// which file is a copy of it.
	Before string `json:"before"`
	// Rotated is true if it was read to its end after it had been rotated: nothing is lost if it is removed.
	Rotated bool `json:"rotated,omitempty"`
}

func loadPosition(path string) (position, error) {
	var at position
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return at, nil
	case err != nil:
		return at, err
	}
	if err := json.Unmarshal(data, &at); err != nil {
		return at, fmt.Errorf("%s: %w; remove it to read the audit log from its beginning", path, err)
	}
	return at, nil
}

// logFile is an open file of the log.
type logFile struct {
	*os.File
	info fs.FileInfo
}

func openLog(path string) (*logFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close() // only read
		return nil, err
	}
	return &logFile{f, info}, nil
}

// before is the hash of what is in front of an offset.
func (f *logFile) before(offset int64) (string, error) {
	text := make([]byte, min(offset, beforeBytes))
	if _, err := f.ReadAt(text, offset-int64(len(text))); err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// continues reports whether the file has what was read at a position, and maybe more.
func (f *logFile) continues(p filePosition) bool {
	if f.info.Size() < p.Offset || p.Offset == 0 {
		return false
	}
	before, err := f.before(p.Offset)
	return err == nil && before == p.Before
}

// unread is a file of the log, and how far it was read.
type unread struct {
	path   string
	inode  uint64
	offset int64
	// done is true if it was rotated and read to its end.
	done bool
}

// locate says how far each file was read, in their order. Lost is how many files are gone, or were truncated, of which
// nothing says that they had been read to their end. It changes nothing.
func (at position) locate(paths []string) (files []unread, lost int, _ error) {
	gone := slices.Clone(at.Files)
	var fresh []int
	for _, path := range paths {
		f, err := openLog(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // rotated away since it was listed: the next look finds it
		}
		if err != nil {
			return nil, 0, err
		}
		one := unread{path: path, inode: inodeOf(f.info)}
		known := slices.IndexFunc(gone, func(p filePosition) bool { return p.Inode == one.inode && f.continues(p) })
		if known >= 0 {
			one.offset, one.done = gone[known].Offset, gone[known].Rotated && gone[known].Offset == f.info.Size()
			gone = slices.Delete(gone, known, known+1)
		} else {
			fresh = append(fresh, len(files))
		}
		files = append(files, one)
		_ = f.Close() // only read
	}
	for _, p := range gone {
		copied, err := copyOf(p, files, fresh)
		if err != nil {
			return nil, 0, err
		}
		switch {
		case copied >= 0:
			files[copied].offset = p.Offset
		case !p.Rotated && p.Offset > 0:
			lost++
		}
	}
	return files, lost, nil
}

// forget drops what is known about all files except these.
func (at *position) forget(files []unread) {
	at.Head, at.Offset = "", 0
	at.Files = slices.DeleteFunc(at.Files, func(p filePosition) bool {
		return !slices.ContainsFunc(files, func(f unread) bool { return f.inode == p.Inode && f.offset == p.Offset })
	})
}

// copyOf finds the file, among those of which nothing is known, that continues one that is gone: logs are rotated by
// copying, too. It is -1 if there is none.
func copyOf(p filePosition, files []unread, fresh []int) (int, error) {
	for _, i := range fresh {
		f, err := openLog(files[i].path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return -1, err
		}
		found := files[i].offset == 0 && f.continues(p)
		_ = f.Close() // only read
		if found {
			return i, nil
		}
	}
	return -1, nil
}

// adopt goes on from a position of an earlier release: in the newest file that begins as it says. Older ones were read.
func (at position) adopt(files []unread) {
	if at.Head == "" || len(at.Files) > 0 {
		return
	}
	sizes := make([]int64, len(files))
	for i, file := range files {
		f, err := openLog(file.path)
		if err != nil {
			continue
		}
		head := make([]byte, len(at.Head))
		if _, err := f.ReadAt(head, 0); err == nil && string(head) == at.Head && f.info.Size() >= at.Offset {
			for older := range i {
				files[older].offset = sizes[older]
			}
			files[i].offset = at.Offset
		}
		sizes[i] = f.info.Size()
		_ = f.Close() // only read
	}
}

// set notes how far a file was read.
func (at *position) set(p filePosition) {
	if i := slices.IndexFunc(at.Files, func(old filePosition) bool { return old.Inode == p.Inode }); i >= 0 {
		at.Files[i] = p
		return
	}
	at.Files = append(at.Files, p)
}
