package localetcd

import (
	"fmt"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"google.golang.org/protobuf/proto"
)

// Stored reads the newest value of every key of a backup that want names and that was not deleted.
func Stored(file string, want func(key string) bool) (values map[string][]byte, err error) {
	defer func() {
		if p := recover(); p != nil { // bbolt panics over pages that make no sense
			values, err = nil, fmt.Errorf("the backup %s is damaged: %v", file, p)
		}
	}()
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return nil, fmt.Errorf("the backup %s cannot be opened: %w", file, err)
	}
	defer func() { _ = db.Close() }() // nothing was written
	values = map[string][]byte{}
	err = db.View(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(schema.Key.Name())
		if bucket == nil {
			return fmt.Errorf("the backup %s has no keys", file)
		}
		return bucket.ForEach(func(_, entry []byte) error { // in the order in which they were written
			var kv mvccpb.KeyValue
			if err := proto.Unmarshal(entry, &kv); err != nil {
				return fmt.Errorf("the backup %s is damaged: %w", file, err)
			}
			switch key := string(kv.Key); {
			case !want(key):
			case kv.ModRevision == 0: // it was deleted
				delete(values, key)
			default:
				values[key] = kv.Value
			}
			return nil
		})
	})
	return values, err
}
