package fieldfilter

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/hiddenfield"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/readfilter"
	"proviso.dev/proviso/internal/request/requestctx"
)

// sight is what may be hidden of a resource from the caller of a request.
type sight struct {
	ctx     context.Context
	filters *Filters
	holder  *requestctx.State
	attrs   authorizer.Attributes
	// fields are the fields that are hidden, or may be: in some namespaces, or by conditions on the object.
	fields hiddenfield.Set
	// open are the permissions that depend on the object.
	open map[string]bool

	mu       sync.Mutex
	verdicts map[place]authorize.Verdict
}

// place is a permission and the namespace in which it is asked about.
type place struct{ permission, namespace string }

type sightKey struct{}

// sightOf returns what may be hidden from the caller; nil if nothing is. It is computed once per request.
func (f *Filters) sightOf(ctx context.Context) *sight {
	holder := requestctx.From(ctx)
	if holder == nil || holder.Snapshot == nil || !holder.Snapshot.Fields.HidesAny() {
		return nil
	}
	attrs := holder.Attributes()
	if attrs == nil || !attrs.IsResourceRequest() {
		return nil
	}
	s, _ := requestctx.NotesOf(ctx).Keep(sightKey{}, func() any { return f.look(ctx, holder, attrs) }).(*sight)
	return s
}

// look computes what the policy of the holder hides.
func (f *Filters) look(ctx context.Context, holder *requestctx.State, attrs authorizer.Attributes) *sight {
	table := holder.Snapshot.Fields
	candidates := slices.Clone(table.Hidden(fieldperm.Resource{Group: attrs.GetAPIGroup(), Resource: attrs.GetResource()}))
	if len(candidates) == 0 || f.cfg.Gate.SeesAll(ctx, attrs) {
		return nil
	}
	s := &sight{ctx: ctx, filters: f, holder: holder, attrs: attrs, open: map[string]bool{}, verdicts: map[place]authorize.Verdict{}}
	everywhere := attrs.GetNamespace() == "" && holder.Snapshot.Served.Namespaced(schema.GroupResource{Group: attrs.GetAPIGroup(), Resource: attrs.GetResource()})
	for _, h := range candidates {
		switch v := s.ask(h, attrs.GetNamespace()); {
		case v.Answer == authorize.Allowed:
			continue
		case v.Answer == authorize.Open, everywhere:
			s.open[h.Permission] = true
		}
		s.fields = append(s.fields, h)
	}
	if len(s.fields) == 0 {
		return nil
	}
	s.fields = f.inVersion(s.fields, holder.Snapshot.Served, resourceOf(attrs))
	return s
}

// ask asks once per place whether a field may be seen there.
func (s *sight) ask(h fieldperm.Hidden, namespace string) authorize.Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := place{h.Permission, namespace}
	v, known := s.verdicts[at]
	if !known {
		asked := revealing{s.attrs, h.Verb(), namespace}
		v = s.filters.cfg.Gate.Decide(s.ctx, asked)
		s.verdicts[at] = v
		if v.AtAuthorization() == authorizer.DecisionAllow {
			s.filters.cfg.Gate.AnnotateRead(s.ctx, asked, v)
		}
	}
	return v
}

// of returns the fields that are hidden in one object. In doubt, a field is hidden.
func (s *sight) of(o runtime.Object, convert readfilter.Converter) hiddenfield.Set {
	if len(s.open) == 0 {
		return s.fields
	}
	m, err := meta.Accessor(o)
	if err != nil {
		return s.fields
	}
	namespace := m.GetNamespace()
	if namespace == "" {
		namespace = s.attrs.GetNamespace()
	}
	var hidden hiddenfield.Set
	for _, h := range s.fields {
		if !s.open[h.Permission] || !s.reveals(s.ask(h, namespace), o, convert) {
			hidden = append(hidden, h)
		}
	}
	return hidden
}

func (s *sight) reveals(v authorize.Verdict, o runtime.Object, convert readfilter.Converter) bool {
	switch v.Answer {
	case authorize.Allowed:
		return true
	case authorize.Open:
		state := readfilter.State{Holder: s.holder, Attributes: s.attrs, Operation: readfilter.Operation, Object: o, Convert: convert, Namespaces: s.filters.cfg.Namespaces}
		return v.Resolve(s.ctx, readfilter.Facts(s.ctx, state)).Decision == authorizer.DecisionAllow
	}
	return false
}

// same reports whether the current policy hides the same. Conditions of different rules count as different.
func (s *sight) same(rulesChanged bool) bool {
	policy, instant := s.filters.cfg.Store.Now()
	ctx := requestctx.At(s.ctx, policy, instant)
	now := s.filters.look(ctx, requestctx.From(ctx), s.attrs)
	if now == nil {
		return len(s.fields) == 0
	}
	if s.fields.Names() != now.fields.Names() || !slices.Equal(s.fields.Permissions(), now.fields.Permissions()) || !maps.Equal(s.open, now.open) {
		return false
	}
	if len(s.open) == 0 {
		return true
	}
	s.mu.Lock()
	asked := maps.Clone(s.verdicts)
	s.mu.Unlock()
	for at, before := range asked {
		answer := now.ask(fieldperm.Hidden{Permission: at.permission}, at.namespace).Answer
		if answer != before.Answer || answer == authorize.Open && rulesChanged {
			return false
		}
	}
	return true
}

// revealing is the request turned into the question whether its caller sees a field of the whole object.
type revealing struct {
	authorizer.Attributes
	verb, namespace string
}

func (r revealing) GetVerb() string        { return r.verb }
func (r revealing) GetNamespace() string   { return r.namespace }
func (r revealing) GetSubresource() string { return "" }
func (r revealing) IsReadOnly() bool       { return false }
