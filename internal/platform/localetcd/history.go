package localetcd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.uber.org/zap"
)

// checkHistory deals with two states that etcd itself starts from and should not.
//
// A database whose log is gone: etcd would begin a new log at zero and skip every write until it has as many entries as
// the old one had: acknowledged, and lost. That is an error.
//
// A log without its first entry, left by a process that was killed while it started for the first time: etcd would wait
// forever for the member that this entry names. Nothing was ever written, so that it is removed.
func checkHistory(dir string) error {
	member := filepath.Join(dir, "member")
	database, log := filepath.Join(member, "snap", "db"), filepath.Join(member, "wal")
	applied, err := appliedIndex(database)
	if err != nil {
		return fmt.Errorf("etcd database %s cannot be read: %w; restore %s from a backup, or remove it to start with an empty store", database, err, dir)
	}
	hasLog := wal.Exist(log)
	if applied > 0 && !hasLog {
		return fmt.Errorf("etcd database %s has data but its log %s is missing; restore %s from a backup, or remove it to start with an empty store", database, log, dir)
	}
	if applied > 0 || !hasLog {
		return nil
	}
	// The database is written some time after the log: that it is empty says nothing about the log.
	if committed, err := committedIndex(log); err != nil || committed > 0 {
		return nil //nolint:nilerr // what is wrong with the log is for etcd to repair or report
	}
	if err := os.RemoveAll(member); err != nil {
		return fmt.Errorf("etcd directory %s holds an unfinished first start that cannot be removed: %w", member, err)
	}
	return nil
}

// appliedIndex is how far in its log a database is; zero if there is none.
func appliedIndex(path string) (index uint64, err error) {
	info, err := os.Stat(path)
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() {
		if p := recover(); p != nil { // bbolt panics over pages that make no sense
			err = fmt.Errorf("it is damaged: %v", p)
		}
	}()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return 0, err
	}
	defer func() { _ = db.Close() }() // nothing was written
	err = db.View(func(tx *bbolt.Tx) error {
		// Reading mapped memory beyond the end of the file would kill the process.
		if tx.Size() > info.Size() {
			return fmt.Errorf("it has %d bytes of at least %d", info.Size(), tx.Size())
		}
		bucket := tx.Bucket(schema.Meta.Name())
		if bucket == nil {
			return nil
		}
		if value := bucket.Get(schema.MetaConsistentIndexKeyName); len(value) == 8 {
			index = binary.BigEndian.Uint64(value)
		}
		return nil
	})
	return index, err
}

// committedIndex is how much of a log is known to be committed. It lags behind by a little, but is above zero from the
// moment the first entry is on disk, which is before any client can write.
func committedIndex(dir string) (index uint64, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it is damaged: %v", p)
		}
	}()
	log, err := wal.OpenForRead(zap.NewNop(), dir, &walpb.Snapshot{})
	if err != nil {
		return 0, err
	}
	defer func() { _ = log.Close() }() // nothing was written
	metadata, state, _, err := log.ReadAll()
	if err != nil {
		return 0, err
	}
	if len(metadata) == 0 {
		return 0, errors.New("it does not begin like a log")
	}
	return state.GetCommit(), nil
}
