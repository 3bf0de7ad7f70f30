package reviewtest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/common"
)

// Provider is a storage provider as Kubernetes' server takes it.
type Provider interface {
	GroupName() string
	NewRESTStorage(serverstorage.APIResourceConfigSource, generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error)
}

// OpenAPI is where a server has its schemas from. It tracks managed fields by them.
type OpenAPI struct {
	Definitions common.GetOpenAPIDefinitions
	Schemes     []*runtime.Scheme
	// Publish makes the server serve the schemas, which takes definitions of all types that it serves.
	Publish bool
}

// Serve runs a server with the provider's group until the test ends. A request is authenticated as the user that its
// bearer token names, member of system:authenticated; without one it is anonymous.
func Serve(t testing.TB, p Provider, openapi OpenAPI) *rest.Config {
	t.Helper()
	scheme := runtime.NewScheme()
	core := schema.GroupVersion{Version: "v1"}
	metav1.AddToGroupVersion(scheme, core)
	scheme.AddUnversionedTypes(core, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	config := genericapiserver.NewConfig(serializer.NewCodecFactory(scheme))
	config.ExternalAddress = "127.0.0.1:443"
	config.LoopbackClientConfig = &rest.Config{}
	config.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	config.Authentication.Authenticator = authenticator.RequestFunc(authenticate)
	namer := openapinamer.NewDefinitionNamer(openapi.Schemes...)
	config.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(openapi.Definitions, namer)
	config.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(openapi.Definitions, namer)
	config.SkipOpenAPIInstallation = !openapi.Publish
	config.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	server, err := config.Complete(nil).New("reviews", genericapiserver.NewEmptyDelegate())
	if err != nil {
		t.Fatal(err)
	}
	enabled := serverstorage.NewResourceConfig()
	enabled.EnableVersions(schema.GroupVersion{Group: p.GroupName(), Version: "v1"})
	info, err := p.NewRESTStorage(enabled, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := server.InstallAPIGroup(&info); err != nil {
		t.Fatal(err)
	}
	server.PrepareRun()
	listener := httptest.NewServer(server.Handler)
	t.Cleanup(func() {
		listener.Close()
		server.Destroy()
	})
	return &rest.Config{Host: listener.URL, QPS: -1}
}

func authenticate(r *http.Request) (*authenticator.Response, bool, error) {
	name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return &authenticator.Response{User: &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}}, true, nil
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: name, Groups: []string{user.AllAuthenticated}}}, true, nil
}
