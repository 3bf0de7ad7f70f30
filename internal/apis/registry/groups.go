package registry

import (
	"context"

	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"

	access "proviso.dev/proviso/api/access/v1alpha1"
	audit "proviso.dev/proviso/api/auditregistration/v1alpha1"
	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/state/policycodec"
)

// APIGroupInfos opens the stores and returns what a GenericAPIServer installs: policy.proviso.dev,
// authorization.proviso.dev, auditregistration.k8s.io and access.proviso.dev, in this order. After InstallAPIGroups,
// ServeClusterReviews adds the reviews without a namespace.
func APIGroupInfos(cfg Config, opts generic.RESTOptionsGetter) ([]*genericapiserver.APIGroupInfo, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	var open opened
	policies := keep(&open, func() (*storage[*policy.Policy], error) { return newStorage(policyKind(), opts) })
	bindings := keep(&open, func() (*storage[*policy.PolicyBinding], error) {
		return newStorage(policyBindingKind(cfg.MasterNamespace), opts)
	})
	fieldPerms := keep(&open, func() (*storage[*policy.FieldPermission], error) { return newStorage(fieldPermissionKind(cfg), opts) })
	guards := &protections{roles: cfg.Roles, authorizer: cfg.Authorizer, master: cfg.MasterNamespace}
	attributes := keep(&open, func() (*storage[*policy.ProtectedAttribute], error) {
		return newStorage(protectedAttributeKind(guards), opts)
	})
	clusterAttributes := keep(&open, func() (*storage[*policy.ClusterProtectedAttribute], error) {
		return newStorage(clusterProtectedAttributeKind(guards), opts)
	})
	sinks := keep(&open, func() (*storage[*audit.AuditSink], error) {
		return newStorage(auditSinkKind(cfg), opts)
	})
	localSinks := keep(&open, func() (*storage[*policy.NamespaceAuditSink], error) {
		return newStorage(namespaceAuditSinkKind(cfg), opts)
	})
	classes := keep(&open, func() (*storage[*audit.AuditClass], error) { return newStorage(auditClassKind(cfg.Audit), opts) })
	accessing := openAccess(&open, cfg, opts)
	revocations := keep(&open, func() (*storage[*access.TokenRevocation], error) { return newStorage(tokenRevocationKind(), opts) })
	if open.err != nil {
		open.close()
		return nil, open.err
	}

	guards.local, guards.cluster = attributes, clusterAttributes
	where := places{namespaces: cfg.Namespaces, master: cfg.MasterNamespace}
	inPolicies := &containers[*policy.Policy, *authz.Role]{store: policies.Store, layout: roleLayout(cfg.MasterNamespace), places: where}
	inBindings := &containers[*policy.PolicyBinding, *authz.RoleBinding]{store: bindings.Store, layout: roleBindingLayout(), places: where}

	return []*genericapiserver.APIGroupInfo{
		group(policy.GroupName, policy.SchemeGroupVersion.Version, map[string]rest.Storage{
			"policies":                          &placedStorage[*policy.Policy]{storage: policies, places: where, names: inPolicies.names, entries: "roles"},
			"policies/status":                   policies.status(),
			"policybindings":                    &placedStorage[*policy.PolicyBinding]{storage: bindings, places: where, names: inBindings.names, entries: "role bindings"},
			"policybindings/status":             bindings.status(),
			"fieldpermissions":                  &fieldPermissions{storage: fieldPerms, authorizer: cfg.Authorizer},
			"fieldpermissions/status":           fieldPerms.status(),
			"protectedattributes":               &placedStorage[*policy.ProtectedAttribute]{storage: attributes, places: where},
			"protectedattributes/status":        attributes.status(),
			"clusterprotectedattributes":        clusterAttributes,
			"clusterprotectedattributes/status": clusterAttributes.status(),
			"namespaceauditsinks":               &namespaceAuditSinks{storage: localSinks, limits: cfg.NamespaceSinks, authorizer: cfg.Authorizer},
			"namespaceauditsinks/status":        localSinks.status(),
		}),
		group(authz.GroupName, authz.SchemeGroupVersion.Version, map[string]rest.Storage{
			"roles":                 (&roles{cfg: cfg, policies: inPolicies, bindings: inBindings, guards: guards}).view(),
			"rolebindings":          (&roleBindings{cfg: cfg, policies: inPolicies, bindings: inBindings, guards: guards}).view(),
			"resourceaccessreviews": resourceAccessReviews(cfg),
			"subjectaccessreviews":  subjectAccessReviews(cfg),
			"permissions":           newPermissions(cfg.Permissions),
			"shadowrules":           newShadowRules(cfg.ShadowRules, cfg.MasterNamespace),
		}),
		group(audit.GroupName, audit.SchemeGroupVersion.Version, map[string]rest.Storage{
			"auditsinks":        &auditSinks{storage: sinks, max: cfg.MaxAuditSinks, reveals: reveals{cfg.Authorizer, cfg.Audit}},
			"auditsinks/status": sinks.status(),
			"auditclasses":      &auditClasses{storage: classes, sinks: sinks},
		}),
		group(access.GroupName, access.SchemeGroupVersion.Version, withTokens(accessing.resources(cfg, where, inPolicies, inBindings), cfg, revocations)),
	}, nil
}

func group(name, version string, storage map[string]rest.Storage) *genericapiserver.APIGroupInfo {
	info := genericapiserver.NewDefaultAPIGroupInfo(name, policycodec.Scheme, policycodec.ParameterCodec, policycodec.Codecs)
	info.NegotiatedSerializer = policycodec.Negotiated{NegotiatedSerializer: policycodec.Codecs}
	info.VersionedResourcesStorageMap[version] = storage
	return &info
}

// opened remembers the stores that are open, to close them if a later one cannot be opened.
type opened struct {
	stores []rest.Storage
	err    error
}

func (o *opened) close() {
	for _, s := range o.stores {
		s.Destroy()
	}
}

func keep[S rest.Storage](o *opened, open func() (S, error)) S {
	var none S
	if o.err != nil {
		return none
	}
	s, err := open()
	if err != nil {
		o.err = err
		return none
	}
	o.stores = append(o.stores, s)
	return s
}

// accessStores are the stores of the group access.proviso.dev.
type accessStores struct {
	rules    *storage[*access.AccessRule]
	requests *storage[*access.AccessRequest]
	usages   *storage[*access.AccessUsage]
}

func openAccess(o *opened, cfg Config, opts generic.RESTOptionsGetter) accessStores {
	return accessStores{
		rules:    keep(o, func() (*storage[*access.AccessRule], error) { return newStorage(accessRuleKind(cfg), opts) }),
		requests: keep(o, func() (*storage[*access.AccessRequest], error) { return newStorage(accessRequestKind(), opts) }),
		usages:   keep(o, func() (*storage[*access.AccessUsage], error) { return newStorage(accessUsageKind(), opts) }),
	}
}

func (s accessStores) resources(cfg Config, where places, policies *containers[*policy.Policy, *authz.Role], bindings *containers[*policy.PolicyBinding, *authz.RoleBinding]) map[string]rest.Storage {
	requests := &accessRequests{stored: s.requests, status: s.requests.status(), rules: s.rules, usages: s.usages, where: where, desk: cfg.Access}
	if cfg.Access != nil {
		cfg.Access.Serve(requests)
	}
	bound := &roleBindings{cfg: cfg, policies: policies, bindings: bindings}
	return map[string]rest.Storage{
		"accessrules": &accessRules{storage: s.rules, cfg: cfg, role: func(ctx context.Context, b *authz.RoleBinding) (policy.PolicyRole, error) {
			return bound.role(ctx, b, false)
		}},
		"accessrequests":            requests,
		"accessrequests/approval":   &accessDecisions{requests: requests, authorizer: cfg.Authorizer},
		"accessrequests/revocation": &accessDecisions{requests: requests, authorizer: cfg.Authorizer, revokes: true},
	}
}
