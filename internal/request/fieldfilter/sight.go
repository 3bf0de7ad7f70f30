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

	"proviso.dev/proviso/internal/engine/access"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/hiddenfield"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/readfilter"
	"proviso.dev/proviso/internal/request/requestctx"
)

// maxPlaces is how many answers a sight remembers.
const maxPlaces = 1000

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

	mu sync.Mutex
	// answers are what was asked, and conditions the verdicts among them that depend on the object.
	answers    map[place]authorize.Answer
	conditions map[place]authorize.Verdict
	// forgot is true if there were more places than are remembered.
	forgot bool
	// grants are those that show what would be hidden without them.
	grants []*access.Grant
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
	s := &sight{ctx: ctx, filters: f, holder: holder, attrs: attrs, open: map[string]bool{}}
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

// ask asks once per place whether a field may be seen there, as long as the place is remembered.
func (s *sight) ask(h fieldperm.Hidden, namespace string) authorize.Verdict {
	at := place{h.Permission, namespace}
	if v, known := s.recall(at); known {
		return v
	}
	asked := revealing{s.attrs, h.Verb(), namespace}
	v := s.filters.cfg.Gate.Decide(s.ctx, asked) // without the lock: a webhook may be slow
	var grants []*access.Grant
	if v.AtAuthorization() == authorizer.DecisionAllow {
		grants = s.filters.cfg.Gate.AnnotateRead(s.ctx, asked, v)
	}
	s.remember(at, v, grants)
	return v
}

func (s *sight) recall(at place) (authorize.Verdict, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, known := s.answers[at]
	if known && answer == authorize.Open {
		return s.conditions[at], true
	}
	return authorize.Verdict{Answer: answer}, known
}

func (s *sight) remember(at place, v authorize.Verdict, grants []*access.Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.answers) >= maxPlaces {
		s.answers, s.conditions, s.forgot = nil, nil, true
	}
	if s.answers == nil {
		s.answers, s.conditions = map[place]authorize.Answer{}, map[place]authorize.Verdict{}
	}
	if s.answers[at] = v.Answer; v.Answer == authorize.Open {
		s.conditions[at] = v
	}
	for _, g := range grants {
		if !slices.Contains(s.grants, g) {
			s.grants = append(s.grants, g)
		}
	}
}

// remembered returns a copy of the answers; false if some of them were forgotten.
func (s *sight) remembered() (map[place]authorize.Answer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.answers), !s.forgot
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

// again computes what another policy hides, once for the notes of a context that has this policy.
func (s *sight) again(ctx context.Context) *sight {
	now, _ := requestctx.NotesOf(ctx).Keep(sightKey{}, func() any {
		holder := requestctx.From(ctx)
		if found := s.filters.look(ctx, holder, s.attrs); found != nil {
			return found
		}
		return &sight{ctx: ctx, filters: s.filters, holder: holder, attrs: s.attrs}
	}).(*sight)
	return now
}

// under returns the sight of a request under the policy of another sight with equal attributes, if that hides the same
// everywhere. It returns nil if that is not certain: places were forgotten, or conditions on the object decide, which
// may have changed with the rights of the caller.
func (s *sight) under(request context.Context, now *sight) *sight {
	if now == nil || s.fields.Names() != now.fields.Names() || !slices.Equal(s.fields.Permissions(), now.fields.Permissions()) || !maps.Equal(s.open, now.open) {
		return nil
	}
	asked, complete := s.remembered()
	if len(s.open) > 0 && !complete {
		return nil
	}
	for at, before := range asked {
		answer := now.ask(fieldperm.Hidden{Permission: at.permission}, at.namespace).Answer
		if before == authorize.Open || answer == authorize.Open || (before == authorize.Allowed) != (answer == authorize.Allowed) || now.forgot {
			return nil
		}
	}
	authorize.AnnotateGrants(request, now.grants)
	next := &sight{ctx: requestctx.At(request, now.holder.Snapshot, now.holder.Instant), filters: s.filters, attrs: s.attrs, fields: now.fields, open: now.open,
		answers: asked, conditions: map[place]authorize.Verdict{}}
	next.holder = requestctx.From(next.ctx)
	return next
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
