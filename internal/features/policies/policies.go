package policies

import (
	"context"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/component-base/featuregate"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/apis/accessreview"
	"proviso.dev/proviso/internal/apis/registry"
	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/internal/request/readfilter"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Gate switches the system.
const Gate featuregate.Feature = "PolicyAuthorization"

// The authorizer types that it provides: its own, and RBAC out of the same index.
const (
	TypePolicy = "Policy"
	TypeRBAC   = "RBAC"
)

// Config is what a host knows.
type Config struct {
	// GuardRBAC installs our escalation check in the storage of RBAC (PO-12); nil if the host does not store RBAC.
	GuardRBAC func(feature.Provider) (feature.Provider, error)
	// Orphans is true if deleting an owner can leave its dependents: kube-apiserver has a flag for that.
	Orphans bool
	// ExpiredTTL is how long role bindings stay after their end; 0 keeps them.
	ExpiredTTL time.Duration
}

// New makes the system.
func New(k *feature.Kernel, cfg Config) (feature.System, error) {
	s := feature.System{
		Name: "policy", Gate: Gate,
		Resources: []string{snapshot.Policies.Resource, snapshot.PolicyBindings.Resource, "roles", "rolebindings", "resourceaccessreviews", "subjectaccessreviews"},
		Authorizers: map[string]feature.Authorizer{
			TypePolicy: func(nodes authorizer.UnconditionalAuthorizer) []authorize.Link { return tiers(k, nodes) },
			TypeRBAC: func(authorizer.UnconditionalAuthorizer) []authorize.Link {
				return []authorize.Link{{Authorizer: authorize.NewRBAC(k.Store)}}
			},
		},
		Enforce: func(c *enforce.Config) {
			c.Explain = true
			c.After = append(c.After, enforce.Immortal{Namespace: k.Master})
			if k.Clients != nil {
				c.Effects = &enforce.Effects{Denials: k.Gate, Namespaces: k.Namespaces, Stored: k.Clients.Stored(), Owners: &k.Owners, Orphans: cfg.Orphans, Expires: cfg.ExpiredTTL > 0}
			}
		},
		Background: func(from snapshot.Source) ([]feature.Runner, error) {
			reporter, err := newReporter(k, from)
			defaults := func(ctx context.Context) { ensureDefaults(ctx, k.Clients, k.Master, k.Replicas) }
			runners := []feature.Runner{feature.RunnerFunc(defaults), reporter}
			if cfg.ExpiredTTL > 0 && k.Clients != nil {
				runners = append(runners, &sweeper{k, cfg.ExpiredTTL})
			}
			return runners, err
		},
	}
	if k.Clients != nil {
		s.Deletes = func(ctx context.Context, attrs authorizer.Attributes) []accessreview.ChainElement {
			return within(ctx, k, attrs)
		}
		for _, view := range []string{"roles", "rolebindings"} {
			k.Owners.HasNone(authz.Resource(view))
		}
		s.Storage = func(inner generic.RESTOptionsGetter, _ readfilter.Converter) generic.RESTOptionsGetter {
			return k.Owners.Decorate(inner)
		}
		s.Registry = func(c *registry.Config) {
			around := c.Storage
			c.Storage = func(inner generic.RESTOptionsGetter) generic.RESTOptionsGetter {
				return around(k.Owners.Decorate(inner))
			}
		}
	}
	if cfg.GuardRBAC != nil {
		s.Provide = map[string]func(feature.Provider) (feature.Provider, error){rbacv1.GroupName: cfg.GuardRBAC}
	}
	return s, nil
}

// tiers are the two tiers of Policy. The denies of a namespace yield to the Node authorizer.
func tiers(k *feature.Kernel, nodes authorizer.UnconditionalAuthorizer) []authorize.Link {
	master := authorize.NewPolicyMaster(k.Store).YieldingTo(nodes).ServedBy(k.Served)
	namespace := authorize.NewPolicyNamespace(k.Store, nodes).ServedBy(k.Served)
	return []authorize.Link{{Name: links.PolicyMaster, Authorizer: master}, {Name: links.PolicyNamespace, Authorizer: namespace}}
}

// within returns what a review of the deletion of a namespace shows: the enforcer refuses it while a rule denies the
// caller the deletion of something in it.
func within(ctx context.Context, k *feature.Kernel, attrs authorizer.Attributes) []accessreview.ChainElement {
	if attrs.GetAPIGroup() != "" || attrs.GetResource() != "namespaces" || attrs.GetSubresource() != "" || attrs.GetName() == "" {
		return nil
	}
	found := enforce.DeniedWithin(ctx, k.Gate, authorize.SnapshotOf(ctx, k.Store), attrs.GetUser(), attrs.GetName())
	if found == nil {
		return nil
	}
	reason := found.String()
	if found.Ask != nil {
		reason += fmt.Sprintf("; `proviso explain delete %s -n %s` shows it", found.What, attrs.GetName())
	}
	return []accessreview.ChainElement{{Name: links.Effects, Decision: authorizer.ConditionsAwareDecisionDeny(reason, nil)}}
}
