package feature

import (
	"slices"

	"proviso.dev/proviso/internal/apis/registry"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/internal/state/snapshot"
)

// First returns the links ahead of the whole chain.
func First(systems []System) (links []authorize.Link) {
	for _, s := range systems {
		links = append(links, s.First...)
	}
	return links
}

// Links returns the links ahead of the configured authorizers.
func Links(systems []System) (links []authorize.Link) {
	for _, s := range systems {
		links = append(links, s.Links...)
	}
	return links
}

// Last returns the links behind the configured authorizers.
func Last(systems []System) (links []authorize.Link) {
	for _, s := range systems {
		links = append(links, s.Last...)
	}
	return links
}

// Filters returns the filters around the handler, outermost first.
func Filters(systems []System) (filters []Filter) {
	for _, s := range systems {
		filters = append(filters, s.Filters...)
	}
	return filters
}

// Enforcer is the enforcer with what every system checks in it.
func Enforcer(k *Kernel, systems []System) *enforce.Plugin {
	cfg := enforce.Config{Namespaces: k.Namespaces, Observer: k.Shadow, Later: authorize.Later{Gate: k.Gate, Clock: k.Store.Clock()}}
	for _, s := range systems {
		if s.Enforce != nil {
			s.Enforce(&cfg)
		}
	}
	return enforce.New(cfg)
}

// Mutators run last in mutating admission. Of two with one name there is one.
func Mutators(systems []System) (all []Mutator) {
	for _, s := range systems {
		for _, m := range s.Mutators {
			if !slices.ContainsFunc(all, func(have Mutator) bool { return have.Name == m.Name }) {
				all = append(all, m)
			}
		}
	}
	return all
}

// Registry returns how our own groups check writes.
func Registry(systems []System) (cfg registry.Config) {
	for _, s := range systems {
		if s.Registry != nil {
			s.Registry(&cfg)
		}
	}
	return cfg
}

// Serves reports whether a resource of our groups is served because its system is enabled.
func Serves(systems []System, resource string) bool {
	return slices.ContainsFunc(systems, func(s System) bool { return slices.Contains(s.Resources, resource) })
}

// Feed gives the store the parts of all systems, and returns what runs while the host does: parts that are Runners, and
// what systems do in the background.
func Feed(store *snapshot.Store, systems []System, from snapshot.Source) (running []Runner, err error) {
	for _, s := range systems {
		if s.Parts != nil {
			parts, err := s.Parts(from)
			if err != nil {
				return nil, err
			}
			if err := store.Add(parts...); err != nil {
				return nil, err
			}
			for _, p := range parts {
				if r, ok := p.(Runner); ok {
					running = append(running, r)
				}
			}
		}
		if s.Background != nil {
			more, err := s.Background(from)
			if err != nil {
				return nil, err
			}
			running = append(running, more...)
		}
	}
	if dated, ok := from.(snapshot.Dated); ok {
		store.Follow(dated)
	}
	return running, nil
}
