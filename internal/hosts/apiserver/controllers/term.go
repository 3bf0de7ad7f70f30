package controllers

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// term is one period of leadership: what the controllers share from its beginning to its end. Nothing outlives it.
type term struct {
	cfg              Config
	key              crypto.Signer
	typed            informers.SharedInformerFactory
	informers        *informerSet
	mapper           *restmapper.DeferredDiscoveryRESTMapper
	informersStarted chan struct{}
}

func (c *Controllers) newTerm() (*term, error) {
	t := &term{cfg: c.cfg, key: c.key, informersStarted: make(chan struct{})}
	client, err := t.client("shared-informers")
	if err != nil {
		return nil, err
	}
	metadataClient, err := metadata.NewForConfig(t.config("metadata-informers"))
	if err != nil {
		return nil, err
	}
	t.typed = informers.NewSharedInformerFactoryWithOptions(client, resync(), informers.WithTransform(withoutManagedFields))
	t.informers = newInformerSet(t.typed,
		metadatainformer.NewSharedInformerFactoryWithOptions(metadataClient, resync(), metadatainformer.WithTransform(withoutManagedFields)))
	t.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	return t, nil
}

// config returns a client configuration whose user agent names the controller. The limits are well above upstream's:
// the server is the same process, and these clients do not compete for the network.
func (t *term) config(name string) *rest.Config {
	config := withAgent(t.cfg.RestConfig, name)
	config.QPS, config.Burst = 500, 1000
	return config
}

func withAgent(config *rest.Config, name string) *rest.Config {
	config = rest.CopyConfig(config)
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	config.UserAgent += "/" + name
	return config
}

func (t *term) client(name string) (*kubernetes.Clientset, error) {
	config := t.config(name)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return kubernetes.NewForConfig(config)
}

// serve runs the chosen controllers until the context ends and all of them have stopped. It returns an error if they
// could not be started or one of them gave up.
func (c *Controllers) serve(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	t, err := c.newTerm()
	if err != nil {
		return err
	}
	runs := map[string]func(context.Context){}
	for _, controller := range c.chosen {
		if runs[controller.name], err = controller.build(ctx, t); err != nil {
			return fmt.Errorf("%s: %w", controller.name, err)
		}
	}
	// Whatever happens from here on, everything has stopped before the term is over.
	var group sync.WaitGroup
	defer t.informers.shutdown()
	defer group.Wait()
	defer cancel(nil)
	t.informers.Start(ctx.Done())
	close(t.informersStarted)
	for name, run := range runs {
		group.Go(func() {
			run(ctx)
			if ctx.Err() == nil {
				cancel(fmt.Errorf("%s stopped by itself", name))
			}
		})
	}
	// Upstream's mapper does not notice by itself that a resource came or went.
	group.Go(func() { wait.UntilWithContext(ctx, func(context.Context) { t.mapper.Reset() }, 30*time.Second) })
	for kind, synced := range t.typed.WaitForCacheSync(ctx.Done()) {
		if !synced && ctx.Err() == nil {
			return fmt.Errorf("informer of %v did not sync", kind)
		}
	}
	if ctx.Err() == nil {
		c.running.Store(true)
		defer c.running.Store(false)
		c.started()
	}
	<-ctx.Done()
	if cause := context.Cause(ctx); parent.Err() == nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

func both(a, b func(context.Context)) func(context.Context) {
	return func(ctx context.Context) {
		var group sync.WaitGroup
		defer group.Wait()
		group.Go(func() { a(ctx) })
		b(ctx)
	}
}
