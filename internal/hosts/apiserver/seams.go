package apiserver

import (
	"slices"

	"k8s.io/apiserver/pkg/audit"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/featuregate"

	"proviso.dev/proviso/internal/features"
	"proviso.dev/proviso/internal/state/timekeeper"
)

// This file is how a program that runs the server in its own process, such as test/server, puts parts of its own into
// it. Call these before Run. No flag reaches them.

// Plug adds a system behind those of the list. No feature gate takes it out.
func (o *Options) Plug(system features.Entry) { o.lineup = append(slices.Clip(o.lineup), system) }

// AuditTo puts a backend and what it wants in the place of the configured ones.
func (o *Options) AuditTo(backend audit.Backend, evaluator audit.PolicyRuleEvaluator) {
	o.auditBackend, o.auditEvaluator = backend, evaluator
}

// Configure may change the configuration of the built-in resources before those of the other servers are copied from
// it.
func (o *Options) Configure(change func(*genericapiserver.Config) error) {
	o.configured = func(_ *config, generic *genericapiserver.Config) error { return change(generic) }
}

// TellTimeBy lets the server go by another clock than that of the machine.
func (o *Options) TellTimeBy(hands timekeeper.Hands) { o.hands = hands }

// Give marks flags as given, beside those that are: a given flag is never overridden.
func (o *Options) Give(flags ...string) {
	given := o.changed
	o.changed = func(name string) bool { return slices.Contains(flags, name) || given(name) }
}

// SwitchOn switches gates on in this server. Feature gates belong to the process, in which others may run.
func (o *Options) SwitchOn(gates ...featuregate.Feature) { o.on = append(o.on, gates...) }

// SwitchOff switches gates off in this server, whatever the process says.
func (o *Options) SwitchOff(gates ...featuregate.Feature) { o.off = append(o.off, gates...) }
