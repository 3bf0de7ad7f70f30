package server

import (
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/inquire"
	"proviso.dev/proviso/internal/registry"
	"proviso.dev/proviso/internal/ruleset"
	"proviso.dev/proviso/internal/snapshot"
)

// registryConfig says how our own groups check what is written.
func (s *stages) registryConfig(c *config) registry.Config {
	checkField := func(policyv1alpha1.FieldPermissionSpec, *field.Path) field.ErrorList { return nil }
	permissions := &inquire.Permissions{Store: s.store}
	if s.fields != nil {
		checkField, permissions.HasField = s.fields.checkFieldPermission, s.fields.hasField
	}
	return registry.Config{
		MasterNamespace:    s.master,
		MaxAuditSinks:      c.opts.own.AuditDynamic.MaxSinks,
		AllowInsecureSinks: c.opts.own.AuditDynamic.AllowInsecureSinks,
		Authorizer:         s.gate.Chain,
		Escalation:         s.escalation(),
		Namespaces:         newNamespaces(c.informers, c.kube.ControlPlane.Generic.LoopbackClientConfig),
		Roles:              rbacRoles{c.informers},
		Reviewer:           s.reviewer(c),
		Permissions:        permissions,
		CheckRule: func(rule policyv1alpha1.PolicyRule, path *field.Path) field.ErrorList {
			_, errs := s.compiler.Rule(&rule, path, false)
			return errs
		},
		CheckFieldPermission: checkField,
		Unserved: func(rule policyv1alpha1.PolicyRule) (unserved, guarded []string) {
			snap := s.store.Current()
			if !snap.Synced || snap.Served == nil {
				return nil, nil
			}
			c := ruleset.Coverage(&rule, snap.Served.Kinds())
			return slices.DeleteFunc(c.Unserved, func(name string) bool { return slices.Contains(c.Guarded, name) }), c.Guarded
		},
	}
}

// escalation is the check of what is handed out, one for Policy and RBAC.
func (s *stages) escalation() *inquire.Escalation {
	return &inquire.Escalation{Store: s.store, Chain: s.gate.Chain, MasterNamespace: s.master}
}

// start feeds the policy snapshot once the server runs and makes readiness depend on it.
func (s *stages) start(c *config, server *genericapiserver.GenericAPIServer, discovery *discoverer, definitions cache.SharedIndexInformer) error {
	s.store.Add(discovery)
	// The index of bindings also says who is a member of a role, so that it is kept whichever system is on.
	rules, own, err := s.rules(c)
	if err != nil {
		return err
	}
	s.store.Add(rules)
	placed := map[string]cache.SharedIndexInformer{}
	var policies *policyReporter
	if enabled(PolicyAuthorization) {
		placed["policies"], placed["policybindings"] = own[0], own[1]
		if policies, err = newPolicyReporter(s, own[0], own[1], server); err != nil {
			return err
		}
	}
	if enabled(ProtectedAttributes) {
		protections, informers, err := s.protections(c)
		if err != nil {
			return err
		}
		s.store.Add(protections)
		placed["protectedattributes"] = informers[0]
		own = append(own, informers...)
	}
	settler, err := newSettler(s.master, newNamespaces(c.informers, server.LoopbackClientConfig), c.informers.Core().V1().Namespaces().Informer(), placed, server)
	if err != nil {
		return err
	}
	var declarations *fieldReporter
	if s.fields != nil {
		fields, informers, err := s.fields.part(c, definitions, s.warmer, s.sources, s.store.Changed)
		if err != nil {
			return err
		}
		if declarations, err = newFieldReporter(s.fields, informers[0], server); err != nil {
			return err
		}
		s.store.Add(fields)
		own = append(own, informers...)
	}
	var audits *sinks
	var reporter *sinkReporter
	if s.router != nil {
		informers, err := c.ownInformers(s.sources, ownKind{"auditsinks", &auditv1alpha1.AuditSink{}}, ownKind{"auditclasses", &auditv1alpha1.AuditClass{}})
		if err != nil {
			return err
		}
		if audits, err = newSinks(s.router, informers[0], informers[1], s.store.Changed); err != nil {
			return err
		}
		if reporter, err = newSinkReporter(s.router, informers[0], server, c.opts.own.spoolDir()); err != nil {
			return err
		}
		if err := s.serveTail(server); err != nil {
			return err
		}
		s.store.Add(audits)
		own = append(own, informers...)
	}
	for _, part := range s.plugs.parts {
		s.store.Add(part)
	}
	if err := server.AddReadyzChecks(healthz.NamedCheck("policy-snapshot", func(*http.Request) error { return s.store.Ready() })); err != nil {
		return err
	}
	if err := server.AddReadyzChecks(s.sources.checks()...); err != nil {
		return err
	}
	return server.AddPostStartHook("proviso-policy-snapshot", func(ctx genericapiserver.PostStartHookContext) error {
		if err := s.events.start(ctx, ctx.LoopbackClientConfig); err != nil {
			klog.ErrorS(err, "Events are not written")
		}
		for _, informer := range own {
			go informer.RunWithContext(ctx)
		}
		go discovery.run(ctx, ctx.LoopbackClientConfig)
		if audits != nil {
			go audits.run(ctx)
			go reporter.run(ctx)
		}
		if enabled(PolicyAuthorization) {
			go ensureDefaults(ctx, ctx.LoopbackClientConfig, s.master, c.opts.member.Agreed)
			go policies.run(ctx)
		}
		if declarations != nil {
			go declarations.run(ctx)
		}
		go settler.run(ctx)
		go s.warmer.Run(ctx.Done())
		go s.store.Run(ctx.Done())
		return nil
	})
}

// rules connects the index to everything it is made of.
func (s *stages) rules(c *config) (snapshot.Part, []cache.SharedIndexInformer, error) {
	rbac := c.informers.Rbac().V1()
	cfg := snapshot.RulesConfig{
		MasterNamespace:     s.master,
		CompileRule:         s.compiler.CompileRule,
		Broken:              s.compiler.Broken,
		Warmer:              s.warmer,
		Limits:              ruleset.DefaultLimits(),
		Roles:               rbac.Roles().Informer(),
		ClusterRoles:        rbac.ClusterRoles().Informer(),
		RoleBindings:        rbac.RoleBindings().Informer(),
		ClusterRoleBindings: rbac.ClusterRoleBindings().Informer(),
		Namespaces:          c.informers.Core().V1().Namespaces().Informer(),
	}
	var own []cache.SharedIndexInformer
	if enabled(PolicyAuthorization) {
		var err error
		if own, err = c.ownInformers(s.sources, ownKind{"policies", &policyv1alpha1.Policy{}}, ownKind{"policybindings", &policyv1alpha1.PolicyBinding{}}); err != nil {
			return nil, nil, err
		}
		cfg.Policies, cfg.PolicyBindings = own[0], own[1]
	}
	for name, informer := range map[string]cache.SharedIndexInformer{"roles": cfg.Roles, "clusterroles": cfg.ClusterRoles,
		"rolebindings": cfg.RoleBindings, "clusterrolebindings": cfg.ClusterRoleBindings} {
		if err := s.sources.watch(name, informer); err != nil {
			return nil, nil, err
		}
		if err := watchUnreadable(name, informer, s.sources, unreadableRBAC); err != nil {
			return nil, nil, err
		}
	}
	part, err := snapshot.NewRules(cfg, s.store.Changed)
	return part, own, err
}

// protections connects the index of protected attributes to its kinds.
func (s *stages) protections(c *config) (snapshot.Part, []cache.SharedIndexInformer, error) {
	own, err := c.ownInformers(s.sources, ownKind{"protectedattributes", &policyv1alpha1.ProtectedAttribute{}}, ownKind{"clusterprotectedattributes", &policyv1alpha1.ClusterProtectedAttribute{}})
	if err != nil {
		return nil, nil, err
	}
	part, err := snapshot.NewProtections(snapshot.ProtectionsConfig{
		MasterNamespace: s.master, Namespaces: c.informers.Core().V1().Namespaces().Informer(),
		Namespaced: own[0], Cluster: own[1],
		ExemptUsers: c.opts.own.ProtectedAttributesExemptUsers, ExemptGroups: c.opts.own.ProtectedAttributesExemptGroups,
	}, s.store.Changed)
	return part, own, err
}

// ownKind is a stored kind of one of our groups.
type ownKind struct {
	resource string
	example  runtime.Object
}

func (c *config) ownInformers(sources *sources, kinds ...ownKind) ([]cache.SharedIndexInformer, error) {
	var all []cache.SharedIndexInformer
	for _, k := range kinds {
		client, err := ownClient(c.kube.ControlPlane.Generic.LoopbackClientConfig, versionOf(k.example))
		if err != nil {
			return nil, err
		}
		informer := ownInformer(client, k.resource, k.example)
		if err := watchQuarantined(k.resource, informer, sources, c.stages.events.warn); err != nil {
			return nil, err
		}
		if err := sources.watch(k.resource, informer); err != nil {
			return nil, err
		}
		all = append(all, informer)
	}
	return all, nil
}
