package fieldpermissions

import (
	"context"
	"net/http"
	"sync"

	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"proviso.dev/proviso/internal/features/fieldpermissions/crdschema"
	"proviso.dev/proviso/internal/state/selfclient"
)

// liftDeclarations puts the filter in front of the servers that takes field permissions out of the schemas of custom
// resources, and shows them again.
func liftDeclarations(api http.Handler, clients *selfclient.Clients, codecs runtime.NegotiatedSerializer, maxBody int64) http.Handler {
	// The client is made when it is first used: the loopback configuration is not complete before the server is.
	client := sync.OnceValues(func() (*apiextensionsclient.ApiextensionsV1Client, error) {
		return apiextensionsclient.NewForConfig(clients.JSON())
	})
	return &crdschema.Filter{
		Next:       api,
		MaxBody:    maxBody,
		Serializer: codecs,
		Current: func(ctx context.Context, name string) ([]byte, error) {
			definitions, err := client()
			if err != nil {
				return nil, err
			}
			return definitions.RESTClient().Get().Resource("customresourcedefinitions").Name(name).Do(ctx).Raw()
		},
	}
}
