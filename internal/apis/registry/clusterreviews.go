package registry

import (
	"net/http"
	"strings"

	"github.com/emicklei/go-restful/v3"
	genericapiserver "k8s.io/apiserver/pkg/server"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
)

// ServeClusterReviews lets the reviews be asked without a namespace as well. Kubernetes' installer serves a namespaced
// resource across namespaces for lists only, so the path is added here, with the very handler of the namespaced one: it
// takes the namespace from the request, which then has none, and the request is authorized cluster-wide. Call it once,
// after InstallAPIGroups and before PrepareRun. It does nothing for reviews that are not served.
func ServeClusterReviews(server *genericapiserver.GenericAPIServer) {
	root := genericapiserver.APIGroupPrefix + "/" + authz.SchemeGroupVersion.String()
	for _, ws := range server.Handler.GoRestfulContainer.RegisteredWebServices() {
		if ws.RootPath() != root {
			continue
		}
		for _, resource := range []string{"resourceaccessreviews", "subjectaccessreviews"} {
			alsoWithoutNamespace(ws, resource)
		}
	}
}

func alsoWithoutNamespace(ws *restful.WebService, resource string) {
	namespaced := ws.RootPath() + "/namespaces/{namespace}/" + resource
	for _, route := range ws.Routes() {
		if route.Method != http.MethodPost || route.Path != namespaced {
			continue
		}
		added := ws.POST(resource).To(route.Function).
			Doc(route.Doc+" about the whole cluster").
			Operation(strings.Replace(route.Operation, "createNamespaced", "create", 1)+"ForCluster").
			Consumes(route.Consumes...).
			Produces(route.Produces...).
			Reads(route.ReadSample).
			Writes(route.WriteSample).
			Returns(http.StatusCreated, "Created", route.WriteSample)
		for _, param := range route.ParameterDocs {
			if kind := param.Data().Kind; kind == restful.QueryParameterKind {
				added.Param(param)
			}
		}
		for key, value := range route.Metadata {
			added.Metadata(key, value)
		}
		ws.Route(added)
		return
	}
}
