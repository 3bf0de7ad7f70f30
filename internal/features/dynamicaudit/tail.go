package dynamicaudit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/apis/registry/validate"
	"proviso.dev/proviso/internal/features/dynamicaudit/sink"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/request/requestctx"
)

const (
	// auditTailPath streams live audit events. The normal authorization filter asks for get on it; the handler asks for
	// more.
	auditTailPath = auditv1alpha1.TailPath
	// tailRecheck is how long a user who may no longer write a sink still sees events.
	tailRecheck = 5 * time.Second
	// tailClass is the class built from the selectors of a request. It comes before a stored one of the same name, and
	// selectors exclude stored classes.
	tailClass = "selectors"
)

// auditTail serves `proviso audit tail` (DA-13): a user who may write a sink could read everything that a sink gets,
// and sees it here without leaving a sink behind.
type auditTail struct {
	kernel *feature.Kernel
	router *sink.Router
	// ended is closed when the server shuts down, which would wait for open streams otherwise.
	ended context.Context
}

// ServeHTTP streams one audit.k8s.io/v1 event per line until the client leaves, loses its right, or the server ends. A
// line of kind Dropped says how many events the client was too slow for.
func (t *auditTail) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fail := func(err error) {
		responsewriters.ErrorNegotiated(err, t.kernel.Codecs, schema.GroupVersion{Version: "v1"}, w, r)
	}
	flusher, ok := w.(http.Flusher)
	if !ok {
		fail(apierrors.NewInternalError(errors.New("the response cannot be streamed")))
		return
	}
	if r.Method != http.MethodGet {
		fail(apierrors.NewMethodNotSupported(schema.GroupResource{Resource: auditTailPath}, r.Method))
		return
	}
	if err := t.authorize(r.Context()); err != nil {
		fail(err)
		return
	}
	opts, err := tailOptions(r.URL.RawQuery)
	if err != nil {
		fail(apierrors.NewBadRequest(err.Error()))
		return
	}
	tail, err := t.router.Tail(opts)
	switch {
	case errors.Is(err, sink.ErrTailClosed):
		fail(apierrors.NewServiceUnavailable("the server shuts down"))
		return
	case err != nil:
		fail(apierrors.NewBadRequest(err.Error()))
		return
	}
	defer tail.Close()

	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(t.ended, cancel)()
	w.Header().Set("Content-Type", "application/jsonl")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
	flusher.Flush()
	for checked := time.Now(); ; {
		wait, done := context.WithTimeout(ctx, tailRecheck)
		events, dropped, err := tail.Next(wait)
		done()
		if ctx.Err() != nil || err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return
		}
		if time.Since(checked) >= tailRecheck {
			if t.authorize(r.Context()) != nil {
				return
			}
			checked = time.Now()
		}
		if dropped > 0 {
			if _, err := fmt.Fprintf(w, "{\"kind\":\"Dropped\",\"count\":%d}\n", dropped); err != nil {
				return
			}
		}
		for _, event := range events {
			if _, err := w.Write(append(event, '\n')); err != nil {
				return
			}
		}
		if len(events) > 0 {
			flusher.Flush()
		}
	}
}

// authorize checks, with the current policy and not with that of the start of the stream, whether the caller may write
// a sink without any condition.
func (t *auditTail) authorize(ctx context.Context) error {
	gr := auditv1alpha1.SchemeGroupVersion.WithResource("auditsinks").GroupResource()
	refuse := func(reason string) error {
		return apierrors.NewForbidden(gr, "", errors.New(strings.TrimSuffix("live audit events are for those who may create auditsinks: "+reason, ": ")))
	}
	user, ok := request.UserFrom(ctx)
	if !ok {
		return refuse("the request is not authenticated")
	}
	if why := unlessAllowed(ctx, t.kernel, authorizer.AttributesRecord{
		User: user, Verb: "create", APIGroup: gr.Group, APIVersion: auditv1alpha1.SchemeGroupVersion.Version, Resource: gr.Resource, ResourceRequest: true,
	}); why != nil {
		return refuse(*why)
	}
	return nil
}

// unlessAllowed is nil if the policy of now allows something without any condition, and otherwise why not.
func unlessAllowed(ctx context.Context, k *feature.Kernel, attrs authorizer.Attributes) *string {
	snap, instant := k.Store.Now()
	decision, reason, err := k.Gate.Chain.Authorize(requestctx.At(ctx, snap, instant), attrs)
	switch {
	case decision == authorizer.DecisionAllow:
		return nil
	case err != nil:
		reason = err.Error()
	}
	return &reason
}

// tailOptions reads what the client wants to see. An unknown parameter is an error: a misspelt selector must not show
// more.
func tailOptions(query string) (sink.TailOptions, error) {
	var opts sink.TailOptions
	values, err := url.ParseQuery(query)
	if err != nil {
		return opts, fmt.Errorf("query: %w", err)
	}
	known := []string{"level", "class", "verb", "user", "group", "resource", "namespace"}
	for name := range values {
		if !slices.Contains(known, name) {
			return opts, fmt.Errorf("parameter %q: want %s", name, strings.Join(known, ", "))
		}
	}
	levels := []string{string(auditv1alpha1.LevelMetadata), string(auditv1alpha1.LevelRequest), string(auditv1alpha1.LevelRequestResponse)}
	level := levels[0]
	if values.Has("level") {
		level = values.Get("level")
	}
	if !slices.Contains(levels, level) || len(values["level"]) > 1 {
		return opts, fmt.Errorf("level %q: want one of %s", strings.Join(values["level"], ","), strings.Join(levels, ", "))
	}
	classes := values["class"]
	delete(values, "level")
	delete(values, "class")
	switch {
	case len(classes) > 0 && len(values) > 0:
		return opts, errors.New("class: cannot be combined with selectors; a class has its own")
	case len(values) > 0:
		class := &auditv1alpha1.AuditClass{ObjectMeta: metav1.ObjectMeta{Name: tailClass}}
		class.Spec.Rules = tailRules(values)
		if err := validate.AuditClass(class).ToAggregate(); err != nil {
			return opts, err
		}
		opts.Classes, classes = []*auditv1alpha1.AuditClass{class}, []string{tailClass}
	case len(classes) == 0:
		opts.Policy.Level = auditv1alpha1.Level(level)
	}
	for i, class := range classes {
		if class == "" {
			return opts, field.Required(field.NewPath("class").Index(i), "name an audit class")
		}
		opts.Policy.Rules = append(opts.Policy.Rules, auditv1alpha1.PolicyRule{Level: auditv1alpha1.Level(level), WithAuditClass: class})
	}
	return opts, nil
}

// tailRules are the selectors as rules of a class: values of one parameter are alternatives, and all parameters must
// match.
func tailRules(values url.Values) []auditv1alpha1.Rule {
	rule := auditv1alpha1.Rule{Verbs: values["verb"]}
	if names := values["user"]; len(names) > 0 {
		rule.Subjects = append(rule.Subjects, auditv1alpha1.SubjectSelector{Type: auditv1alpha1.SubjectUser, Names: names})
	}
	if names := values["group"]; len(names) > 0 {
		rule.Subjects = append(rule.Subjects, auditv1alpha1.SubjectSelector{Type: auditv1alpha1.SubjectUserGroup, Names: names})
	}
	resources := values["resource"]
	if len(resources) == 0 && len(values["namespace"]) > 0 {
		resources = []string{"*.*/*", "*.*"}
	}
	for _, resource := range resources {
		name, subresource, _ := strings.Cut(resource, "/")
		gr := schema.ParseGroupResource(name)
		selector := auditv1alpha1.ResourceSelector{Kind: gr.Resource}
		if subresource != "" {
			selector.Subresources = []string{subresource}
		}
		s := auditv1alpha1.GroupResourceSelector{Group: gr.Group, Resources: []auditv1alpha1.ResourceSelector{selector}}
		if namespaces := values["namespace"]; len(namespaces) > 0 {
			s.Scope = auditv1alpha1.ScopeNamespaced
			for _, namespace := range namespaces {
				s.Namespaces = append(s.Namespaces, auditv1alpha1.NamespaceSelector{Name: namespace})
			}
		}
		rule.GroupResourceSelectors = append(rule.GroupResourceSelectors, s)
	}
	return []auditv1alpha1.Rule{rule}
}
