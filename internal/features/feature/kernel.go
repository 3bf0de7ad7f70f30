package feature

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/apis/accessreview"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/rulecondition"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/internal/request/freshness"
	"proviso.dev/proviso/internal/request/shadow"
	"proviso.dev/proviso/internal/request/turns"
	"proviso.dev/proviso/internal/state/discovery"
	"proviso.dev/proviso/internal/state/owners"
	"proviso.dev/proviso/internal/state/selfclient"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Kernel is what every system is built with. It is complete before the first of them is created.
type Kernel struct {
	// Store publishes the policy snapshot.
	Store *snapshot.Store
	// Gate asks the chain. The chain contains only system:masters until the host has added the links of its systems.
	Gate *authorize.Gate
	// Indexed is the part of the chain that the rule index can enumerate.
	Indexed *authorize.Chain
	// Master is the namespace whose policy holds everywhere.
	Master string

	// Compiler compiles the conditions of rules, Cache keeps them, and Warmer compiles them in the background.
	Compiler *rulecondition.Compiler
	Cache    *expr.Cache
	Warmer   *snapshot.Warmer

	// Shadow counts what rules that are not enforced would have changed.
	Shadow *shadow.Recorder

	// Served knows what is served.
	Served *discovery.Directory
	// Clients reach the server itself; nil in a host that is not a server.
	Clients *selfclient.Clients
	// Codecs write errors.
	Codecs runtime.NegotiatedSerializer
	// Namespaces finds a namespace for conditions that look at it.
	Namespaces authorize.Namespaces
	// Behind tells the enforcer what a request writes beyond what its body shows.
	Behind enforce.Behind
	// Warner tells people that something is wrong with an object.
	Warner Warner
	// Replicas say whether this host decides as they do.
	Replicas authorize.Agreement
	// Age knows when the policy is too old to decide by.
	Age authorize.Age
	// Needs tells replicas which stored content an older release would not know; nil if there are no replicas.
	Needs Needs

	// Fresh waits for newer policy.
	Fresh *freshness.Waiting

	// Turns queues users who write roles, of any API: checking what they grant against what they hold, and compiling
	// conditions, is slow.
	Turns turns.Queue

	// Owners finds the dependents of an owner, among the objects stored in this process.
	Owners owners.Index

	// Sinks reaches the audit sinks, once that system exists; never while it is disabled.
	Sinks Promise[Sinks]

	// Systems are those of the host, once all are made.
	Systems Promise[[]System]
}

// Sinks reach the audit sinks.
type Sinks interface {
	// Check returns why a sink does not get events from now until an instant; nil if it does.
	Check(name string, until time.Time) error
	// Tell gives the event that will end a request, which has the annotation authorize.AnnotationAsked, to sinks,
	// whatever they want. What it returns waits until each of them has it, or has it in its spool.
	Tell(asked string, sinks []string, spooled bool) func(context.Context) error
}

// Warner tells people that something is wrong with an object.
type Warner interface {
	Warn(obj runtime.Object, reason, message string)
	// Inform reports what happened to an object.
	Inform(obj runtime.Object, reason, message string)
}

// Needs tells replicas what they have to know.
type Needs interface {
	// Need returns an error if a replica does not support shadow rules; otherwise a replica that starts later has to.
	Need(ctx context.Context, dryRun bool) error
	// NoNeed reports that there are none.
	NoNeed(ctx context.Context) error
	// NeedFields is the same for fields of stored objects, and NoNeedOfFields reports that no object has them.
	NeedFields(ctx context.Context, fields []string) error
	NoNeedOfFields(ctx context.Context, fields []string) error
}

// Redact takes out of an audit event what a sink does not get that reveals the hidden fields of some permissions.
func (k *Kernel) Redact(ev *auditinternal.Event, reveal []string) *auditinternal.Event {
	systems, _ := k.Systems.Get() // no request comes before they are made
	for _, s := range systems {
		if s.Redactor != nil {
			ev = s.Redactor.Redact(ev, reveal)
		}
	}
	return ev
}

// Before returns what all systems refuse before the chain is asked.
func (k *Kernel) Before(ctx context.Context, attrs authorizer.Attributes) []accessreview.ChainElement {
	systems, _ := k.Systems.Get() // no request comes before they are made
	var all []accessreview.ChainElement
	for _, s := range systems {
		refuses := s.Deletes
		if attrs.GetVerb() != "delete" {
			refuses = s.Before
		}
		// Connecting and impersonating set no label and no field.
		if refuses != nil && (attrs.GetVerb() == "delete" || authorize.Writes(attrs)) {
			all = append(all, refuses(ctx, attrs)...)
		}
	}
	return all
}
