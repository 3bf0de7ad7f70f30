package lineup

import (
	"fmt"
	"slices"

	"k8s.io/component-base/featuregate"

	"proviso.dev/proviso/internal/attributes"
	"proviso.dev/proviso/internal/auditing"
	"proviso.dev/proviso/internal/conditional"
	"proviso.dev/proviso/internal/fields"
	"proviso.dev/proviso/internal/ground"
	"proviso.dev/proviso/internal/policies"
	"proviso.dev/proviso/internal/reads"
	"proviso.dev/proviso/internal/system"
)

// Config is what a host knows, by system.
type Config struct {
	Ground      ground.Config
	Conditional conditional.Config
	Reads       reads.Config
	Policies    policies.Config
	Attributes  attributes.Config
	Fields      fields.Config
	Auditing    auditing.Config
}

// Entry is a system that can be made.
type Entry struct {
	// Gate switches it; empty if nothing does.
	Gate featuregate.Feature
	New  func(*system.Kernel, Config) (system.System, error)
}

// Lineup is a list of systems. Their order is that of filters, links and checks of one kind.
type Lineup []Entry

// All is the list. A system is one package, and one line here.
func All() Lineup {
	return Lineup{
		{"", func(k *system.Kernel, c Config) (system.System, error) { return ground.New(k, c.Ground) }},
		{conditional.Gate, func(k *system.Kernel, c Config) (system.System, error) { return conditional.New(k, c.Conditional) }},
		{reads.Gate, func(k *system.Kernel, c Config) (system.System, error) { return reads.New(k, c.Reads) }},
		{policies.Gate, func(k *system.Kernel, c Config) (system.System, error) { return policies.New(k, c.Policies) }},
		{attributes.Gate, func(k *system.Kernel, c Config) (system.System, error) { return attributes.New(k, c.Attributes) }},
		{fields.Gate, func(k *system.Kernel, c Config) (system.System, error) { return fields.New(k, c.Fields) }},
		{auditing.Gate, func(k *system.Kernel, c Config) (system.System, error) { return auditing.New(k, c.Auditing) }},
	}
}

// Gates are the feature gates of the list.
func (l Lineup) Gates() (gates []featuregate.Feature) {
	for _, e := range l {
		if e.Gate != "" {
			gates = append(gates, e.Gate)
		}
	}
	return gates
}

// Has tells whether the system of a gate is in the list.
func (l Lineup) Has(gate featuregate.Feature) bool { return slices.Contains(l.Gates(), gate) }

// With takes out the systems whose gate is off.
func (l Lineup) With(on func(featuregate.Feature) bool) Lineup {
	return slices.DeleteFunc(slices.Clone(l), func(e Entry) bool { return e.Gate != "" && !on(e.Gate) })
}

// Build makes the systems, in order.
func (l Lineup) Build(k *system.Kernel, cfg Config) ([]system.System, error) {
	var all []system.System
	for _, e := range l {
		s, err := e.New(k, cfg)
		if err != nil {
			return nil, err
		}
		if s.Gate != e.Gate {
			return nil, fmt.Errorf("system %q is switched by %q and listed under %q", s.Name, s.Gate, e.Gate)
		}
		all = append(all, s)
	}
	return all, k.Systems.Keep(all)
}
