package crdschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"proviso.dev/proviso/internal/request/requestctx"
)

const (
	jsonPatch  = string(types.JSONPatchType)
	mergePatch = string(types.MergePatchType)
)

// form is how a body is written.
type form int

const (
	formUnknown form = iota
	formJSON
	formYAML
	formTyped // cannot hold what the Go types do not have
	formCBOR
)

func formOf(r *http.Request) form {
	switch media := mediaType(r); media {
	case "":
		if r.Method == http.MethodPatch {
			return formUnknown
		}
		return formJSON
	case runtime.ContentTypeJSON, mergePatch, string(types.StrategicMergePatchType):
		return formJSON
	case runtime.ContentTypeYAML, string(types.ApplyYAMLPatchType):
		return formYAML
	case runtime.ContentTypeProtobuf:
		return formTyped
	case runtime.ContentTypeCBOR, string(types.ApplyCBORPatchType):
		return formCBOR
	}
	return formUnknown
}

// mediaType is the content type without its parameters, read as leniently as the server does.
func mediaType(r *http.Request) string {
	header := r.Header.Get("Content-Type")
	if media, _, err := mime.ParseMediaType(header); err == nil {
		return media
	}
	media, _, _ := bytes.Cut([]byte(header), []byte(";"))
	return string(bytes.ToLower(bytes.TrimSpace(media)))
}

func isMedia(r *http.Request, want string) bool { return mediaType(r) == want }

// liftObject takes the keys out of a body that is a definition, or the part of one that a merge or apply patch holds,
// and puts them into its annotation. A body without any goes on as it is.
func (f *Filter) liftObject(r *http.Request, info *request.RequestInfo) (*http.Request, error) {
	written := formOf(r)
	switch written {
	case formUnknown, formTyped:
		return r, nil // the server refuses the first and the second cannot carry anything
	case formCBOR:
		if !utilfeature.DefaultFeatureGate.Enabled(features.CBORServingAndStorage) {
			return r, nil // the server refuses it
		}
	}
	body, err := f.read(r)
	if err != nil {
		return nil, err
	}
	parse := parseJSON
	switch written {
	case formYAML:
		parse = parseYAML
	case formCBOR:
		parse = parseCBOR
	}
	doc, err := parse(body)
	if err != nil {
		return nil, badRequest(err)
	}
	if doc.duplicate != "" && doc.mentions {
		return nil, badRequest(fmt.Errorf("duplicate field %q", doc.duplicate))
	}
	applied := liftApplied(doc.root)
	l := lift(doc.root)
	if !l.carries && applied {
		return f.rewritten(r, doc.root, &carried{Versions: l.versions})
	}
	if !l.carries {
		return withBody(r.WithContext(requestctx.WithDefinition(r.Context(), &carried{Versions: l.versions})), body), nil
	}
	if info.Subresource != "" {
		// A write of the status contains the schema only because it contains the whole object, and does not change it.
		return f.rewritten(r, doc.root, &carried{})
	}
	if len(l.errs) > 0 {
		return nil, apierrors.NewInvalid(definitionKind, nameOf(doc.root, info), l.errs)
	}
	c := &carried{Versions: true}
	if c.Annotation, err = l.record.encode(); err != nil {
		return nil, badRequest(err)
	}
	if err := annotate(doc.root, c.Annotation, nameOf(doc.root, info)); err != nil {
		return nil, err
	}
	return f.rewritten(r, doc.root, c)
}

// annotate puts what was lifted into the annotation of the object.
func annotate(root any, text, name string) error {
	object, ok := root.(map[string]any)
	if !ok {
		return badRequest(fmt.Errorf("it is not an object"))
	}
	for _, member := range []string{"metadata", "annotations"} {
		if object[member] == nil {
			object[member] = map[string]any{}
		}
		if object, ok = object[member].(map[string]any); !ok {
			return badRequest(fmt.Errorf("%s is not an object", member))
		}
	}
	if object[Annotation] != nil {
		return apierrors.NewInvalid(definitionKind, name, field.ErrorList{field.Forbidden(field.NewPath("metadata", "annotations").Key(Annotation),
			"the server keeps this annotation: declare permissions in the schema alone")})
	}
	object[Annotation] = text
	return nil
}

func nameOf(root any, info *request.RequestInfo) string {
	if info.Name != "" {
		return info.Name
	}
	return text(at(root, "metadata")["name"])
}

// read takes the body within the limit.
func (f *Filter) read(r *http.Request) ([]byte, error) {
	defer func() { _ = r.Body.Close() }() // it was read to its end or given up
	if f.MaxBody <= 0 {
		return io.ReadAll(r.Body)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, f.MaxBody+1))
	if err != nil {
		return nil, badRequest(err)
	}
	if int64(len(body)) > f.MaxBody {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", f.MaxBody))
	}
	return body, nil
}

// rewritten sends a changed object on, as JSON, which every YAML reader takes too.
func (f *Filter) rewritten(r *http.Request, root any, c *carried) (*http.Request, error) {
	body, err := json.Marshal(root)
	if err != nil {
		return nil, badRequest(err)
	}
	switch mediaType(r) {
	case runtime.ContentTypeYAML, runtime.ContentTypeCBOR:
		r.Header.Set("Content-Type", runtime.ContentTypeJSON)
	case string(types.ApplyCBORPatchType):
		r.Header.Set("Content-Type", string(types.ApplyYAMLPatchType))
	}
	return withBody(r.WithContext(requestctx.WithDefinition(r.Context(), c)), body), nil
}

func withBody(r *http.Request, body []byte) *http.Request {
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return r
}
