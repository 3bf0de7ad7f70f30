package feature

import (
	"context"
	"net/http"

	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/component-base/featuregate"

	"proviso.dev/proviso/internal/apis/accessreview"
	"proviso.dev/proviso/internal/apis/policyreview"
	"proviso.dev/proviso/internal/apis/registry"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/internal/request/readfilter"
	"proviso.dev/proviso/internal/state/snapshot"
)

// System is what one system adds to a host. Everything but the name is optional; a host takes what it has a place for.
type System struct {
	// Name is its name for people.
	Name string
	// Gate is the feature gate that switches it off; empty if nothing does.
	Gate featuregate.Feature

	// Parts returns its parts of the snapshot, built from the host's source. A part that is a Runner runs as long as
	// the host.
	Parts func(snapshot.Source) ([]snapshot.Part, error)

	// First are links ahead of the whole chain, including system:masters: they only ever refuse.
	First []authorize.Link
	// Links are links ahead of the configured authorizers, where nothing can be configured.
	Links []authorize.Link
	// Last are links at the end of the chain, behind the configured authorizers.
	Last []authorize.Link
	// Authorizers are the types of authorizers that it provides, for hosts to place as they are configured.
	Authorizers map[string]Authorizer

	// Credentials are those of its own; nil if it has none.
	Credentials Credentials

	// Filters wrap the handler, behind authorization, the first one outermost.
	Filters []Filter
	// Paths are served beside the API.
	Paths []Path
	// Storage wraps the storage of resources, which convert converts to their versions; it is nil for custom ones.
	Storage func(inner generic.RESTOptionsGetter, convert readfilter.Converter) generic.RESTOptionsGetter
	// Provide replaces storage of upstream's, by API group.
	Provide map[string]func(upstream Provider) (Provider, error)
	// Resources are those of our own groups that it serves, and Registry adds to how they are checked.
	Resources []string
	Registry  func(*registry.Config)

	// Enforce adds to what the enforcer checks, before there is one.
	Enforce func(*enforce.Config)
	// MutateFirst run first in mutating admission, before upstream's plugins.
	MutateFirst []Mutator
	// Mutators run last in mutating admission. Two of one name are one.
	Mutators []Mutator
	// Before is what the enforcer refuses whatever the chain says, for access reviews to show (PA-8).
	Before Before
	// Deletes is the same for deletions, which set nothing.
	Deletes Before
	// Fields decides by rights to single fields, for reviews (FP-21); nil if the system knows none.
	Fields policyreview.FieldRights

	// Redactor removes from audit events what sinks must not get; nil removes nothing.
	Redactor Redactor
	// Audit replaces the destination of audit events; nil leaves it unchanged.
	Audit *Audit

	// Background is what it does while the host runs.
	Background func(snapshot.Source) ([]Runner, error)
	// Shutdown is called when the host begins to end.
	Shutdown func()
}

// Redactor removes from audit events what sinks must not get.
type Redactor interface {
	// Redact returns another event, or the same if there is nothing to take out. Reveal are the permissions whose
	// hidden fields stay.
	Redact(ev *auditinternal.Event, reveal []string) *auditinternal.Event
}

// Credentials are those that a system itself issues and recognises.
type Credentials interface {
	// Authenticator recognises them ahead of all others, which next does.
	Authenticator(next authenticator.Request) authenticator.Request
	// Secret reports whether the bodies of a request contain one: then no audit event may contain them.
	Secret(authorizer.Attributes) bool
}

// Before lists what is refused before the chain is asked.
type Before func(context.Context, authorizer.Attributes) []accessreview.ChainElement

// Authorizer makes the links of an authorizer type. What denies in it may yield to the Node authorizer, if the chain
// has one. A link without a name is called as it is configured.
type Authorizer func(nodes authorizer.UnconditionalAuthorizer) []authorize.Link

// Filter is a named filter.
type Filter struct {
	Name string
	Wrap func(http.Handler) http.Handler
}

// Path is a path with its handler.
type Path struct {
	Path    string
	Handler http.Handler
	// LongRunning exempts it from the time-out of requests.
	LongRunning bool
}

// Provider is a storage provider of an API group, as upstream has them.
type Provider interface {
	GroupName() string
	NewRESTStorage(serverstorage.APIResourceConfigSource, generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error)
}

// Mutator is a named admission plugin.
type Mutator struct {
	Name   string
	Plugin admission.Interface
}

// Audit is where events go, and how much of them is wanted.
type Audit struct {
	Backend   audit.Backend
	Evaluator audit.PolicyRuleEvaluator
}

// Runner runs until the context ends.
type Runner interface{ Run(context.Context) }

// RunnerFunc is a function that implements Runner.
type RunnerFunc func(context.Context)

// Run implements Runner.
func (f RunnerFunc) Run(ctx context.Context) { f(ctx) }
