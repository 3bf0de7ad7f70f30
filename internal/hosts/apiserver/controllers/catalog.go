package controllers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/metadata"
	"k8s.io/klog/v2"
	upstream "k8s.io/kubernetes/cmd/kube-controller-manager/names"
	pkgcontroller "k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/certificates/rootcacertpublisher"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/resourcequota"
	saccontroller "k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/controller/volume/pvcprotection"
	"k8s.io/kubernetes/pkg/controller/volume/pvprotection"
	quotainstall "k8s.io/kubernetes/pkg/quota/v1/install"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

// controller is one entry of the catalog.
type controller struct {
	name, alias string
	// lacks returns what is missing in the configuration for it; nil if nothing is.
	lacks func(Config) error
	// build prepares it for one term of leadership. What it returns blocks until the context ends.
	build func(context.Context, *term) (func(context.Context), error)
}

// all is the catalog. Names and aliases are upstream's, and so are the numbers of workers.
var all = []controller{
	{name: upstream.ServiceAccountTokenController, alias: "serviceaccount-token", lacks: noKey, build: serviceAccountTokens},
	{name: upstream.ServiceAccountController, alias: "serviceaccount", build: serviceAccounts},
	{name: upstream.RootCACertificatePublisherController, alias: "root-ca-cert-publisher", lacks: noRootCA, build: rootCA},
	{name: upstream.NamespaceController, alias: "namespace", build: namespaces},
	{name: upstream.ClusterRoleAggregationController, alias: "clusterrole-aggregation", build: clusterRoles},
	{name: upstream.ResourceQuotaController, alias: "resourcequota", build: quotas},
	{name: upstream.GarbageCollectorController, alias: "garbagecollector", build: garbage},
	{name: upstream.PersistentVolumeClaimProtectionController, alias: "pvc-protection", build: claimsInUse},
	{name: upstream.PersistentVolumeProtectionController, alias: "pv-protection", build: volumesInUse},
}

func noKey(c Config) error {
	if c.ServiceAccountKeyFile == "" {
		return errors.New("it needs the key that signs service account tokens")
	}
	return nil
}

func noRootCA(c Config) error {
	if len(c.RootCA) == 0 {
		return errors.New("it needs the certificate of the server's authority")
	}
	return nil
}

// serviceAccountTokens fills secrets of the type service-account-token, which users still make by hand for clients that
// cannot renew a token, and removes them with their service account.
func serviceAccountTokens(ctx context.Context, t *term) (func(context.Context), error) {
	client, err := t.client("tokens-controller")
	if err != nil {
		return nil, err
	}
	tokens, err := serviceaccount.JWTTokenGenerator(serviceaccount.LegacyIssuer, t.key)
	if err != nil {
		return nil, err
	}
	c, err := saccontroller.NewTokensController(klog.FromContext(ctx), t.typed.Core().V1().ServiceAccounts(), t.typed.Core().V1().Secrets(),
		client, saccontroller.TokensControllerOptions{TokenGenerator: tokens, RootCA: t.cfg.RootCA})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 5) }, nil
}

func serviceAccounts(ctx context.Context, t *term) (func(context.Context), error) {
	client, err := t.client("service-account-controller")
	if err != nil {
		return nil, err
	}
	c, err := saccontroller.NewServiceAccountsController(klog.FromContext(ctx), t.typed.Core().V1().ServiceAccounts(),
		t.typed.Core().V1().Namespaces(), client, saccontroller.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}

func rootCA(_ context.Context, t *term) (func(context.Context), error) {
	client, err := t.client("root-ca-cert-publisher")
	if err != nil {
		return nil, err
	}
	c, err := rootcacertpublisher.NewPublisher(t.typed.Core().V1().ConfigMaps(), t.typed.Core().V1().Namespaces(), client, t.cfg.RootCA)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}

func namespaces(ctx context.Context, t *term) (func(context.Context), error) {
	client, err := t.client("namespace-controller")
	if err != nil {
		return nil, err
	}
	metadataClient, err := metadata.NewForConfig(t.config("namespace-controller"))
	if err != nil {
		return nil, err
	}
	discover, err := answered(client.Discovery().ServerPreferredNamespacedResources)
	if err != nil {
		return nil, err
	}
	c := namespace.NewNamespaceController(ctx, client, metadataClient, discover,
		t.typed.Core().V1().Namespaces(), 5*time.Minute, v1.FinalizerKubernetes)
	return func(ctx context.Context) { c.Run(ctx, 10) }, nil
}

// answered asks once and repeats that answer to the first caller: the namespace controller ends the whole process if
// the server tells it no resources while it is built.
func answered(discover func() ([]*metav1.APIResourceList, error)) (func() ([]*metav1.APIResourceList, error), error) {
	resources, err := discover()
	if len(resources) == 0 {
		return nil, fmt.Errorf("the server's resources cannot be listed: %w", cmp.Or(err, errors.New("its list is empty")))
	}
	var asked atomic.Bool
	return func() ([]*metav1.APIResourceList, error) {
		if asked.CompareAndSwap(false, true) {
			return resources, err
		}
		return discover()
	}, nil
}

func clusterRoles(ctx context.Context, t *term) (func(context.Context), error) {
	client, err := t.client("clusterrole-aggregation-controller")
	if err != nil {
		return nil, err
	}
	c := clusterroleaggregation.NewClusterRoleAggregation(calmRoles{t.typed.Rbac().V1().ClusterRoles(), ctx}, client.RbacV1())
	return func(ctx context.Context) { c.Run(ctx, 5) }, nil
}

func quotas(ctx context.Context, t *term) (func(context.Context), error) {
	client, err := t.client("resourcequota-controller")
	if err != nil {
		return nil, err
	}
	discover := client.Discovery().ServerPreferredNamespacedResources
	quota, err := quotainstall.NewQuotaConfigurationForControllers(generic.ListerFuncForResourceFunc(t.informers.ForResource), t.typed)
	if err != nil {
		return nil, err
	}
	// These evaluators look into the objects; for all others, the metadata is enough to count them.
	for _, evaluator := range quota.Evaluators() {
		t.informers.whole[evaluator.GroupResource()] = true
	}
	c, err := resourcequota.NewController(ctx, &resourcequota.ControllerOptions{
		QuotaClient:               client.CoreV1(),
		ResourceQuotaInformer:     t.typed.Core().V1().ResourceQuotas(),
		ResyncPeriod:              pkgcontroller.StaticResyncPeriodFunc(5 * time.Minute),
		InformerFactory:           t.informers,
		ReplenishmentResyncPeriod: resync,
		DiscoveryFunc:             discover,
		IgnoredResourcesFunc:      quota.IgnoredResources,
		InformersStarted:          t.informersStarted,
		Registry:                  generic.NewRegistry(quota.Evaluators()),
		UpdateFilter:              quotainstall.DefaultUpdateFilter(),
	})
	if err != nil {
		return nil, err
	}
	return both(func(ctx context.Context) { c.Run(ctx, 5) }, func(ctx context.Context) { c.Sync(ctx, discover, t.cfg.discovery) }), nil
}

func garbage(ctx context.Context, t *term) (func(context.Context), error) {
	client, err := t.client("generic-garbage-collector")
	if err != nil {
		return nil, err
	}
	metadataClient, err := metadata.NewForConfig(t.config("generic-garbage-collector"))
	if err != nil {
		return nil, err
	}
	graph := garbagecollector.NewDependencyGraphBuilder(ctx, metadataClient, t.mapper, garbagecollector.DefaultIgnoredResources(), t.informers, t.informersStarted)
	c, err := garbagecollector.NewComposedGarbageCollector(ctx, client, metadataClient, t.mapper, graph)
	if err != nil {
		return nil, fmt.Errorf("garbage collector: %w", err)
	}
	return both(func(ctx context.Context) { c.Run(ctx, 20, 30*time.Second) },
		func(ctx context.Context) { c.Sync(ctx, client.Discovery(), t.cfg.discovery) }), nil
}

// claimsInUse removes the finalizer that admission puts on every claim, once the claim is deleted and no pod uses it.
// Without it a deleted claim stays for ever.
func claimsInUse(ctx context.Context, t *term) (func(context.Context), error) {
	client, err := t.client("pvc-protection-controller")
	if err != nil {
		return nil, err
	}
	core := t.typed.Core().V1()
	c, err := pvcprotection.NewPVCProtectionController(klog.FromContext(ctx), core.PersistentVolumeClaims(), core.Pods(), client)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}

// volumesInUse does the same for volumes, once they are not bound.
func volumesInUse(ctx context.Context, t *term) (func(context.Context), error) {
	client, err := t.client("pv-protection-controller")
	if err != nil {
		return nil, err
	}
	c, err := pvprotection.NewPVProtectionController(klog.FromContext(ctx), t.typed.Core().V1().PersistentVolumes(), client)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}
