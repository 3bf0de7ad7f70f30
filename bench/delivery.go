package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/plugin/pkg/audit/buffered"
	"k8s.io/apiserver/plugin/pkg/audit/webhook"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/features/dynamicaudit/sink"
)

// delivery is the time per event until a local sink has it: ours through the spool on disk, upstream's webhook backend
// from memory, where what a crash finds is lost.
func delivery(b *bench) error {
	const name, n = "audit-delivery", 20_000
	if !b.wanted(name) {
		return nil
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var arrived atomic.Int64
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var list struct{ Items []json.RawMessage }
		if json.NewDecoder(r.Body).Decode(&list) == nil {
			arrived.Add(int64(len(list.Items)))
		}
	}))
	defer endpoint.Close()

	router, err := sink.New(sink.Config{Dir: filepath.Join(dir, "spool"), AllowInsecure: true})
	if err != nil {
		return err
	}
	url, qps, burst := endpoint.URL, int64(10_000), int64(10_000)
	router.Update([]*v1alpha1.AuditSink{{
		ObjectMeta: metav1.ObjectMeta{Name: "local", UID: "0f3a7c5e"},
		Spec: v1alpha1.AuditSinkSpec{
			Policy:  v1alpha1.Policy{Level: "Metadata"},
			Webhook: &v1alpha1.Webhook{Throttle: &v1alpha1.WebhookThrottleConfig{QPS: &qps, Burst: &burst}, ClientConfig: v1alpha1.WebhookClientConfig{URL: &url}},
		},
	}}, nil)
	kubeconfig := filepath.Join(dir, "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n", endpoint.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		return err
	}
	hook, err := webhook.NewBackend(kubeconfig, auditv1.SchemeGroupVersion, wait.Backoff{Duration: time.Second, Factor: 1, Steps: 3}, nil)
	if err != nil {
		return err
	}
	stock := buffered.NewBackend(hook, buffered.BatchConfig{BufferSize: 10_000, MaxBatchSize: 400, MaxBatchWait: 10 * time.Millisecond, AsyncDelegate: true})
	stop := make(chan struct{})
	defer func() {
		close(stop) // upstream's shutdown waits for it
		router.Shutdown()
		stock.Shutdown()
	}()
	for _, backend := range []audit.Backend{router, stock} {
		if err := backend.Run(stop); err != nil {
			return err
		}
	}

	var times [2][]float64
	for range max(3, b.rounds/5) {
		for i, backend := range []audit.Backend{router, stock} {
			took, err := deliver(backend, &arrived, n)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			times[i] = append(times[i], float64(took)/n)
		}
	}
	return b.report(result{Name: name, N: 1, Unit: "ns", Proviso: median(times[0]), Peer: "upstream-webhook", PeerIs: median(times[1]),
		Spread: max(spread(times[0]), spread(times[1]))})
}

// deliver sends events and waits until all have arrived. It never has more under way than upstream's buffer holds.
func deliver(backend audit.Backend, arrived *atomic.Int64, n int64) (time.Duration, error) {
	event := &auditinternal.Event{
		Level: auditinternal.LevelMetadata, Stage: auditinternal.StageResponseComplete, AuditID: "0f3a7c5e-0000-4000-8000-000000000000",
		Verb: "create", RequestURI: "/api/v1/namespaces/default/configmaps",
		ObjectRef:      &auditinternal.ObjectReference{Resource: "configmaps", Namespace: "default", Name: "x", APIVersion: "v1"},
		ResponseStatus: &metav1.Status{Code: 201},
	}
	event.User.Username = "edgar"
	begin, before := time.Now(), arrived.Load()
	for sent := range n {
		for sent-(arrived.Load()-before) > 9_000 {
			time.Sleep(50 * time.Microsecond)
		}
		backend.ProcessEvents(event)
	}
	for deadline := time.Now().Add(time.Minute); arrived.Load()-before < n; {
		if time.Now().After(deadline) {
			return 0, fmt.Errorf("%d of %d events arrived", arrived.Load()-before, n)
		}
		time.Sleep(50 * time.Microsecond)
	}
	return time.Since(begin), nil
}
