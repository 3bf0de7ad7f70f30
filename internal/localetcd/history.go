package localetcd

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// checkHistory refuses a database whose log is gone. etcd would begin a new log at zero and skip every write until it
// has as many entries as the old one had: acknowledged, and lost.
func checkHistory(dir string) error {
	database, log := filepath.Join(dir, "member", "snap", "db"), filepath.Join(dir, "member", "wal")
	if _, err := os.Stat(database); err != nil || wal.Exist(log) {
		return nil
	}
	applied, err := appliedIndex(database)
	if err != nil {
		return fmt.Errorf("etcd database %s cannot be read: %w; restore %s from a backup, or remove it to start with an empty store", database, err, dir)
	}
	// A process that was killed during its first start leaves an empty database without a log.
	if applied == 0 {
		return nil
	}
	return fmt.Errorf("etcd database %s has data but its log %s is missing; restore %s from a backup, or remove it to start with an empty store", database, log, dir)
}

// appliedIndex is how far in its log a database is.
func appliedIndex(path string) (index uint64, err error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.View(func(tx *bbolt.Tx) error {
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
