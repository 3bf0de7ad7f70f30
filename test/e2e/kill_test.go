package e2e

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// SV-9: kill -9 in the middle of writes, again and again; every write that was acknowledged is there afterwards.
func TestKillLosesNoAcknowledgedWrite(t *testing.T) {
	t.Parallel()
	dir := tempDir(t) + "/d"
	var mu sync.Mutex
	acknowledged := map[string]bool{}
	rounds := soak(3)
	for round := range rounds {
		s := serve(t, dir)
		config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		config.QPS = -1
		client := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
		ctx, cancel := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		enough := make(chan struct{})
		var once sync.Once
		for w := range 4 {
			writers.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					name := fmt.Sprintf("r%d-w%d-%d", round, w, i)
					if _, err := client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
						return // the server is gone: nothing was acknowledged
					}
					mu.Lock()
					acknowledged[name] = true
					n := len(acknowledged)
					mu.Unlock()
					if n > (round+1)*200 {
						once.Do(func() { close(enough) })
					}
				}
			})
		}
		<-enough
		s.signal(syscall.SIGKILL)
		s.wait()
		cancel()
		writers.Wait()
	}

	s := serve(t, dir)
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	list, err := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, cm := range list.Items {
		delete(acknowledged, cm.Name)
	}
	if len(acknowledged) > 0 {
		t.Errorf("%d acknowledged writes are lost, such as %v", len(acknowledged), firstOf(acknowledged))
	}
}

func firstOf(m map[string]bool) string {
	for k := range m {
		return k
	}
	return ""
}
