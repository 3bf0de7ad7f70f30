package fieldfilter

import (
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/warning"

	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/engine/hiddenfield"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/answer"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
)

// maxHeld is the largest response to a write that is held, in bytes.
const maxHeld = 16 << 20

// Wrap puts the filter in front of a handler.
func (f *Filters) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := f.sightOf(r.Context())
		if s == nil || !f.cfg.Served.Local(s.attrs.GetAPIGroup(), s.attrs.GetAPIVersion()) || connect.Connects(s.attrs.GetSubresource()) {
			next.ServeHTTP(w, r)
			return
		}
		if err := s.check(); err != nil {
			f.write(w, r, err)
			return
		}
		warning.AddWarning(r.Context(), "", s.warning())
		if !verbs.IsWrite(s.attrs.GetVerb()) {
			next.ServeHTTP(w, r)
			return
		}
		r, err := s.checkPatch(r)
		if err != nil {
			f.write(w, r, err)
			return
		}
		f.hold(next, w, r, s)
	})
}

func (f *Filters) write(w http.ResponseWriter, r *http.Request, err error) {
	responsewriters.ErrorNegotiated(err, f.cfg.Codecs, schema.GroupVersion{Version: "v1"}, w, r)
}

// warning says once what is hidden, and by which permission.
func (s *sight) warning() string {
	may := "are"
	if len(s.open) > 0 {
		may = "may be"
	}
	var needs []string
	for _, name := range s.fields.Permissions() {
		needs = append(needs, fieldperm.RevealPrefix+name)
	}
	return fmt.Sprintf("fields %s hidden from you: %s; seeing them takes %s", may, s.fields.Names(), strings.Join(needs, ", "))
}

// check refuses requests whose outcome would reveal something about a hidden field.
func (s *sight) check() error {
	if err := s.checkVersion(); err != nil {
		return err
	}
	if err := s.checkScale(); err != nil {
		return err
	}
	if !verbs.Selects(s.attrs.GetVerb()) {
		return nil
	}
	byField, _ := s.attrs.GetFieldSelector() // the handler refuses selectors that cannot be read
	for _, requirement := range byField {
		resource := resourceOf(s.attrs)
		p, known := authorize.SelectedField(resource, requirement.Field, s.filters.schemeOf(resource) == nil)
		if !known {
			return s.unselectable("fieldSelector", requirement.Field, "it is not known which field this is, and fields are hidden", s.fields...)
		}
		if h, hidden := s.fields.At(p); hidden {
			return s.unselectable("fieldSelector", requirement.Field, fmt.Sprintf("the field %s is hidden", h.Field), h)
		}
	}
	byLabel, _ := s.attrs.GetLabelSelector()
	for _, requirement := range byLabel {
		at := fieldperm.Path{fieldperm.Field("metadata"), fieldperm.Field("labels"), fieldperm.Key(requirement.Key())}
		if h, ok := s.fields.At(at); ok {
			return s.unselectable("labelSelector", requirement.Key(), fmt.Sprintf("the field %s is hidden", h.Field), h)
		}
	}
	return nil
}

// checkVersion refuses a version of a custom resource that a webhook converts to: it is unknown where the webhook puts
// a hidden field.
func (s *sight) checkVersion() error {
	resource := resourceOf(s.attrs)
	if s.filters.schemeOf(resource) != nil || !s.holder.Snapshot.Served.Converted(resource) {
		return nil
	}
	kind, err := s.kind()
	if err == nil && kind.Version != s.attrs.GetAPIVersion() {
		err = fmt.Errorf("fields are hidden from you (%s) that a webhook may put elsewhere in version %s: use version %s", s.fields.Names(), s.attrs.GetAPIVersion(), kind.Version)
	}
	if err != nil {
		return apierrors.NewForbidden(resource, s.attrs.GetName(), err)
	}
	return nil
}

// checkScale refuses to write a Scale that is made of a hidden field, as one may be that a definition got later: the
// response shows it.
func (s *sight) checkScale() error {
	if s.attrs.GetSubresource() != "scale" || !verbs.IsWrite(s.attrs.GetVerb()) {
		return nil
	}
	resource := resourceOf(s.attrs)
	shown := s.holder.Snapshot.Fields.ShownInScale(fieldperm.Resource{Group: resource.Group, Resource: resource.Resource})
	for _, h := range s.fields {
		if h.Field.OverlapsAny(shown) {
			return apierrors.NewForbidden(resource, s.attrs.GetName(), fmt.Errorf("its scale shows the field %s, which is hidden from you: writing it takes %s (%s)", h.Field, h.Verb(), h.Source))
		}
	}
	return nil
}

func (s *sight) unselectable(parameter, name, why string, hidden ...fieldperm.Hidden) error {
	kind := schema.GroupKind{Group: s.attrs.GetAPIGroup(), Kind: s.attrs.GetResource()}
	all := hiddenfield.Set(hidden)
	why += fmt.Sprintf(" from you: selecting by it takes %s (%s)", strings.Join(all.Verbs(), ", "), strings.Join(all.Sources(), ", "))
	return apierrors.NewInvalid(kind, s.attrs.GetName(), field.ErrorList{field.Forbidden(field.NewPath(parameter).Key(name), why)})
}

// hold serves a write and reduces its response to what the caller sees.
func (f *Filters) hold(next http.Handler, w http.ResponseWriter, r *http.Request, s *sight) {
	notes := requestctx.NotesOf(r.Context())
	if notes.Ledger() == nil {
		notes.Hold(requestctx.NewLedger(s.attrs.GetVerb() == verbs.DeleteCollection))
	}
	said := &warnings{}
	inner := r.WithContext(warning.WithWarningRecorder(r.Context(), said))
	inner.Header = plainAccept(r.Header)
	held := answer.Serve(next, w, inner, answer.Rule{Limit: maxHeld, First: func(int) answer.Fate { return answer.Hold }})
	if held.Fate() != answer.Hold {
		f.write(held.Forget(), r, apierrors.NewForbidden(resourceOf(s.attrs), s.attrs.GetName(), errTooLong))
		return
	}
	if held.Code() >= http.StatusBadRequest {
		f.fail(held, r, s)
		return
	}
	body, err := s.showAnswer(held.Header().Get("Content-Type"), held.Body())
	if err != nil {
		f.write(held.Forget(), r, (&store{resource: resourceOf(s.attrs)}).unshown(err))
		return
	}
	if s.attrs.GetVerb() == verbs.Create {
		said.release(r.Context())
	}
	held.Header().Del("Content-Length")
	held.Release(body)
}

// fail answers a write that failed. Errors after the stored object was read may quote it, and are replaced.
func (f *Filters) fail(held *answer.Writer, r *http.Request, s *sight) {
	status := &metav1.Status{}
	if ok := readStatus(f.cfg.Codecs, held.Header().Get("Content-Type"), held.Body(), status); ok && s.mayBeSaid(r.Context(), status) {
		held.Release(held.Body())
		return
	}
	status.Code = int32(held.Code())
	f.write(held.Forget(), r, s.unsaid(status))
}

// plainAccept removes tables, whose cells come from the whole object, and compression from what a client accepts.
func plainAccept(header http.Header) http.Header {
	out := header.Clone()
	out.Del("Accept-Encoding")
	var kept []string
	for _, line := range header.Values("Accept") {
		for _, clause := range strings.Split(line, ",") {
			if !strings.Contains(strings.ReplaceAll(strings.ToLower(clause), " ", ""), "as=table") {
				kept = append(kept, clause)
			}
		}
	}
	out.Del("Accept")
	if len(kept) > 0 {
		out.Set("Accept", strings.Join(kept, ","))
	}
	return out
}
