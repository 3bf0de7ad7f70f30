package sidecar

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	// canaryPeriod leaves a proof time to be renewed before it ends, while proofs are needed. Otherwise there is one
	// each idlePeriod: a canary takes the API server some milliseconds.
	canaryPeriod = 400 * time.Millisecond
	idlePeriod   = time.Second
	// canaryGap is between two canaries that were wanted.
	canaryGap      = 50 * time.Millisecond
	canaryTimeout  = 5 * time.Second
	manifestPeriod = 20 * time.Millisecond
)

// canaryKinds are what it pretends to write, in turn: one path would prove that path only.
var canaryKinds = []struct{ path, apiVersion, kind string }{
	{"/apis/coordination.k8s.io/v1/namespaces/%s/leases/%s", "coordination.k8s.io/v1", "Lease"},
	{"/api/v1/namespaces/%s/configmaps/%s", "v1", "ConfigMap"},
	{"/api/v1/namespaces/%s/serviceaccounts/%s", "v1", "ServiceAccount"},
}

// sing sends canaries until the context ends.
func (p *proof) sing(ctx context.Context, config *rest.Config, namespace string) error {
	config = rest.CopyConfig(config)
	config.Timeout, config.QPS = canaryTimeout, -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	next := time.NewTimer(0)
	defer next.Stop()
	for i := 0; ; i++ {
		began := time.Now()
		p.once(ctx, client.CoreV1().RESTClient(), i, namespace)
		next.Reset(p.pause() - time.Since(began))
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		case <-p.wanted:
			next.Reset(canaryGap - time.Since(began))
			select {
			case <-ctx.Done():
				return nil
			case <-next.C:
			}
		}
	}
}

func (p *proof) once(ctx context.Context, client rest.Interface, turn int, namespace string) {
	kind := canaryKinds[turn%len(canaryKinds)]
	nonce := "canary-" + strings.ToLower(rand.Text())
	p.begin(nonce)
	body := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q}}`, kind.apiVersion, kind.kind, nonce)
	err := client.Patch(types.ApplyPatchType).AbsPath(fmt.Sprintf(kind.path, namespace, nonce)).Param("dryRun", "All").Param("fieldManager", "proviso-canary").Body([]byte(body)).Do(ctx).Error()
	var failure error
	switch {
	case err == nil, apierrors.IsForbidden(err): // a refusal of authorization is one without the nonce's words
	default:
		failure = fmt.Errorf("the canary cannot ask the API server: %w", err)
	}
	refused := err != nil && strings.Contains(err.Error(), refusal(nonce))
	if err != nil && failure == nil && !refused {
		failure = fmt.Errorf("the canary was refused by somebody else: %w", err)
	}
	p.end(refused, failure)
}

// watchManifest compares the directory of static manifests with what was written there, until the context ends. What
// cannot be read is a change. It looks more often than the API server does, which takes a tenth of a second.
func (p *proof) watchManifest(ctx context.Context, dir string, want map[string][]byte) {
	ticker := time.NewTicker(manifestPeriod)
	defer ticker.Stop()
	was := ""
	for {
		state, stamp := compareDir(dir, want), stampOf(dir, want)
		p.look(stamp != was, state)
		was = stamp
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// stampOf changes when a file was replaced meanwhile, even by the same.
func stampOf(dir string, want map[string][]byte) string {
	stamp := ""
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
			stamp += fmt.Sprintf("%s %d %d;", name, info.Size(), info.ModTime().UnixNano())
		}
	}
	if info, err := os.Stat(dir); err == nil {
		stamp += fmt.Sprint(info.ModTime().UnixNano())
	}
	return stamp
}

// compareDir is nil if a directory holds exactly these files.
func compareDir(dir string, want map[string][]byte) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("the static manifest of the admission webhook cannot be read: %w", err)
	}
	for _, e := range entries {
		if _, known := want[e.Name()]; !known && !strings.HasPrefix(e.Name(), ".") {
			return fmt.Errorf("%s holds %s, which `proviso sidecar init` did not write", dir, e.Name())
		}
	}
	for name, content := range want {
		is, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return fmt.Errorf("the static manifest of the admission webhook cannot be read: %w", err)
		}
		if string(is) != string(content) {
			return fmt.Errorf("%s/%s is not as `proviso sidecar init` wrote it", dir, name)
		}
	}
	return nil
}

// readyz is the check that says whether conditions are honoured.
func (p *proof) readyz(*http.Request) error { return p.Ready() }
