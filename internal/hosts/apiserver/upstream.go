//go:build upstream

package apiserver

import (
	"context"
	"io"
	"os"

	genericapiserver "k8s.io/apiserver/pkg/server"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	kubeoptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/controlplane"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"

	"proviso.dev/proviso/internal/hosts/apiserver/authzconfig"
	"proviso.dev/proviso/internal/request/authorize"
)

// This file is the door through which Kubernetes' own integration tests start Proviso as a drop-in (test/upstream). It
// is built for them only.

// UpstreamPlan is what `proviso serve` decides before upstream's options are completed.
type UpstreamPlan struct {
	own  *Options
	plan *authzconfig.Plan
}

// NewUpstreamPlan takes over the options of a test. With a spool directory, dynamic audit is served too; alwaysAllow is
// stock's default where a test says nothing about authorizers.
func NewUpstreamPlan(s *kubeoptions.ServerRunOptions, changed func(string) bool, spool string, alwaysAllow bool) (*UpstreamPlan, error) {
	own := NewOptions()
	own.Kube, own.changed = s, changed
	if spool != "" {
		dir, err := os.MkdirTemp(spool, "spool")
		if err != nil {
			return nil, err
		}
		own.AuditDynamic.SpoolDir = dir
	}
	if alwaysAllow && len(s.Authorization.Modes) == 0 && s.Authorization.AuthorizationConfigurationFile == "" {
		s.Authorization.Modes = []string{modes.ModeAlwaysAllow}
		own.changed = func(n string) bool { return n == "authorization-mode" || changed(n) }
	}
	if err := own.liftEnforcer(); err != nil {
		return nil, err
	}
	plan, err := own.planAuthorization(own.switches())
	return &UpstreamPlan{own: own, plan: plan}, err
}

// Assemble is what serve does, up to the servers. modify changes the configuration where framework.StartTestServer lets
// a test do so.
func (p *UpstreamPlan) Assemble(opts kubeoptions.CompletedOptions, modify func(*controlplane.Config)) (*aggregatorapiserver.APIAggregator, error) {
	done := &completed{CompletedOptions: opts, own: p.own, authz: p.plan, switches: p.own.switches()}
	var err error
	if done.public, err = done.shards(); err != nil {
		return nil, err
	}
	if done.member, err = newMember(done); err != nil {
		return nil, err
	}
	if modify != nil {
		p.own.configured = func(c *config, generic *genericapiserver.Config) error { return c.modified(generic, modify) }
	}
	c, err := newConfig(done)
	if err != nil {
		return nil, err
	}
	leave, err := joinReplicas(context.Background(), done, newProgress(io.Discard))
	if err != nil {
		return nil, err
	}
	aggregator, err := c.assemble()
	if err != nil {
		leave()
		return nil, err
	}
	aggregator.GenericAPIServer.RegisterDestroyFunc(func() {
		leave()
		if c.stages != nil {
			c.stages.journal.Close()
		}
	})
	return aggregator, readyWhenAgreed(aggregator.GenericAPIServer, done.member.Agreed)
}

// modified lets a test change the configuration. An authorizer that it puts in takes the place of all links of the
// chain.
func (c *config) modified(generic *genericapiserver.Config, modify func(*controlplane.Config)) error {
	if c.stages == nil {
		modify(c.kube)
		return nil
	}
	before, err := c.stages.kernel.Gate.Chain.With(c.stages.kernel.Gate.Chain.Links()...)
	if err != nil {
		return err
	}
	generic.Authorization.Authorizer = before
	modify(c.kube)
	after := generic.Authorization.Authorizer
	generic.Authorization.Authorizer = c.stages.kernel.Gate.Chain
	if same, ok := after.(*authorize.Chain); ok && same == before {
		return nil
	}
	return c.stages.kernel.Gate.Chain.Replace(authorize.Link{Name: "upstream", Authorizer: after})
}
