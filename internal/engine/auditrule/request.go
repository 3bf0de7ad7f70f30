package auditrule

import (
	"net/url"
	"strings"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// request is what rules look at. Index keeps it on the stack, so asking for a level does not allocate.
type request struct {
	authenticated bool
	user          string
	groups        []string

	verb       string
	isResource bool

	group, resource, subresource string
	namespace, name              string

	path string

	// The possible decisions; a request that has not ended may be decided in any way.
	decisions  decisions
	conditions conditions
	refused    bool // by the authorization filter, so its body was not read
}

// fromAttributes fills in a request. The server passes a record, whose fields are read directly: calls through the
// interface take a sixth of the whole time.
func fromAttributes(rq *request, attrs authorizer.Attributes) {
	rq.decisions, rq.conditions = anyDecision, either
	if r, ok := attrs.(*authorizer.AttributesRecord); ok {
		rq.from(r.User)
		rq.verb, rq.isResource = r.Verb, r.ResourceRequest
		if rq.isResource {
			rq.group, rq.resource, rq.subresource, rq.namespace, rq.name = r.APIGroup, r.Resource, r.Subresource, r.Namespace, r.Name
		} else {
			rq.path = r.Path
		}
		return
	}
	rq.from(attrs.GetUser())
	rq.verb = attrs.GetVerb()
	if rq.isResource = attrs.IsResourceRequest(); rq.isResource {
		rq.group, rq.resource, rq.subresource = attrs.GetAPIGroup(), attrs.GetResource(), attrs.GetSubresource()
		rq.namespace, rq.name = attrs.GetNamespace(), attrs.GetName()
		return
	}
	rq.path = attrs.GetPath()
}

// from fills in the user; nil if there is none.
func (rq *request) from(u user.Info) {
	switch u := u.(type) {
	case nil:
	case *user.DefaultInfo:
		rq.authenticated, rq.user, rq.groups = true, u.Name, u.Groups
	default:
		rq.authenticated, rq.user, rq.groups = true, u.GetName(), u.GetGroups()
	}
}

// fromEvent recovers what the audit filter looked at when the event's level was decided. The user is the authenticated
// one; the impersonated one is kept elsewhere in the event.
func fromEvent(rq *request, ev *auditinternal.Event) {
	rq.user, rq.groups = ev.User.Username, ev.User.Groups
	rq.authenticated = rq.user != "" || len(rq.groups) > 0 || ev.User.Extra != nil
	rq.verb = ev.Verb
	decisionOf(rq, ev)
	ref := ev.ObjectRef
	if ref == nil {
		rq.path = eventPath(ev)
		return
	}
	rq.isResource = true
	rq.group, rq.resource, rq.subresource = ref.APIGroup, ref.Resource, ref.Subresource
	rq.namespace, rq.name = ref.Namespace, ref.Name
	if rq.verb == "create" || rq.verb == "update" {
		// The handlers of these verbs fill the name and the namespace of the reference from the body, after the level
		// was decided. A rule must see what was decided on; otherwise the author of the body chooses the level.
		rq.namespace, rq.name = locate(eventPath(ev))
	}
}

// eventPath returns the path of the request without its query, decoded.
func eventPath(ev *auditinternal.Event) string {
	path, _, _ := strings.Cut(ev.RequestURI, "?")
	if strings.IndexByte(path, '%') >= 0 {
		if decoded, err := url.PathUnescape(path); err == nil {
			return decoded
		}
	}
	return path
}

// locate returns the namespace and the name in the path of a resource request whose verb came from its HTTP method:
// /api/VERSION/… or /apis/GROUP/VERSION/…, then [namespaces/NAMESPACE/]RESOURCE[/NAME[/…]].
func locate(path string) (namespace, name string) {
	prefix, rest := segment(strings.Trim(path, "/"))
	if prefix != "api" {
		_, rest = segment(rest)
	}
	_, rest = segment(rest)
	resource, rest := segment(rest)
	if resource != "namespaces" {
		name, _ = segment(rest)
		return "", name
	}
	if rest == "" {
		return "", ""
	}
	namespace, below := segment(rest)
	switch next, after := segment(below); {
	case len(below) == 0 && !strings.Contains(rest, "/"), next == "status", next == "finalize":
		return namespace, namespace // the namespace itself
	default:
		name, _ = segment(after)
		return namespace, name
	}
}

func segment(path string) (first, rest string) {
	first, rest, _ = strings.Cut(path, "/")
	return first, rest
}

// EventAttributes returns what the audit filter looked at when the event's level was decided, for evaluators that are
// not an Index.
func EventAttributes(ev *auditinternal.Event) authorizer.Attributes {
	var rq request
	fromEvent(&rq, ev)
	attrs := &authorizer.AttributesRecord{
		Verb: rq.verb, ResourceRequest: rq.isResource, Path: eventPath(ev),
		APIGroup: rq.group, Resource: rq.resource, Subresource: rq.subresource,
		Namespace: rq.namespace, Name: rq.name,
	}
	if rq.authenticated {
		attrs.User = &user.DefaultInfo{Name: rq.user, Groups: rq.groups}
	}
	if ref := ev.ObjectRef; ref != nil {
		attrs.APIVersion = ref.APIVersion
	}
	return attrs
}
