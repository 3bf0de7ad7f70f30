package discovery

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

type objects struct{ cache.Indexer }

func (objects) AddEventHandler(cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return nil, nil
}
func (o objects) GetIndexer() cache.Indexer { return o.Indexer }

// SV-8, SV-13: other servers are asked about the group versions that are theirs, and nothing else is asked: the
// document that puts everything together also has what peers serve, and keeps groups that are gone for whoever asks it
// at the wrong moment.
func TestAsksOtherServersOnly(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.URL.Path+" "+r.Header.Get("Accept"))
		_, _ = w.Write([]byte(`{"groupVersion": "other/v9", "resources": [{"name": "widgets", "kind": "Widget"}]}`))
	}))
	defer server.Close()
	client, err := discovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	services := objects{cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)}
	add := func(group string, service *apiregistration.ServiceReference) *apiregistration.APIService {
		s := &apiregistration.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1." + group}, Spec: apiregistration.APIServiceSpec{Group: group, Version: "v1", Service: service}}
		if err := services.Add(s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	add("local.io", nil)
	remote := add("remote.io", &apiregistration.ServiceReference{Name: "elsewhere"})
	d := NewDirectory(Config{Changed: func() {}})
	gv := schema.GroupVersion{Group: "remote.io", Version: "v1"}
	if !d.ask(t.Context(), client.RESTClient(), services) || len(asked) != 1 || asked[0] != "/apis/remote.io/v1 application/json" {
		t.Errorf("asked %q", asked)
	}
	if list := d.remote[gv]; len(d.remote) != 1 || list == nil || list.GroupVersion != "remote.io/v1" || len(list.APIResources) != 1 {
		t.Errorf("heard %v", d.remote)
	}
	if err := services.Delete(remote); err != nil {
		t.Fatal(err)
	}
	if !d.ask(t.Context(), client.RESTClient(), services) || len(asked) != 1 || len(d.remote) != 0 {
		t.Errorf("a server that is gone: asked %q, knows %v", asked, d.remote)
	}
}
