package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/audit"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/auditsink"
	"proviso.dev/proviso/internal/registry"
	"proviso.dev/proviso/internal/snapshot"
)

// dynamicAudit tells whether audit sinks can be served: they need a place for their spools.
func (o *Options) dynamicAudit() bool { return enabled(DynamicAudit) && o.spoolDir() != "" }

// spoolDir is where events wait for their sinks. A drop-in has no directory of its own unless it is told one.
func (o *Options) spoolDir() string {
	if o.AuditDynamic.SpoolDir != "" || o.dropIn() {
		return o.AuditDynamic.SpoolDir
	}
	return o.path("audit")
}

// wrapAudit puts the router of dynamic audit in front of the configured backend, which it treats as one more sink that the API
// cannot see. Only the aggregator's handler chain runs, so that only there events are made.
func (s *stages) wrapAudit(o *Options, aggregator *genericapiserver.Config, services webhook.ServiceResolver) error {
	if s.plugs.auditBackend != nil {
		aggregator.AuditBackend, aggregator.AuditPolicyRuleEvaluator = s.plugs.auditBackend, s.plugs.auditEvaluator
	}
	if !o.dynamicAudit() {
		return nil
	}
	cfg := auditsink.Config{
		Dir:            o.spoolDir(),
		SpoolBytes:     o.AuditDynamic.SpoolBytes,
		Fsync:          o.AuditDynamic.SpoolFsync,
		AllowInsecure:  o.AuditDynamic.AllowInsecureSinks,
		Services:       services,
		TracerProvider: aggregator.TracerProvider,
		FlushTimeout:   shutdownTimeout / 2,
	}
	if aggregator.AuditBackend != nil && aggregator.AuditPolicyRuleEvaluator != nil {
		cfg.Static = &auditsink.Static{Evaluator: aggregator.AuditPolicyRuleEvaluator, Backend: aggregator.AuditBackend}
	}
	router, err := auditsink.New(cfg)
	if err != nil {
		return fmt.Errorf("dynamic audit: %w", err)
	}
	s.router = router
	tailLongRunning(aggregator)
	aggregator.AuditBackend, aggregator.AuditPolicyRuleEvaluator = audit.Backend(router), router.Evaluator()
	// Of several servers in one process, which only tests have, the first one's metrics are shown.
	_ = legacyregistry.CustomRegister(router.Collector())
	return nil
}

// sinks is the part of the snapshot that tells the router what is in force. It does so on a goroutine of its own: removing a
// spool must not hold up a change of policy.
type sinks struct {
	router           *auditsink.Router
	sinks, classes   cache.SharedIndexInformer
	registered       []cache.InformerSynced
	wake             chan struct{}
	told             atomic.Bool
	changedAfterTold func()
}

func newSinks(router *auditsink.Router, sinkInformer, classInformer cache.SharedIndexInformer, changed func()) (*sinks, error) {
	s := &sinks{router: router, sinks: sinkInformer, classes: classInformer, wake: make(chan struct{}, 1), changedAfterTold: changed}
	poke := func(any) {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	for _, informer := range []cache.SharedIndexInformer{sinkInformer, classInformer} {
		r, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: poke, DeleteFunc: poke, UpdateFunc: func(before, after any) {
			if generation(before) != generation(after) { // a new status changes nothing
				poke(after)
			}
		}})
		if err != nil {
			return nil, err
		}
		s.registered = append(s.registered, r.HasSynced)
	}
	return s, nil
}

// Name implements snapshot.Part.
func (s *sinks) Name() string { return "audit sinks" }

// HasSynced implements snapshot.Part: the router has been told once.
func (s *sinks) HasSynced() bool { return s.told.Load() }

// Apply implements snapshot.Part; the router keeps its own index.
func (s *sinks) Apply(*snapshot.Snapshot) {}

// run tells the router of every change until the context ends.
func (s *sinks) run(ctx context.Context) {
	if !cache.WaitForCacheSync(ctx.Done(), s.registered...) {
		return
	}
	for {
		// What a quarantined class selects is not known: the sinks that use it say that it is missing.
		classes := slices.DeleteFunc(listOf[*auditv1alpha1.AuditClass](s.classes), func(c *auditv1alpha1.AuditClass) bool { return registry.Quarantined(c) != "" })
		s.router.Update(listOf[*auditv1alpha1.AuditSink](s.sinks), classes)
		if !s.told.Swap(true) {
			s.changedAfterTold()
		}
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
	}
}

func listOf[T runtime.Object](informer cache.SharedIndexInformer) []T {
	var all []T
	for _, obj := range informer.GetStore().List() {
		if o, ok := obj.(T); ok {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b T) int { return strings.Compare(nameOf(a), nameOf(b)) })
	return all
}

func nameOf(obj runtime.Object) string {
	m, err := meta.Accessor(obj)
	if err != nil {
		return ""
	}
	return m.GetName()
}

func generation(obj any) int64 {
	m, err := meta.Accessor(obj)
	if err != nil {
		return -1
	}
	return m.GetGeneration()
}
