package fieldfilter

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"proviso.dev/proviso/internal/engine/hiddenfield"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/requestctx"
)

// patch is what the filter passes to admission about a patch.
type patch struct {
	// applies is set for server-side apply, by a manager.
	applies bool
	manager string
	// touched are the hidden fields that it sets, and applied is set if it writes what kubectl applied.
	touched hiddenfield.Set
	applied bool
}

type patchKey struct{}

// checkPatch reads the body of a patch, since admission sees only its result, and restores the body.
func (s *sight) checkPatch(r *http.Request) (*http.Request, error) {
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if s.attrs.GetVerb() != verbs.Patch {
		return r, nil
	}
	p := &patch{}
	requestctx.NotesOf(r.Context()).Keep(patchKey{}, func() any { return p })
	if strings.HasPrefix(kind, "application/apply-patch") {
		p.applies, p.manager = true, r.URL.Query().Get("fieldManager")
		return r, nil
	}
	resource := resourceOf(s.attrs)
	declared, err := s.kind()
	if err != nil {
		return r, apierrors.NewForbidden(resource, s.attrs.GetName(), err)
	}
	if s.filters.schemeOf(resource) != nil && declared.Version != s.attrs.GetAPIVersion() {
		return r, apierrors.NewForbidden(resource, s.attrs.GetName(), fmt.Errorf("fields are hidden from you (%s): patch version %s", s.fields.Names(), declared.Version))
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, s.filters.cfg.MaxBody+1))
	if err != nil {
		return r, apierrors.NewBadRequest("the body cannot be read")
	}
	if int64(len(body)) > s.filters.cfg.MaxBody {
		return r, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", s.filters.cfg.MaxBody))
	}
	switch types.PatchType(kind) {
	case types.JSONPatchType:
		body, err = s.fields.JSONPatch(body)
	case types.MergePatchType:
		body, err = s.fields.MergePatch(body, false)
	case types.StrategicMergePatchType:
		body, err = s.fields.MergePatch(body, true)
	}
	switch {
	case errors.Is(err, hiddenfield.ErrUnreadable):
		return r, apierrors.NewBadRequest(err.Error())
	case err != nil:
		return r, apierrors.NewForbidden(resource, s.attrs.GetName(), err)
	}
	p.touched, p.applied = s.fields.Touched(body), hiddenfield.WritesApplied(body)
	out := r.WithContext(r.Context())
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return out, nil
}
