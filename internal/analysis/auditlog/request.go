package auditlog

import (
	"net/url"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/verbs"
)

// Request is one request, as it was recorded. Its texts and users may be kept; its bodies are valid until Each returns.
type Request struct {
	// Line is where it stands, from 1.
	Line int
	// Received is when it arrived.
	Received time.Time
	// Level is how much was recorded: Metadata, Request or RequestResponse.
	Level string
	// User made it, for the authorizers. With impersonation that is the impersonated user, and By the real one. Users
	// are shared between requests: do not change them.
	User, By *user.DefaultInfo
	// Constraint is the verb by which By was allowed to act as User, if impersonation was constrained.
	Constraint string

	Verb, URI                                              string
	Group, Version, Resource, Subresource, Namespace, Name string
	// Created is the name of an object that was created. Authorizers are not asked about it, so it is not Name.
	Created string
	// Code is the code of the response, 0 if it was not recorded. Decision is what the authorizers decided then,
	// "allow" or "forbid", if that was recorded.
	Code     int
	Decision string
	// Checks are the permissions for fields that were asked for, with the answers, as the server wrote them.
	Checks string

	// Object is what was sent, before anything changed it: the patch itself of a patch, options of a delete. Answer is
	// what was sent back: the object, or a Status.
	Object, Answer []byte
	// Annotations are all of them, as a JSON object; valid until Each returns.
	Annotations []byte
}

// IsResource reports whether a request is about a resource, not a path.
func (r *Request) IsResource() bool { return r.Resource != "" }

// Path is that of the URI.
func (r *Request) Path() string {
	path, _, _ := strings.Cut(r.URI, "?")
	if strings.Contains(path, "%") {
		if plain, err := url.PathUnescape(path); err == nil {
			return plain
		}
	}
	return path
}

// Attributes are what the authorizers were asked.
func (r *Request) Attributes() authorizer.AttributesRecord {
	a := authorizer.AttributesRecord{
		User: r.User, Verb: r.Verb, APIGroup: r.Group, APIVersion: r.Version, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
		ResourceRequest: r.IsResource(), Path: r.Path(),
	}
	if verbs.Selects(r.Verb) && strings.Contains(r.URI, "Selector=") {
		r.selectors(&a)
	}
	return a
}

// selectors are read as the server reads them. What cannot be read is an error in the attributes, as there.
func (r *Request) selectors(a *authorizer.AttributesRecord) {
	_, text, _ := strings.Cut(r.URI, "?")
	query, err := url.ParseQuery(text)
	if err != nil {
		a.FieldSelectorParsingErr, a.LabelSelectorParsingErr = err, err
		return
	}
	if text := query.Get("fieldSelector"); text != "" {
		selector, err := fields.ParseSelector(text)
		if a.FieldSelectorParsingErr = err; err == nil && len(selector.Requirements()) > 0 {
			a.FieldSelectorRequirements = selector.Requirements()
		}
	}
	if text := query.Get("labelSelector"); text != "" {
		selector, err := labels.Parse(text)
		if a.LabelSelectorParsingErr = err; err == nil {
			if requirements, _ := selector.Requirements(); len(requirements) > 0 {
				a.LabelSelectorRequirements = requirements
			}
		}
	}
}

// longRunning are the requests of which the server records the beginning of the response as well.
func (r *Request) longRunning() bool {
	switch r.Verb {
	case "watch", "proxy":
		return true
	}
	switch r.Subresource {
	case "attach", "exec", "proxy", "log", "portforward":
		return true
	}
	return !r.IsResource() && strings.HasPrefix(r.URI, "/debug/pprof/")
}
