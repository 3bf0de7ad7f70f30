package bypass

import (
	"strings"
	"testing"
	"time"

	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/request/enforce"
)

// audit: DA-3, DA-6, DA-8. Every request of the hunt, allowed or refused, is in the sink: with who made it, in whose
// name, the verb, the resource and the answer, at the level that the sink asks for.
func (w *world) audit(t *testing.T) {
	made := w.ledger.made
	if len(made) < 10000 && !w.partial {
		t.Errorf("the hunt made %d requests only", len(made))
	}
	deadline := time.Now().Add(4 * time.Minute)
	missing, wrong, unanswered := 0, 0, 0
	for _, o := range made {
		if notAudited(o) {
			continue
		}
		e, ok := w.sink.get(o.auditID)
		for ; !ok && time.Now().Before(deadline); e, ok = w.sink.get(o.auditID) {
			time.Sleep(10 * time.Millisecond)
		}
		if o.code == 0 {
			unanswered++
		}
		if !ok {
			if missing++; missing < 20 {
				t.Errorf("not in the sink: %s", o)
			}
			continue
		}
		if reason := differs(o, e); reason != "" {
			if wrong++; wrong < 20 {
				t.Errorf("%s: %s\nthe event is %+v", reason, o, e)
			}
		}
	}
	t.Logf("%d requests, %d unanswered, %d not in the sink, %d recorded otherwise", len(made), unanswered, missing, wrong)
}

// differs tells in what an event is not what was done.
func differs(o outcome, e event) string {
	level := "RequestResponse"
	if o.endpoint.Group == "" && o.endpoint.Resource == "secrets" {
		level = "Metadata"
	}
	as := ""
	if e.ImpersonatedUser != nil {
		as = e.ImpersonatedUser.Username
	}
	switch {
	case e.User.Username != o.user:
		return "another user"
	case as != o.as && !(as == "" && o.code == 403): // nobody was impersonated if that was refused
		return "in another name"
	case o.way == "odd path":
		return "" // that it is on record is enough: what it is about is what it is odd in
	case e.Verb != o.verb:
		return "another verb"
	case o.code != 0 && (e.ResponseStatus == nil || e.ResponseStatus.Code != o.code):
		return "another answer"
	case e.Level != level:
		return "another level"
	case o.endpoint.Resource != "" && (e.ObjectRef == nil || e.ObjectRef.Resource != o.endpoint.Resource || e.ObjectRef.Subresource != o.endpoint.sub || e.ObjectRef.APIGroup != o.endpoint.Group):
		return "another resource"
	case o.user == "see-mine" && o.succeeded() && strings.Contains(e.Annotations["authorization.k8s.io/reason"], "as the selectors imply its condition"):
		return "" // CA-16: what is not in the generic store is not narrowed
	case o.user == "see-mine" && o.succeeded() && e.Annotations[authorize.AnnotationPending] == "":
		return "no word of the condition" // RD-4: the event knows better than the caller
	case o.user == "see-mine" && o.succeeded() && o.verb == "get" && e.Annotations[enforce.AnnotationDecision] != "allow":
		return "no word of the decision"
	case level == "Metadata" && e.RequestObject != nil:
		return "a body that the sink did not ask for"
	case level != "Metadata" && e.RequestObject == nil && o.succeeded() && o.verb == "create" && !o.endpoint.isConnect() && o.endpoint.Group != "agg.example.com" && !bodiless(o):
		return "no body"
	}
	return ""
}
