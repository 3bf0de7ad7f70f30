package localetcd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	etcdversion "go.etcd.io/etcd/api/v3/version"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/version"

	"proviso.dev/proviso/internal/platform/atomicfile"
)

// restoredSuffix marks a directory that a restore has made and not yet put in its place.
const restoredSuffix = ".restored"

var (
	// ErrInUse is returned where a running etcd has the directory.
	ErrInUse = errors.New("it is in use")
	// ErrNewer is returned where a restore would lose what was written after the backup.
	ErrNewer = errors.New("what is there is newer than the backup")
)

// Backup describes a file that Save has written.
type Backup struct {
	File     string `json:"file"`
	Revision int64  `json:"revision"`
	Keys     int    `json:"keys"`
	Bytes    int64  `json:"bytes"`
	// Etcd is the version of etcd whose format it has.
	Etcd   string `json:"etcd"`
	SHA256 string `json:"sha256"`
}

// Running reports whether an etcd answers in the directory.
func Running(dir string) bool {
	conn, err := net.Dial("unix", filepath.Join(dir, socketName))
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// Save asks the etcd that runs in the directory for a backup, while it goes on serving, and writes it to a file, whole
// or not at all. The file can be read by its owner only: everything that is stored is in it.
func Save(ctx context.Context, dir, file string) (*Backup, error) {
	socket, err := filepath.Abs(filepath.Join(dir, socketName))
	if err != nil {
		return nil, err
	}
	cfg := clientv3.Config{Endpoints: []string{"unix://" + socket}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()}
	if _, err := snapshot.NewV3(zap.NewNop()).Save(ctx, cfg, file); err != nil {
		return nil, fmt.Errorf("the backup %s cannot be written: %w", file, err)
	}
	if err := atomicfile.SyncDir(filepath.Dir(file)); err != nil {
		return nil, fmt.Errorf("the backup %s may not be on disk yet: %w", file, err)
	}
	return Inspect(file)
}

// Inspect reads a backup to its end and checks that it is whole.
func Inspect(file string) (b *Backup, err error) {
	defer func() {
		if p := recover(); p != nil { // bbolt panics over pages that make no sense
			b, err = nil, fmt.Errorf("the backup %s is damaged: %v", file, p)
		}
	}()
	sum, err := checksum(file)
	if err != nil {
		return nil, err
	}
	status, err := snapshot.NewV3(zap.NewNop()).Status(file)
	if err != nil {
		return nil, fmt.Errorf("the backup %s is damaged: %w", file, err)
	}
	return &Backup{File: file, Revision: status.Revision, Keys: status.TotalKey, Bytes: status.TotalSize, Etcd: status.Version, SHA256: sum}, nil
}

// checksum holds a backup against the sum that etcd has appended to it. Without that nobody knows whether it is whole.
func checksum(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	const page = 512 // pages of the database are a multiple of it
	if info.Size()%page != sha256.Size {
		return "", fmt.Errorf("%s has no checksum at its end: it is cut off, or no backup of etcd", file)
	}
	h := sha256.New()
	if _, err := io.CopyN(h, f, info.Size()-sha256.Size); err != nil {
		return "", err
	}
	appended, err := io.ReadAll(f)
	if err != nil {
		return "", err
	}
	if sum := h.Sum(nil); !bytes.Equal(sum, appended) {
		return "", fmt.Errorf("the backup %s is damaged: its checksum is %x, and should be %x", file, sum, appended)
	}
	return hex.EncodeToString(appended), nil
}

// Restoring says how a backup is put in the place of the data.
type Restoring struct {
	// Discard lets a backup replace data that is newer than it.
	Discard bool
	// Bump is added to the revision, so that no client has seen a higher one; what they have seen counts as compacted.
	Bump uint64
	// Now names what was replaced.
	Now time.Time
}

// Restore puts a backup in the place of the data in a directory that nobody uses, and returns where it has put what was
// there, which is kept. A process that dies meanwhile leaves the old data, the new data, or a directory that Start
// refuses.
func Restore(file, dir string, o Restoring) (replaced string, err error) {
	backup, err := Inspect(file)
	if err != nil {
		return "", err
	}
	if err := readable(backup); err != nil {
		return "", err
	}
	revision, exists, err := currentRevision(dir)
	if err != nil {
		return "", err
	}
	if exists && revision > backup.Revision && !o.Discard {
		return "", fmt.Errorf("%w: %s is at revision %d, the backup at %d, and what was written since would be lost", ErrNewer, dir, revision, backup.Revision)
	}
	made := dir + restoredSuffix
	if err := os.RemoveAll(made); err != nil {
		return "", err
	}
	c := (&Etcd{dir: dir, log: newJournal()}).options(Config{}, listener{})
	if err := snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath: file, OutputDataDir: made,
		Name: c.Name, InitialCluster: c.InitialCluster, InitialClusterToken: c.InitialClusterToken, PeerURLs: []string{c.AdvertisePeerUrls[0].String()},
		RevisionBump: o.Bump, MarkCompacted: o.Bump > 0,
	}); err != nil {
		return "", errors.Join(fmt.Errorf("the backup %s cannot be restored: %w", file, err), os.RemoveAll(made))
	}
	if err := os.Chmod(made, 0o700); err != nil {
		return "", err
	}
	if _, err := os.Lstat(dir); err == nil {
		replaced = dir + ".replaced-" + o.Now.UTC().Format("20060102T150405.000Z")
		if err := os.Rename(dir, replaced); err != nil {
			return "", err
		}
	}
	if err := os.Rename(made, dir); err != nil {
		return replaced, err
	}
	return replaced, atomicfile.SyncDir(filepath.Dir(dir))
}

// readable refuses a backup of an etcd that is newer than the one inside.
func readable(b *Backup) error {
	theirs, err := version.ParseGeneric(b.Etcd)
	if err != nil {
		return nil //nolint:nilerr // an etcd that did not say its version is older than 3.6
	}
	ours := version.MustParseGeneric(etcdversion.Version)
	if theirs.Major() > ours.Major() || theirs.Major() == ours.Major() && theirs.Minor() > ours.Minor() {
		return fmt.Errorf("the backup %s is of etcd %s, and the one inside is %s: use a newer release of Proviso", b.File, b.Etcd, etcdversion.Version)
	}
	return nil
}

// currentRevision is the revision of the data in a directory, if there is any.
func currentRevision(dir string) (revision int64, exists bool, err error) {
	if Running(dir) {
		return 0, true, fmt.Errorf("etcd directory %s: %w", dir, ErrInUse)
	}
	path := filepath.Join(dir, "member", "snap", "db")
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return 0, false, nil
	}
	defer func() {
		if p := recover(); p != nil { // what is damaged is what backups are for
			revision, exists, err = 0, true, nil
		}
	}()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	switch {
	case errors.Is(err, bbolt.ErrTimeout):
		return 0, true, fmt.Errorf("etcd directory %s: %w", dir, ErrInUse)
	case err != nil:
		return 0, true, nil // as above
	}
	defer func() { _ = db.Close() }() // nothing was written
	err = db.View(func(tx *bbolt.Tx) error {
		if bucket := tx.Bucket(schema.Key.Name()); bucket != nil {
			if last, _ := bucket.Cursor().Last(); last != nil {
				revision = mvcc.BytesToRev(last).Main
			}
		}
		return nil
	})
	return revision, true, err
}

// checkRestored refuses to begin with an empty store where a restore was interrupted between its two last steps.
func checkRestored(dir string) error {
	made := dir + restoredSuffix
	if _, err := os.Stat(filepath.Join(dir, "member")); !errors.Is(err, os.ErrNotExist) {
		return nil // what it has is served; a restore that did not come so far is without effect
	}
	if _, err := os.Stat(made); err == nil {
		return fmt.Errorf("a restore into %s was interrupted: run `proviso backup restore` again, or remove %s", dir, made)
	}
	return nil
}
