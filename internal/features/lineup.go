package features

import (
	"fmt"
	"slices"

	"k8s.io/component-base/featuregate"

	"proviso.dev/proviso/internal/features/accessrequests"
	"proviso.dev/proviso/internal/features/base"
	"proviso.dev/proviso/internal/features/conditionalreads"
	"proviso.dev/proviso/internal/features/conditions"
	"proviso.dev/proviso/internal/features/dynamicaudit"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/features/fieldpermissions"
	"proviso.dev/proviso/internal/features/hiddenfields"
	"proviso.dev/proviso/internal/features/policies"
	"proviso.dev/proviso/internal/features/protectedattributes"
	"proviso.dev/proviso/internal/features/tokens"
)

// Config is what a host knows, by system.
type Config struct {
	Ground      base.Config
	Conditional conditions.Config
	Reads       conditionalreads.Config
	Policies    policies.Config
	Attributes  protectedattributes.Config
	Fields      fieldpermissions.Config
	Hidden      hiddenfields.Config
	Auditing    dynamicaudit.Config
	Tokens      tokens.Config
}

// Entry is a system that can be built.
type Entry struct {
	// Gate switches it; empty if nothing does.
	Gate featuregate.Feature
	New  func(*feature.Kernel, Config) (feature.System, error)
}

// Lineup is a list of systems. Their order is that of filters, links and checks of one kind.
type Lineup []Entry

// All is the list. A system is one package, and one line here.
func All() Lineup {
	return Lineup{
		{"", func(k *feature.Kernel, c Config) (feature.System, error) { return base.New(k, c.Ground) }},
		{tokens.Gate, func(k *feature.Kernel, c Config) (feature.System, error) { return tokens.New(k, c.Tokens) }},
		{conditions.Gate, func(k *feature.Kernel, c Config) (feature.System, error) { return conditions.New(k, c.Conditional) }},
		{conditionalreads.Gate, func(k *feature.Kernel, c Config) (feature.System, error) { return conditionalreads.New(k, c.Reads) }},
		{policies.Gate, func(k *feature.Kernel, c Config) (feature.System, error) { return policies.New(k, c.Policies) }},
		{protectedattributes.Gate, func(k *feature.Kernel, c Config) (feature.System, error) {
			return protectedattributes.New(k, c.Attributes)
		}},
		{fieldpermissions.Gate, func(k *feature.Kernel, c Config) (feature.System, error) { return fieldpermissions.New(k, c.Fields) }},
		{hiddenfields.Gate, func(k *feature.Kernel, c Config) (feature.System, error) { return hiddenfields.New(k, c.Hidden) }},
		{accessrequests.Gate, func(k *feature.Kernel, _ Config) (feature.System, error) { return accessrequests.New(k) }},
		{dynamicaudit.Gate, func(k *feature.Kernel, c Config) (feature.System, error) { return dynamicaudit.New(k, c.Auditing) }},
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

// Has reports whether the system of a gate is in the list.
func (l Lineup) Has(gate featuregate.Feature) bool { return slices.Contains(l.Gates(), gate) }

// With removes the systems whose gate is off.
func (l Lineup) With(on func(featuregate.Feature) bool) Lineup {
	return slices.DeleteFunc(slices.Clone(l), func(e Entry) bool { return e.Gate != "" && !on(e.Gate) })
}

// Build makes the systems, in order.
func (l Lineup) Build(k *feature.Kernel, cfg Config) ([]feature.System, error) {
	var all []feature.System
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
