package crdschema

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Filter stands behind authorization and in front of the servers. It concerns itself with definitions of custom
// resources only.
type Filter struct {
	// Next serves everything.
	Next http.Handler
	// MaxBody is the server's limit for bodies, in bytes; not positive means none.
	MaxBody int64
	// Serializer writes refusals in the form that the client asked for.
	Serializer runtime.NegotiatedSerializer
	// Current reads a definition as JSON, through this filter. A JSON patch is applied to what its author sees.
	Current func(ctx context.Context, name string) ([]byte, error)
}

// ServeHTTP implements http.Handler.
func (f *Filter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	info, ok := request.RequestInfoFrom(r.Context())
	if !ok || !info.IsResourceRequest || info.APIGroup != definitions.Group || info.Resource != definitions.Resource ||
		info.Subresource != "" && info.Subresource != "status" {
		f.Next.ServeHTTP(w, r)
		return
	}
	inner := r.WithContext(r.Context())
	inner.Header = r.Header.Clone()
	if info.Verb == "watch" {
		inner.Header.Del("Accept-Encoding") // events that are compressed one by one cannot be told apart
	}
	var err error
	switch isJSONPatch := isMedia(inner, jsonPatch); {
	case info.Verb == "patch" && isJSONPatch && info.Subresource == "":
		var again *replay
		if inner, again, err = f.liftJSONPatch(inner, info); err == nil && again != nil {
			again.serve(w)
			return
		}
	case info.Verb == "create" || info.Verb == "update" || info.Verb == "patch" && !isJSONPatch:
		inner, err = f.liftObject(inner, info)
	}
	if err != nil {
		f.refuse(w, r, err)
		return
	}
	s := &shower{watch: info.Verb == "watch"}
	s.release(s.serve(f.Next, w, inner))
}

func (f *Filter) refuse(w http.ResponseWriter, r *http.Request, err error) {
	responsewriters.ErrorNegotiated(err, f.Serializer, schema.GroupVersion{Group: definitions.Group, Version: "v1"}, w, r)
}

func badRequest(err error) error {
	return apierrors.NewBadRequest("the definition cannot be read: " + err.Error())
}
