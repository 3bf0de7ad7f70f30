package source

import (
	"context"

	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apiextensionsinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/state/policycodec"
	"proviso.dev/proviso/internal/state/snapshot"
)

// Remote is a cluster elsewhere, as far as a configuration may read it.
type Remote struct {
	*Informers
	kube   informers.SharedInformerFactory
	custom apiextensionsinformers.SharedInformerFactory
}

// NewBeside is for a host beside a cluster that serves our groups itself: built-in kinds come from the cluster, and the
// rest from cfg.
func NewBeside(config *rest.Config, cfg InformersConfig) (*Remote, error) {
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	extensions, err := apiextensionsclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	slim := func(obj any) (any, error) { return withoutManagers(obj), nil }
	r := &Remote{
		kube:   informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(slim)),
		custom: apiextensionsinformers.NewSharedInformerFactoryWithOptions(extensions, 0, apiextensionsinformers.WithTransform(slim)),
	}
	cfg.Cluster = cluster{client}
	cfg.Given = map[schema.GroupVersionResource]snapshot.Objects{snapshot.Definitions.GroupVersionResource: r.custom.Apiextensions().V1().CustomResourceDefinitions().Informer()}
	r.Informers = NewInformers(cfg)
	return r, nil
}

// cluster is an existing client.
type cluster struct{ kubernetes.Interface }

// Kubernetes implements Cluster.
func (c cluster) Kubernetes() (kubernetes.Interface, error) { return c.Interface, nil }

// Kube has the built-in kinds of the cluster.
func (r *Remote) Kube() informers.SharedInformerFactory { return r.kube }

// Run reads the cluster until the context ends.
func (r *Remote) Run(ctx context.Context) {
	r.kube.Start(ctx.Done())
	r.custom.Start(ctx.Done())
	r.Informers.Run(ctx)
}

// Client reaches one of our own groups with a configuration.
func Client(config *rest.Config, gv schema.GroupVersion) (*rest.RESTClient, error) {
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	config.APIPath = "/apis"
	config.GroupVersion = &gv
	config.NegotiatedSerializer = policycodec.Codecs.WithoutConversion()
	return rest.RESTClientFor(config)
}
