package bypass

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// event is what the hunt looks at of an audit event.
type event struct {
	AuditID          string
	Level            string
	Stage            string
	Verb             string
	RequestURI       string
	User             struct{ Username string }
	ImpersonatedUser *struct{ Username string }
	ObjectRef        *struct{ APIGroup, Resource, Subresource, Namespace, Name string }
	ResponseStatus   *struct{ Code int }
	RequestObject    json.RawMessage
	Annotations      map[string]string
}

// sink receives audit events as any collector would.
type sink struct {
	mu     sync.Mutex
	events map[string]event // complete ones, by audit ID
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var list struct{ Items []event }
	if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range list.Items {
		if e.Stage != "ResponseStarted" {
			if len(e.RequestObject) > 0 {
				e.RequestObject = json.RawMessage("true") // that there is one is enough
			}
			s.events[e.AuditID] = e
		}
	}
}

func (s *sink) get(id string) (event, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.events[id]
	return e, ok
}

// installSink records everything of the hunt: secrets at Metadata, everything else with its bodies.
func (w *world) installSink(t *testing.T) *sink {
	t.Helper()
	s := &sink{events: map[string]event{}}
	listener := httptest.NewServer(s)
	t.Cleanup(listener.Close)
	const own = "/apis/auditregistration.k8s.io/v1alpha1/"
	w.install(own+"auditclasses", `{"metadata": {"name": "hunt-secrets"}, "spec": {"rules": [{"groupResourceSelectors": [{"group": "", "resources": [{"kind": "secrets", "subresources": ["*"]}, {"kind": "secrets"}]}]}]}}`)
	w.install(own+"auditsinks", fmt.Sprintf(`{"metadata": {"name": "hunt"}, "spec": {"policy": {"level": "RequestResponse", "rules": [{"withAuditClass": "hunt-secrets", "level": "Metadata"}]},
		"webhook": {"throttle": {"qps": 1000, "burst": 1000}, "clientConfig": {"url": %q}}}}`, listener.URL))
	w.await("the sink", func() bool {
		o := w.admins("GET", "/version", nil)
		_, ok := s.get(o.auditID)
		return ok
	})
	return s
}
