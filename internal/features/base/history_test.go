package base

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"

	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/request/turns"
	"proviso.dev/proviso/internal/state/journal"
)

// NI-6: everybody may ask for the journal. A user who asks many times, and does not read the answers, keeps nobody else
// from it.
func TestReadersOfTheJournalTakeTurns(t *testing.T) {
	h := &history{kernel: &feature.Kernel{Codecs: scheme.Codecs}, journal: journal.New(journal.Config{}), turns: turns.Queue{Slots: 2}}
	eve := &user.DefaultInfo{Name: "eve"}
	done, err := h.turns.Take(t.Context(), eve)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	ask := func(who user.Info) chan int {
		answered := make(chan int, 1)
		go func() {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), who)))
			}))
			defer server.Close()
			got, err := http.Get(server.URL)
			if err != nil {
				answered <- 0
				return
			}
			_ = got.Body.Close()
			answered <- got.StatusCode
		}()
		return answered
	}
	hers := ask(eve)
	if code := <-ask(&user.DefaultInfo{Name: "ann"}); code != http.StatusNotFound { // no journal is kept here
		t.Errorf("ann: %d", code)
	}
	select {
	case code := <-hers:
		t.Errorf("eve has two turns: %d", code)
	case <-time.After(10 * time.Millisecond):
	}
	done()
	if code := <-hers; code != http.StatusNotFound {
		t.Errorf("eve: %d", code)
	}
}
