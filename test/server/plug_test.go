package server

import (
	"proviso.dev/proviso/internal/features"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/hosts/apiserver"
	"proviso.dev/proviso/internal/state/snapshot"
)

// plug adds a system that a test has made.
func plug(o *apiserver.Options, s feature.System) {
	o.Plug(features.Entry{New: func(*feature.Kernel, features.Config) (feature.System, error) { return s, nil }})
}

// holding is a system that adds parts to the snapshot.
func holding(parts ...snapshot.Part) feature.System {
	return feature.System{Name: "test", Parts: func(snapshot.Source) ([]snapshot.Part, error) { return parts, nil }}
}
