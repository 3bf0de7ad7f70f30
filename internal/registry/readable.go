package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"

	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// ReadableStorage lets every stored object of our groups be read, whatever bytes are stored. A list fails as a whole if one of its
// objects cannot be decoded, so that such bytes would keep every other object from being read. The codec cannot help where the
// bytes do not tell which object they are; their key does. Such an object is shown as one that is quarantined: it can be deleted,
// and a container of roles or bindings denies to its namespace (SV-8).
func ReadableStorage(inner generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	return readableStorage{inner}
}

type readableStorage struct{ generic.RESTOptionsGetter }

func (s readableStorage) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := s.RESTOptionsGetter.GetRESTOptions(resource, example)
	if err != nil {
		return opts, err
	}
	kinds, _, err := VersionedScheme().ObjectKinds(example)
	if err != nil || len(kinds) == 0 {
		return opts, fmt.Errorf("storage of %s: kind of %T: %w", resource, example, err)
	}
	config := *opts.StorageConfig
	if config.Transformer == nil {
		config.Transformer = identity.NewEncryptCheckTransformer()
	}
	config.Transformer = recovering{config.Transformer, kinds[0], opts.ResourcePrefix}
	opts.StorageConfig = &config
	return opts, nil
}

// recovering replaces what does not tell which object it is.
type recovering struct {
	value.Transformer
	kind   schema.GroupVersionKind
	prefix string
}

func (r recovering) TransformFromStorage(ctx context.Context, data []byte, at value.Context) ([]byte, bool, error) {
	out, stale, err := r.Transformer.TransformFromStorage(ctx, data, at)
	if err != nil {
		return out, stale, err // a key server that is away for a while says nothing about the object
	}
	namespace, name := r.identity(string(at.AuthenticatedData()))
	why := r.mismatch(out, namespace, name)
	if why == "" {
		return out, stale, nil
	}
	stub := metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: r.kind.GroupVersion().String(), Kind: r.kind.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
			Annotations: map[string]string{policy.AnnotationQuarantined: why, policy.AnnotationUnreadable: why}},
	}
	text, err := json.Marshal(stub)
	return text, false, err
}

// identity is the namespace and name that a key is of.
func (r recovering) identity(key string) (namespace, name string) {
	if i := strings.LastIndex(key, strings.TrimSuffix(r.prefix, "/")+"/"); i >= 0 {
		key = key[i+len(strings.TrimSuffix(r.prefix, "/"))+1:]
	}
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		return "", namespace
	}
	return namespace, name
}

// mismatch says why the bytes are not the object that their key says; empty if they are.
func (r recovering) mismatch(data []byte, namespace, name string) string {
	obj, _, err := StorageCodec().Decode(data, nil, nil)
	if err != nil {
		return "the stored bytes are no " + r.kind.Kind + " that this server can decode"
	}
	kinds, _, err := VersionedScheme().ObjectKinds(obj)
	o, ok := obj.(metav1.Object)
	switch {
	case err != nil || !ok || len(kinds) == 0 || kinds[0] != r.kind:
		return "the stored object is no " + r.kind.Kind
	case o.GetNamespace() != namespace || o.GetName() != name:
		return fmt.Sprintf("the stored object says that it is %q", o.GetNamespace()+"/"+o.GetName())
	}
	return ""
}
