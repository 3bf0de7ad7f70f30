package server

import (
	"context"
	"net/http"
	"sync"

	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/crdschema"
)

// liftDeclarations puts the filter in front of the servers that takes field permissions out of the schemas of custom
// resources, and shows them again.
func liftDeclarations(api http.Handler, c *genericapiserver.Config) http.Handler {
	// The client is made when it is first used: the loopback configuration is not complete before the server is.
	client := sync.OnceValues(func() (*apiextensionsclient.ApiextensionsV1Client, error) {
		loopback := rest.CopyConfig(c.LoopbackClientConfig)
		loopback.ContentType, loopback.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
		return apiextensionsclient.NewForConfig(loopback)
	})
	return &crdschema.Filter{
		Next:       api,
		MaxBody:    c.MaxRequestBodyBytes,
		Serializer: c.Serializer,
		Current: func(ctx context.Context, name string) ([]byte, error) {
			definitions, err := client()
			if err != nil {
				return nil, err
			}
			return definitions.RESTClient().Get().Resource("customresourcedefinitions").Name(name).Do(ctx).Raw()
		},
	}
}
