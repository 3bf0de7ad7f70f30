package journal

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/value"
)

// Verbs of an entry.
const (
	Create = "create"
	Update = "update"
	Delete = "delete"
)

// Path serves the journal. It shows each caller the changes of objects that they may get.
const Path = "/proviso/policy/history"

// Entry is one change of one object.
type Entry struct {
	// Revision is the revision of the change. It is 0 if the server ended, or lost etcd, before it knew: then only the
	// object shows whether the change was made.
	Revision uint64 `json:"revision,omitempty"`
	// Time is when the change began, and User and Groups are its author. AuditID is the audit ID of the request.
	Time    time.Time `json:"time"`
	User    string    `json:"user"`
	Groups  []string  `json:"groups,omitempty"`
	AuditID string    `json:"auditID,omitempty"`

	Verb      string `json:"verb"`
	Group     string `json:"apiGroup"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`

	// Before and After are the object without the fields that the server manages; nil if it did not exist, or if they
	// are too large to be kept.
	Before   json.RawMessage `json:"before,omitempty"`
	After    json.RawMessage `json:"after,omitempty"`
	TooLarge bool            `json:"tooLarge,omitempty"`

	// written is the revision of the entry itself, which orders entries without a revision of their change.
	written uint64
}

// At returns the position of an entry in the order of changes.
func (e *Entry) At() uint64 { return cmp.Or(e.Revision, e.written) }

// Key names the object.
func (e *Entry) Key() string {
	return fmt.Sprintf("%s/%s/%s", schema.GroupResource{Group: e.Group, Resource: e.Resource}, e.Namespace, e.Name)
}

// Version returns the API version of the object in the entry.
func (e *Entry) Version() string {
	return kept[schema.GroupResource{Group: e.Group, Resource: e.Resource}]
}

// History is the response with the journal.
type History struct {
	Kind       string  `json:"kind"`
	APIVersion string  `json:"apiVersion"`
	Entries    []Entry `json:"entries"`
	// Hidden counts the entries about objects that the caller may not get, and Unreadable those that this server cannot
	// read.
	Hidden int `json:"hidden,omitempty"`
	// Partial is set for callers who may not read all policy. They are not told how many changes they do not see.
	Partial    bool `json:"partial,omitempty"`
	Unreadable int  `json:"unreadable,omitempty"`
}

// content returns an object for an entry: in the version that people write, without status, managed fields and what
// changes with every write.
func content(convert Converter, version schema.GroupVersion, obj runtime.Object) (json.RawMessage, error) {
	if obj == nil {
		return nil, nil
	}
	versioned, err := convert.ConvertToVersion(obj, version)
	if err != nil {
		return nil, err
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(versioned)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: fields}
	if gvk := versioned.GetObjectKind().GroupVersionKind(); !gvk.Empty() {
		object.SetGroupVersionKind(gvk)
	}
	delete(fields, "status")
	for _, field := range []string{"managedFields", "resourceVersion", "generation", "selfLink"} {
		unstructured.RemoveNestedField(fields, "metadata", field)
	}
	return json.Marshal(fields)
}

// maxBytes is the maximum size of an entry in etcd. etcd can hold a journal full of such entries.
const maxBytes = 256 << 10

// sealed returns an entry as it is stored: compressed, and encrypted like its resource.
func sealed(ctx context.Context, e *Entry, transform value.Transformer, key string) ([]byte, error) {
	data, err := packed(e)
	if err == nil && len(data) > maxBytes {
		small := *e
		small.Before, small.After, small.TooLarge = nil, nil, true
		data, err = packed(&small)
	}
	if err != nil {
		return nil, err
	}
	return transform.TransformToStorage(ctx, data, value.DefaultContext(key))
}

// packers are reused: one takes most of a megabyte, and a change is packed twice.
var packers = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

func packed(e *Entry) ([]byte, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	pack, _ := packers.Get().(*gzip.Writer)
	defer packers.Put(pack)
	pack.Reset(&out)
	if _, err := pack.Write(text); err != nil {
		return nil, err
	}
	err = pack.Close()
	return out.Bytes(), err
}

// maxUnpacked bounds the size of an unpacked entry.
const maxUnpacked = 16 << 20

func unpacked(data []byte) (e Entry, err error) {
	unpack, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return e, err
	}
	text, err := io.ReadAll(io.LimitReader(unpack, maxUnpacked))
	if err != nil {
		return e, err
	}
	return e, json.Unmarshal(text, &e)
}
