package source

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/internal/state/policycodec"
	"proviso.dev/proviso/internal/state/snapshot"
)

// FilesConfig says which files are read.
type FilesConfig struct {
	// Paths are files and directories; directories are read recursively: *.yaml, *.yml and *.json.
	Paths []string
	// Texts are read after them.
	Texts []Text
	// MasterNamespace is the namespace whose policy holds everywhere.
	MasterNamespace string
	// Roles and RoleBindings exist unless the files say otherwise, like those that a server creates itself.
	Roles        []*authz.Role
	RoleBindings []*authz.RoleBinding
	// Definitions converts custom resource definitions to the form in which a server stores them; nil leaves them
	// unchanged.
	Definitions Definitions
}

// Definitions knows how definitions of custom resources are stored.
type Definitions interface {
	// Store converts a definition from its written to its stored form.
	Store(definition map[string]any) error
}

// Text is the content of a virtual file.
type Text struct {
	// Name appears in errors.
	Name string
	Data []byte
	// Object is the parsed Data, if that is available: then Data is not parsed.
	Object *unstructured.Unstructured
	// Read caches the typed object, for all readers of the same text.
	Read *Reading
}

// Reading is a typed object, which must not be changed.
type Reading struct{ typed runtime.Object }

// IsTest reports whether a file holds tests of policy, not policy.
func IsTest(name string) bool {
	return strings.HasSuffix(name, ".test.yaml") || strings.HasSuffix(name, ".test.yml")
}

// Files is policy from files: manifests, or a dump of a cluster (`kubectl get -o yaml`). It does not change after it
// was read.
type Files struct {
	objects map[schema.GroupVersionResource]*fixed
	// Others are the objects of kinds that are not policy, in the order of the files.
	Others []*unstructured.Unstructured
	// Served are lists of what a server serves, if the files hold some (`kubectl get --raw /apis/apps/v1`).
	Served []*metav1.APIResourceList

	definitions Definitions

	own   map[any]bool // objects that were created here, and are not shared
	base  *Files
	index *ruleset.Index
}

// From records that the files were derived from others, for which an index was built.
func (f *Files) From(base *Files, index *ruleset.Index) { f.base, f.index = base, index }

// Base implements snapshot.Based.
func (f *Files) Base() (snapshot.Source, *ruleset.Index) {
	if f.base == nil {
		return nil, nil
	}
	return f.base, f.index
}

var (
	_ snapshot.Source = (*Files)(nil)
	_ snapshot.Based  = (*Files)(nil)
)

// ReadFiles reads all of them. Anything unreadable is an error, with its position: half a policy is not a policy.
func ReadFiles(cfg FilesConfig) (*Files, error) {
	f := &Files{objects: map[schema.GroupVersionResource]*fixed{}, own: map[any]bool{}, definitions: cfg.Definitions}
	views := &views{cfg: cfg}
	for _, path := range cfg.Paths {
		names, err := filesBelow(path)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			if err := f.read(name, data, views); err != nil {
				return nil, err
			}
		}
	}
	for _, text := range cfg.Texts {
		var err error
		if text.Object == nil {
			err = f.read(text.Name, text.Data, views)
		} else if err = f.object(text.Object, text.Read, views); err != nil {
			err = fmt.Errorf("%s: %w", text.Name, err)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := views.fold(f); err != nil {
		return nil, err
	}
	f.place()
	return f, f.aggregate()
}

// place does what the server does when it stores a policy object: it assigns the object to the current namespace of
// that name. An object from a dump already has its namespace.
func (f *Files) place() {
	for _, kind := range []snapshot.Kind{snapshot.Policies, snapshot.PolicyBindings, snapshot.ProtectedAttributes} {
		all := f.objects[kind.GroupVersionResource]
		if all == nil {
			continue
		}
		for _, obj := range all.List() {
			object, err := meta.Accessor(obj)
			if err != nil || object.GetUID() != "" || object.GetAnnotations()[policyv1alpha1.AnnotationNamespaceUID] != "" {
				continue
			}
			made := object.GetCreationTimestamp()
			if live, err := f.Namespace(object.GetNamespace()); err == nil && live.UID != "" && made.IsZero() {
				annotations := maps.Clone(object.GetAnnotations())
				if annotations == nil {
					annotations = map[string]string{}
				}
				annotations[policyv1alpha1.AnnotationNamespaceUID] = string(live.UID)
				if object, err = f.mine(all, obj); err == nil {
					object.SetAnnotations(annotations)
				}
			}
		}
	}
}

// mine returns an object that may be changed: a copy, unless it was created here.
func (f *Files) mine(all *fixed, obj any) (metav1.Object, error) {
	if !f.own[obj] {
		object, ok := obj.(runtime.Object)
		if !ok {
			return nil, fmt.Errorf("%T is not an API object", obj)
		}
		obj = object.DeepCopyObject()
		if f.own[obj] = true; all.Update(obj) != nil {
			return nil, fmt.Errorf("%T cannot be kept", obj)
		}
	}
	return meta.Accessor(obj)
}

func filesBelow(path string) (names []string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	err = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !IsTest(name) && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
			names = append(names, name)
		}
		return err
	})
	return names, err
}

// read adds the documents of one file.
func (f *Files) read(name string, data []byte, views *views) error {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = f.document(document, views)
		}
		if err != nil {
			return fmt.Errorf("%s, document %d: %w", name, n, err)
		}
	}
}

func (f *Files) document(document []byte, views *views) error {
	content, err := Decode(document)
	if err != nil || len(content) == 0 { // only a comment
		return err
	}
	return f.object(&unstructured.Unstructured{Object: content}, nil, views)
}

// Decode reads one document, in which fields must not be duplicate. JSON, as in dumps and from servers, takes a tenth
// of the time.
func Decode(document []byte) (content map[string]any, err error) {
	if bytes.HasPrefix(bytes.TrimSpace(document), []byte("{")) {
		if twice, err := kjson.UnmarshalStrict(document, &content); err == nil {
			return content, errors.Join(twice...)
		}
		content = nil // it may be YAML all the same
	}
	if err = yaml.UnmarshalStrict(document, &content); err != nil {
		var other any
		if yaml.Unmarshal(document, &other) == nil {
			if _, object := other.(map[string]any); !object {
				return nil, errors.New("this is not an object: want apiVersion, kind and metadata")
			}
		}
	}
	return content, err
}

func (f *Files) object(object *unstructured.Unstructured, read *Reading, views *views) error {
	switch {
	case object.GetKind() == "":
		return errors.New("this is not a Kubernetes object: it has no kind")
	case object.GetKind() == "APIResourceList":
		list := &metav1.APIResourceList{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, list); err != nil {
			return err
		}
		f.Served = append(f.Served, list)
		return nil
	case object.IsList() && strings.HasSuffix(object.GetKind(), "List"):
		return object.EachListItem(func(item runtime.Object) error {
			return f.add(item.(*unstructured.Unstructured), nil, views)
		})
	}
	return f.add(object, read, views)
}

// schemes know the kinds of policy objects.
var schemes = sync.OnceValue(func() []*runtime.Scheme {
	extensions := runtime.NewScheme()
	utilruntime.Must(apiextensionsv1.AddToScheme(extensions))
	return []*runtime.Scheme{policycodec.VersionedScheme(), kubescheme.Scheme, extensions}
})

// add adds one object. An object of a policy group must be understood.
func (f *Files) add(object *unstructured.Unstructured, read *Reading, views *views) error {
	if read == nil {
		read = &Reading{}
	}
	if read.typed == nil {
		object, err := f.stored(object)
		if err != nil {
			return err
		}
		typed, err := understand(object)
		if err != nil {
			return err
		}
		read.typed = typed
	}
	if read.typed == nil || views.take(read.typed) {
		if read.typed == nil {
			f.Others = append(f.Others, object)
		}
		return nil
	}
	if kind, ok := kindOf()[reflect.TypeOf(read.typed)]; ok {
		return f.put(kind, read.typed)
	}
	f.Others = append(f.Others, object)
	return nil
}

// stored returns an object in the form in which a server stores it.
func (f *Files) stored(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if f.definitions == nil || object.GroupVersionKind().GroupKind() != (schema.GroupKind{Group: apiextensionsv1.GroupName, Kind: "CustomResourceDefinition"}) {
		return object, nil
	}
	object = object.DeepCopy()
	if err := f.definitions.Store(object.Object); err != nil {
		return nil, fmt.Errorf("CustomResourceDefinition %s: %w", object.GetName(), err)
	}
	return object, nil
}

// kindOf maps Go types to kinds.
var kindOf = sync.OnceValue(func() map[reflect.Type]snapshot.Kind {
	kinds := map[reflect.Type]snapshot.Kind{}
	for _, kind := range snapshot.Kinds() {
		kinds[reflect.TypeOf(kind.Example)] = kind
	}
	return kinds
})

// understand reads an object; nil if its kind is not policy.
func understand(object *unstructured.Unstructured) (runtime.Object, error) {
	gvk := object.GroupVersionKind()
	for _, scheme := range schemes() {
		if !scheme.Recognizes(gvk) {
			continue
		}
		typed, err := scheme.New(gvk)
		if err != nil {
			return nil, err
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true); err != nil {
			return nil, fmt.Errorf("%s %s: %w", gvk.Kind, object.GetName(), err)
		}
		scheme.Default(typed)
		DefaultRBAC(typed)
		if ns, is := typed.(*corev1.Namespace); is {
			metav1.SetMetaDataLabel(&ns.ObjectMeta, corev1.LabelMetadataName, ns.Name) // as a server does
		}
		return typed, nil
	}
	if slices.Contains(append(policycodec.Groups(), rbacv1.GroupName, apiextensionsv1.GroupName), gvk.Group) {
		return nil, fmt.Errorf("%s %s: %s of %s is not known to this version", gvk.Kind, object.GetName(), gvk.Kind, gvk.GroupVersion())
	}
	return nil, nil
}

// DefaultRBAC applies the server's defaults.
func DefaultRBAC(obj runtime.Object) {
	settle := func(ref *rbacv1.RoleRef, subjects []rbacv1.Subject) {
		ref.APIGroup = cmp.Or(ref.APIGroup, rbacv1.GroupName)
		for i := range subjects {
			if subjects[i].Kind != rbacv1.ServiceAccountKind {
				subjects[i].APIGroup = cmp.Or(subjects[i].APIGroup, rbacv1.GroupName)
			}
		}
	}
	switch b := obj.(type) {
	case *rbacv1.RoleBinding:
		settle(&b.RoleRef, b.Subjects)
	case *rbacv1.ClusterRoleBinding:
		settle(&b.RoleRef, b.Subjects)
	}
}

func (f *Files) put(kind snapshot.Kind, obj runtime.Object) error {
	objects := f.objects[kind.GroupVersionResource]
	if objects == nil {
		objects = &fixed{cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
		f.objects[kind.GroupVersionResource] = objects
	}
	if _, twice, err := objects.Get(obj); err != nil || twice {
		m, _ := meta.Accessor(obj)
		return errors.Join(err, fmt.Errorf("%s %s/%s is there twice", kind.Resource, m.GetNamespace(), m.GetName()))
	}
	return objects.Add(obj)
}

// Objects implements snapshot.Source. Namespaces count only in a dump: in manifests nothing has been made yet that
// could have outlived its namespace, and most do not have the namespaces with them.
func (f *Files) Objects(kind snapshot.Kind) (snapshot.Objects, error) {
	objects := f.objects[kind.GroupVersionResource]
	if objects == nil || kind == snapshot.Namespaces && !objects.wereStored() {
		return nil, nil
	}
	return objects, nil
}

// Namespace finds a namespace by its name.
func (f *Files) Namespace(name string) (*corev1.Namespace, error) {
	if all := f.objects[snapshot.Namespaces.GroupVersionResource]; all != nil {
		if obj, exists, err := all.GetByKey(name); err == nil && exists {
			return obj.(*corev1.Namespace), nil
		}
	}
	return nil, fmt.Errorf("namespace %q is not in the files", name)
}

// Namespaces are the namespaces in the files, of manifests as well as of a dump, by name.
func (f *Files) Namespaces() map[string]*corev1.Namespace {
	all := map[string]*corev1.Namespace{}
	if objects := f.objects[snapshot.Namespaces.GroupVersionResource]; objects != nil {
		for _, ns := range snapshot.Of[*corev1.Namespace](objects) {
			all[ns.Name] = ns
		}
	}
	return all
}

// fixed are objects that do not change.
type fixed struct{ cache.Indexer }

// wereStored reports whether objects come from a dump and not from a manifest.
func (f *fixed) wereStored() bool {
	return !slices.ContainsFunc(f.List(), func(obj any) bool {
		m, err := meta.Accessor(obj)
		return err != nil || m.GetUID() == ""
	})
}

// AddEventHandler implements snapshot.Objects: the handler hears of every object before it returns.
func (f *fixed) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	for _, obj := range f.List() {
		handler.OnAdd(obj, true)
	}
	return delivered{}, nil
}

// GetIndexer implements snapshot.Objects.
func (f *fixed) GetIndexer() cache.Indexer { return f.Indexer }

// delivered is the registration of a handler that has received everything.
type delivered struct{}

func (delivered) HasSynced() bool { return true }

// HasSyncedChecker implements cache.ResourceEventHandlerRegistration.
func (delivered) HasSyncedChecker() cache.DoneChecker { return delivered{} }

// Name implements cache.DoneChecker.
func (delivered) Name() string { return "files" }

// Done implements cache.DoneChecker.
func (delivered) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}
