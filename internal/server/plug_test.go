package server

import (
	"proviso.dev/proviso/internal/lineup"
	"proviso.dev/proviso/internal/snapshot"
	"proviso.dev/proviso/internal/system"
)

// plug adds a system that a test has made.
func (o *Options) plug(s system.System) {
	o.lineup = append(o.lineup, lineup.Entry{New: func(*system.Kernel, lineup.Config) (system.System, error) { return s, nil }})
}

// holding is a system that adds parts to the snapshot.
func holding(parts ...snapshot.Part) system.System {
	return system.System{Name: "test", Parts: func(snapshot.Source) ([]snapshot.Part, error) { return parts, nil }}
}
