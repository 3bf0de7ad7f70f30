package dynamicaudit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/engine/auditrule"
	"proviso.dev/proviso/internal/features/dynamicaudit/sink"
	"proviso.dev/proviso/internal/features/feature"
)

// effective serves `proviso audit effective` (DA-18): the compiled policies of this server, to callers who may list
// sinks and classes.
type effective struct {
	kernel *feature.Kernel
	router *sink.Router
}

// ServeHTTP answers with a JSON list of auditrule.Effective.
func (e *effective) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	found, err := e.answer(r)
	if err != nil {
		responsewriters.ErrorNegotiated(err, e.kernel.Codecs, schema.GroupVersion{Version: "v1"}, w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_ = json.NewEncoder(w).Encode(found) // the client may have disconnected
}

func (e *effective) answer(r *http.Request) ([]auditrule.Effective, error) {
	if r.Method != http.MethodGet {
		return nil, apierrors.NewMethodNotSupported(schema.GroupResource{Resource: auditv1alpha1.EffectivePath}, r.Method)
	}
	if err := e.authorize(r.Context()); err != nil {
		return nil, err
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("query: %v", err))
	}
	for name := range values {
		if name != "sink" || len(values[name]) != 1 || values.Get(name) == "" {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("parameter %q: want sink, with the name of one audit sink", name))
		}
	}
	found := e.router.Effective(values.Get("sink"))
	if values.Has("sink") && len(found) == 0 {
		return nil, apierrors.NewNotFound(auditv1alpha1.SchemeGroupVersion.WithResource("auditsinks").GroupResource(), values.Get("sink"))
	}
	return found, nil
}

// authorize asks whether the caller may list sinks and classes without any condition.
func (e *effective) authorize(ctx context.Context) error {
	user, ok := request.UserFrom(ctx)
	for _, resource := range []string{"auditsinks", "auditclasses"} {
		gv := auditv1alpha1.SchemeGroupVersion
		attrs := authorizer.AttributesRecord{User: user, Verb: "list", APIGroup: gv.Group, APIVersion: gv.Version, Resource: resource, ResourceRequest: true}
		if !ok || unlessAllowed(ctx, e.kernel, attrs) != nil {
			return apierrors.NewForbidden(gv.WithResource(resource).GroupResource(), "", errors.New("the compiled audit policies are for those who may list auditsinks and auditclasses"))
		}
	}
	return nil
}
