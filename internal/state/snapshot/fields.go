package snapshot

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
)

// FieldsConfig configures the table of field permissions.
type FieldsConfig struct {
	// Source has the declarations at run time and the definitions of custom resources.
	Source Source
	// Read returns what a definition declares.
	Read func(definition any) CustomFields
	// Expressions compiles CEL. Like CompileRule of rules, it must be fast.
	Expressions fieldperm.Expressions
	// Kept is what else Read looks at; may be nil.
	Kept Kept
	// Warmer compiles expressions before requests need them; nil leaves it to the requests.
	Warmer *Warmer
}

// Kept is what was declared before.
type Kept interface {
	HasSynced() bool
	OnChange(func())
}

// CustomFields is what the definition of a custom resource declares about field permissions.
type CustomFields struct {
	Declared []fieldperm.Declaration
	// Resource has its scale field at Scale, which may differ between versions; nil if it has none.
	Resource fieldperm.Resource
	Scale    []fieldperm.Path
	// ShownInScale are all fields that its scale subresource shows.
	ShownInScale []fieldperm.Path
	// Templates are the pod templates in its objects.
	Templates []fieldperm.Template
	// Problem is set if some declarations cannot be read; the readable ones are included. It is unknown which fields
	// the others withhold, so writing the resource then requires a right that is granted for the whole cluster.
	Problem string
}

func (c CustomFields) isEmpty() bool {
	return len(c.Declared) == 0 && c.Scale == nil && len(c.ShownInScale) == 0 && len(c.Templates) == 0 && c.Problem == ""
}

// Fields is the part with the table of field permissions. Custom resource definitions change often, mostly in
// irrelevant ways, so only their declarations are compared.
type Fields struct {
	cfg    FieldsConfig
	synced []cache.InformerSynced
	dirty  atomic.Bool
	table  *fieldperm.Table
	shadow []ShadowFields
	issues []fieldperm.Issue
	// version is the version of the definitions when they were last read, and declared what was found then.
	version  string
	declared map[string]declared
	// permissions and definitions are nil if there are none.
	permissions, definitions Objects
}

// NewFields registers with the source. changed is called after every event.
func NewFields(cfg FieldsConfig, changed func()) (*Fields, error) {
	f := &Fields{cfg: cfg}
	var err error
	if f.permissions, err = cfg.Source.Objects(FieldPermissions); err != nil {
		return nil, err
	}
	if f.definitions, err = cfg.Source.Objects(Definitions); err != nil {
		return nil, err
	}
	f.dirty.Store(true)
	touch := func(any) {
		f.dirty.Store(true)
		changed()
	}
	declares := func(definition any) {
		if gone, ok := definition.(cache.DeletedFinalStateUnknown); ok {
			definition = gone.Obj
		}
		if !cfg.Read(definition).isEmpty() {
			touch(definition)
		}
	}
	registrations := []struct {
		objects  Objects
		handlers cache.ResourceEventHandlerFuncs
	}{
		{f.permissions, cache.ResourceEventHandlerFuncs{AddFunc: touch, UpdateFunc: func(_, obj any) { touch(obj) }, DeleteFunc: touch}},
		{f.definitions, cache.ResourceEventHandlerFuncs{AddFunc: declares, DeleteFunc: declares, UpdateFunc: func(old, new any) {
			if !reflect.DeepEqual(cfg.Read(old), cfg.Read(new)) {
				touch(new)
			}
		}}},
	}
	for _, r := range registrations {
		if r.objects == nil {
			continue
		}
		registration, err := r.objects.AddEventHandler(r.handlers)
		if err != nil {
			return nil, err
		}
		f.synced = append(f.synced, registration.HasSynced)
	}
	if cfg.Kept != nil {
		cfg.Kept.OnChange(func() { touch(nil) })
		f.synced = append(f.synced, cfg.Kept.HasSynced)
	}
	if cfg.Warmer != nil {
		cfg.Warmer.OnBroken(func() { touch(nil) })
	}
	return f, nil
}

// Name implements Part.
func (f *Fields) Name() string { return "field permissions" }

// HasSynced implements Part.
func (f *Fields) HasSynced() bool {
	for _, synced := range f.synced {
		if !synced() {
			return false
		}
	}
	return true
}

// Apply implements Part. A declaration that does not compile is reported, covers nothing and excludes what it says.
func (f *Fields) Apply(next *Snapshot) {
	if !f.HasSynced() {
		next.Fields = f.table
		return
	}
	if dirty := f.dirty.Swap(false); f.redeclared() || dirty {
		f.build()
		if f.cfg.Warmer != nil {
			f.cfg.Warmer.Wake()
		}
	}
	next.Fields, next.Shadow.Fields = f.table, f.shadow
}

// declared is what one version of a definition declares.
type declared struct {
	of     *apiextensionsv1.CustomResourceDefinition
	fields CustomFields
}

// redeclared reports whether the definitions declare something else than when they were last read. Their events come
// through a queue, so only the definitions themselves show what has arrived (TR-13).
func (f *Fields) redeclared() (changed bool) {
	if f.definitions == nil {
		return false
	}
	version := f.definitions.GetIndexer().LastStoreSyncResourceVersion() // before they are listed
	if version == f.version && f.declared != nil {
		return false
	}
	now := map[string]declared{}
	for _, definition := range Of[*apiextensionsv1.CustomResourceDefinition](f.definitions) {
		known, found := f.declared[definition.Name]
		if !found || known.of != definition {
			before := known.fields
			known = declared{definition, f.cfg.Read(definition)}
			changed = changed || !reflect.DeepEqual(before, known.fields)
		}
		now[definition.Name] = known
	}
	for name, known := range f.declared {
		if _, still := now[name]; !still && !known.fields.isEmpty() {
			changed = true
		}
	}
	f.version, f.declared = version, now
	return changed
}

func (f *Fields) build() {
	cfg := fieldperm.Config{Expressions: f.cfg.Expressions, Scaled: map[fieldperm.Resource][]fieldperm.Path{}, ShownInScale: map[fieldperm.Resource][]fieldperm.Path{}}
	var shadowed []*policyv1alpha1.FieldPermission
	for _, p := range Of[*policyv1alpha1.FieldPermission](f.permissions) {
		if p.Shadowed() {
			shadowed = append(shadowed, p)
		} else {
			cfg.FieldPermissions = append(cfg.FieldPermissions, p)
		}
	}
	var unreadable []fieldperm.Issue
	definitions := Of[*apiextensionsv1.CustomResourceDefinition](f.definitions)
	slices.SortFunc(definitions, func(a, b *apiextensionsv1.CustomResourceDefinition) int { return cmp.Compare(a.Name, b.Name) })
	for _, definition := range definitions {
		known := f.declared[definition.Name]
		if known.of != definition {
			known.fields = f.cfg.Read(definition)
		}
		custom := known.fields
		cfg.Declared = append(cfg.Declared, custom.Declared...)
		cfg.Templates = append(cfg.Templates, custom.Templates...)
		if custom.Scale != nil {
			cfg.Scaled[custom.Resource] = custom.Scale
		}
		if len(custom.ShownInScale) > 0 {
			cfg.ShownInScale[custom.Resource] = custom.ShownInScale
		}
		if custom.Problem != "" {
			unreadable = append(unreadable, fieldperm.Issue{Source: definition.Name, Message: custom.Problem})
			cfg.Unreadable = append(cfg.Unreadable, fieldperm.Unreadable{Source: fmt.Sprintf("CustomResourceDefinition %q", definition.Name), Resource: custom.Resource})
		}
	}
	table, issues := fieldperm.New(cfg)
	issues = append(issues, unreadable...)
	if !reflect.DeepEqual(issues, f.issues) {
		for _, issue := range issues {
			klog.InfoS("Field permission has no effect, or only a part of it", "source", issue.Source, "reason", issue.Message)
		}
	}
	f.table, f.issues, f.shadow = table, issues, newShadowFields(cfg, shadowed)
}
