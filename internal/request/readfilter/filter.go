package readfilter

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/warning"

	"proviso.dev/proviso/internal/engine/selectors"
	"proviso.dev/proviso/internal/request/answer"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/requestctx"
)

var (
	errPassedBy  = errors.New("a conditional permission cannot be used here: nothing decides what of this request may be seen")
	errUndecided = errors.New("a conditional permission cannot be used here: the resource does not come from where conditions of reads are decided")
)

// Filter narrows lists and watches whose caller may only see some objects, and drops responses to conditional reads
// that were not decided. It runs behind authorization and in front of every server.
func Filter(codecs runtime.NegotiatedSerializer, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		holder := requestctx.From(req.Context())
		attrs, ok := conditional(holder)
		if !ok {
			next.ServeHTTP(w, req)
			return
		}
		r := &reading{holder: holder, attrs: attrs}
		narrowed, err := r.narrow(req)
		if err != nil {
			responsewriters.ErrorNegotiated(err, codecs, schema.GroupVersion{Version: "v1"}, w, req)
			return
		}
		holder.Reads(r)
		held := answer.Serve(next, w, narrowed, answer.Rule{First: func(code int) answer.Fate {
			if code < http.StatusBadRequest && !r.decided.Load() {
				return answer.Drop
			}
			return answer.Pass
		}})
		if held.Fate() == answer.Drop {
			refused := apierrors.NewForbidden(schema.GroupResource{Group: attrs.GetAPIGroup(), Resource: attrs.GetResource()}, attrs.GetName(), errUndecided)
			responsewriters.ErrorNegotiated(refused, codecs, schema.GroupVersion{Version: "v1"}, held.Forget(), req)
		}
	})
}

// narrow returns the request with the selectors that its caller's right requires. It replaces the parameters: there is
// one of each, which combines what the caller asked for with what was added.
func (r *reading) narrow(req *http.Request) (*http.Request, error) {
	n := r.holder.Get(requestctx.Request).Narrowing()
	if n == nil {
		return req, nil
	}
	r.narrowing = n
	var err error
	if r.labels, r.fields, err = n.Box.Selectors(); err != nil {
		return nil, apierrors.NewForbidden(schema.GroupResource{Group: r.attrs.GetAPIGroup(), Resource: r.attrs.GetResource()}, "", err)
	}
	query := req.URL.Query()
	ls, err := labels.ParseToRequirements(query.Get("labelSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	fs, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	asked := fs.Requirements()
	if name := r.attrs.GetName(); name != "" && len(r.fields) > 0 {
		// One object is watched by its path: if there is a field selector, the handler wants the name in it.
		if _, ok := fs.RequiresExactMatch("metadata.name"); !ok {
			asked = append(asked, fields.Requirement{Operator: selection.Equals, Field: "metadata.name", Value: name})
		}
	}
	set(query, "labelSelector", selectors.LabelText(append(ls, r.labels...)))
	set(query, "fieldSelector", selectors.FieldText(append(slices.Clone(asked), r.fields...)))
	out := req.Clone(req.Context())
	out.URL.RawQuery = query.Encode()
	out.RequestURI = out.URL.RequestURI()
	if !n.IsEverything() {
		warning.AddWarning(req.Context(), "", added(n))
	}
	return out, nil
}

// added describes what was added, and by which rules.
func added(n *requestctx.Narrowing) string {
	rules := strings.Join(n.Rules, ", ")
	if n.Box.IsNothing() {
		return "no results: your access (condition " + rules + ") does not include the objects you selected"
	}
	if n.Union != nil {
		return "only what you may see is shown: " + authorize.SpellUnion(n.Union)
	}
	if n.Each == nil {
		return fmt.Sprintf("only what you may see is shown: %s was added by condition %s", n.Box, rules)
	}
	return "only what you may see is shown: each object is checked by condition " + rules
}

func set(query url.Values, name, value string) {
	if value == "" {
		query.Del(name)
		return
	}
	query.Set(name, value)
}
