package fieldfilter

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/hiddenfield"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/readfilter"
	"proviso.dev/proviso/internal/state/discovery"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Config configures the filters.
type Config struct {
	Gate  *authorize.Gate
	Store *snapshot.Store
	// Codecs write errors.
	Codecs runtime.NegotiatedSerializer
	// Namespaces finds a namespace for conditions that look at it; nil lets those conditions fail.
	Namespaces authorize.Namespaces
	// Served knows what this process serves.
	Served authorize.Local
	// Lists knows the fields that identify the elements of a list.
	Lists Lists
	// MaxBody bounds the patches that are read.
	MaxBody int64
}

// Lists knows the fields that identify the elements of a list of a kind; none if no schema says so.
type Lists interface {
	ListKeys(kind schema.GroupVersionKind, list fieldperm.Path) []string
}

// Filters hide fields.
type Filters struct {
	cfg     Config
	watches *watches
	sights  *readfilter.Sights

	mu sync.RWMutex
	// schemes are the schemes of built-in resources.
	schemes map[schema.GroupResource]*scheme
}

// scheme converts and encodes the objects of built-in resources.
type scheme struct {
	*runtime.Scheme
	codecs serializer.CodecFactory
}

// New returns the filters.
func New(cfg Config) *Filters {
	return &Filters{cfg: cfg, watches: newWatches(), sights: readfilter.NewSights(cfg.Store), schemes: map[schema.GroupResource]*scheme{}}
}

// schemeOf returns nil for custom resources.
func (f *Filters) schemeOf(resource schema.GroupResource) *scheme {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.schemes[discovery.StoredAs(resource)]
}

func (s *scheme) converter() readfilter.Converter {
	if s == nil {
		return nil
	}
	return s
}

// ConvertToVersion implements readfilter.Converter.
func (s *scheme) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	return s.byHub(in, target, s.Scheme.ConvertToVersion)
}

// UnsafeConvertToVersion implements readfilter.Converter.
func (s *scheme) UnsafeConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	return s.byHub(in, target, s.Scheme.UnsafeConvertToVersion)
}

// byHub converts. Upstream has no functions that convert one served version to another, which is what the response to a
// write may need: they convert to and from the internal version.
func (s *scheme) byHub(in runtime.Object, target runtime.GroupVersioner, convert func(runtime.Object, runtime.GroupVersioner) (runtime.Object, error)) (runtime.Object, error) {
	kinds, _, err := s.ObjectKinds(in)
	if err != nil {
		return nil, err
	}
	internal := schema.GroupVersion{Group: kinds[0].Group, Version: runtime.APIVersionInternal}
	if from := kinds[0].GroupVersion(); from != internal && from != target {
		if in, err = convert(in, internal); err != nil {
			return nil, err
		}
	}
	return convert(in, target)
}

func resourceOf(attrs authorizer.Attributes) schema.GroupResource {
	return schema.GroupResource{Group: attrs.GetAPIGroup(), Resource: attrs.GetResource()}
}

// inVersion records in which version the fields of a resource are declared, unless all versions have them in the same
// places, as those of a custom resource without a conversion webhook do.
func (f *Filters) inVersion(hidden hiddenfield.Set, served *snapshot.Served, resource schema.GroupResource) hiddenfield.Set {
	if f.schemeOf(resource) == nil && !served.Converted(resource) {
		return hidden
	}
	kind := schema.GroupKind{Group: resource.Group, Kind: served.OwnKind(resource)}
	return hidden.In(schema.GroupVersion{Group: resource.Group, Version: served.PreferredVersion(kind)}.String())
}

// kind returns the kind of the resource in the version that fields are declared for.
func (s *sight) kind() (schema.GroupVersionKind, error) {
	served := s.holder.Snapshot.Served
	kind := schema.GroupKind{Group: s.attrs.GetAPIGroup(), Kind: served.OwnKind(resourceOf(s.attrs))}
	version := served.PreferredVersion(kind)
	if version == "" {
		return schema.GroupVersionKind{}, fmt.Errorf("the resource %s is not known to be served", resourceOf(s.attrs))
	}
	return kind.WithVersion(version), nil
}

// show returns an object as the caller sees it, in the form in which it came.
func (s *sight) show(o runtime.Object, by *scheme, memo *hiddenfield.Memo) (runtime.Object, error) {
	hidden := s.of(o, by.converter())
	if len(hidden) == 0 {
		return o, nil
	}
	if by == nil {
		return hidden.Show(o, memo)
	}
	versioned, back, err := s.declared(o, by)
	if err != nil {
		return nil, err
	}
	shown, err := hidden.Show(versioned, memo)
	if err != nil {
		return nil, err
	}
	return back(shown)
}

// declared returns an object in the version that fields are declared for, and a function to convert it back. The object
// must not be changed.
func (s *sight) declared(o runtime.Object, by *scheme) (runtime.Object, func(runtime.Object) (runtime.Object, error), error) {
	kind, err := s.kind()
	if err != nil {
		return nil, nil, err
	}
	kinds, _, err := by.ObjectKinds(o)
	if err != nil {
		return nil, nil, err
	}
	own := o.GetObjectKind().GroupVersionKind()
	was := kinds[0].GroupVersion()
	if own.Version != "" {
		was = own.GroupVersion()
	}
	versioned, err := by.UnsafeConvertToVersion(o, kind.GroupVersion())
	if err != nil {
		return nil, nil, err
	}
	return versioned, func(shown runtime.Object) (runtime.Object, error) {
		out, err := by.UnsafeConvertToVersion(shown, was)
		if err == nil {
			out.GetObjectKind().SetGroupVersionKind(own)
		}
		return out, err
	}, nil
}
