package policycodec

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// ReadableStorage makes every stored object of our groups readable, whatever bytes are stored. A list fails as a whole
// if one of its objects cannot be decoded, so such bytes would make every other object unreadable. If the bytes do not
// identify the object, the codec cannot help, but the etcd key does. Such an object is shown as quarantined: it can be
// deleted, and a container of roles or bindings denies in its namespace (SV-8).
func ReadableStorage(inner generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	return readableStorage{inner, VersionedScheme(), func(storagebackend.ConfigForResource) runtime.Decoder { return StorageCodec() }}
}

// ReadableStorageOf does the same for kinds of Kubernetes, whose internal and stored versions are in scheme. The
// stand-in for an unreadable object has only a name: for RBAC, a role without rules and a binding without subjects,
// which grant nothing.
func ReadableStorageOf(scheme *runtime.Scheme, inner generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	return readableStorage{inner, scheme, func(c storagebackend.ConfigForResource) runtime.Decoder { return c.Codec }}
}

type readableStorage struct {
	generic.RESTOptionsGetter
	scheme *runtime.Scheme
	codec  func(storagebackend.ConfigForResource) runtime.Decoder
}

func (s readableStorage) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := s.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil {
		return opts, err
	}
	kinds, _, err := s.scheme.ObjectKinds(example)
	if err != nil || len(kinds) == 0 {
		return opts, fmt.Errorf("storage of %s: kind of %T: %w", resource, example, err)
	}
	kind := kinds[0]
	if kind.Version == runtime.APIVersionInternal {
		versions := s.scheme.PrioritizedVersionsForGroup(kind.Group)
		if len(versions) == 0 {
			return opts, fmt.Errorf("storage of %s: no version of group %s is known", resource, kind.Group)
		}
		kind.Version = versions[0].Version
	}
	config := *opts.StorageConfig
	if config.Transformer == nil {
		config.Transformer = identity.NewEncryptCheckTransformer()
	}
	config.Transformer = recovering{Transformer: config.Transformer, scheme: s.scheme, codec: s.codec(config), kind: kind,
		prefix: path.Join("/", config.Prefix, opts.ResourcePrefix) + "/"}
	opts.StorageConfig = &config
	return opts, nil
}

// recovering replaces bytes that do not identify their object.
type recovering struct {
	value.Transformer
	scheme *runtime.Scheme
	codec  runtime.Decoder
	kind   schema.GroupVersionKind
	// prefix is the prefix of the keys of the kind.
	prefix string
}

// Plain returns the transformer without the replacement, for data that is not an object.
func (r recovering) Plain() value.Transformer { return r.Transformer }

func (r recovering) TransformFromStorage(ctx context.Context, data []byte, at value.Context) ([]byte, bool, error) {
	out, stale, err := r.Transformer.TransformFromStorage(ctx, data, at)
	if err != nil {
		return out, stale, err // a key server that is temporarily unavailable says nothing about the object
	}
	namespace, name := r.identity(string(at.AuthenticatedData()))
	why := r.mismatch(out, namespace, name)
	if why == "" {
		return out, stale, nil
	}
	stub := metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: r.kind.GroupVersion().String(), Kind: r.kind.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: stubUID(r.kind.GroupKind(), namespace, name),
			Annotations: map[string]string{policy.AnnotationQuarantined: why, policy.AnnotationUnreadable: why}},
	}
	text, err := json.Marshal(stub)
	return text, false, err
}

// stubUID is the same in every replica and for every read.
func stubUID(kind schema.GroupKind, namespace, name string) types.UID {
	sum := sha256.Sum256([]byte("unreadable " + kind.String() + " " + namespace + "/" + name))
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]))
}

// StandsFor returns why the object stands for stored bytes that cannot be read; empty if it does not. The annotation
// alone proves nothing where users may write annotations.
func StandsFor(kind schema.GroupKind, o metav1.Object) string {
	if o.GetUID() != stubUID(kind, o.GetNamespace(), o.GetName()) {
		return ""
	}
	return o.GetAnnotations()[policy.AnnotationUnreadable]
}

// identity returns the namespace and name in a key.
func (r recovering) identity(key string) (namespace, name string) {
	namespace, name, ok := strings.Cut(strings.TrimPrefix(key, r.prefix), "/")
	if !ok {
		return "", namespace
	}
	return namespace, name
}

// look decodes the bytes to inspect the object.
func (r recovering) look(data []byte) (runtime.Object, error) {
	if c, ok := r.codec.(interface {
		Peek([]byte) (runtime.Object, error)
	}); ok {
		return c.Peek(data)
	}
	obj, _, err := r.codec.Decode(data, nil, nil)
	return obj, err
}

// mismatch returns why the bytes are not the object that their key names; empty if they are.
func (r recovering) mismatch(data []byte, namespace, name string) string {
	obj, err := r.look(data)
	if err != nil {
		return "the stored bytes are not a " + r.kind.Kind + " that this server can decode"
	}
	kinds, _, err := r.scheme.ObjectKinds(obj)
	o, ok := obj.(metav1.Object)
	switch {
	case err != nil || !ok || len(kinds) == 0 || kinds[0].GroupKind() != r.kind.GroupKind():
		return "the stored object is not a " + r.kind.Kind
	case o.GetNamespace() != namespace || o.GetName() != name:
		return fmt.Sprintf("the stored object says that it is %q", o.GetNamespace()+"/"+o.GetName())
	}
	return ""
}
