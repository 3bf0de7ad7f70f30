package sidecar

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
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
	canaryGap     = 50 * time.Millisecond
	canaryTimeout = 5 * time.Second
)

// canaryKinds are the kinds that it pretends to write, in turn: a single path would only prove that path.
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
		failure = fmt.Errorf("the canary was refused, but not by this sidecar: %w", err)
	}
	p.end(refused, failure)
}

// readyz is the check that says whether conditions are honoured.
func (p *proof) readyz(*http.Request) error { return p.Ready() }
