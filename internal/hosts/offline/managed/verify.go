package managed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/analysis/compile"
)

// How long a cluster is asked before its policies count as enforced. A cluster can have several API servers, which
// learn of a policy one after the other, and a new connection can reach any of them.
const (
	inARow   = 20
	atLeast  = 10 * time.Second
	patience = 2 * time.Minute
	pause    = 500 * time.Millisecond
	// canaryNamespace is where canaries would be created, if a policy let them.
	canaryNamespace = "default"
)

// Verify asks until every policy has refused its canary, over new connections, many times in a row. This is evidence
// that all API servers enforce them, and not proof. A policy that was narrowed may still refuse its canary, so the
// objects must also be as they were compiled.
func (c *Cluster) Verify(ctx context.Context, result *compile.Result, done func(string)) error {
	names := policyNames(result)
	if len(names) == 0 {
		done("no policies to verify")
		return nil
	}
	start, row := time.Now(), 0
	for first := time.Now(); row < inARow || time.Since(first) < atLeast; row++ {
		err := c.round(ctx, names)
		switch {
		case err == nil:
		case time.Since(start) > patience:
			return fmt.Errorf("not enforced after %s: %w", patience, err)
		case fatal(err):
			return err
		default:
			first, row = time.Now(), -1
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
	if err := c.unchanged(ctx, result); err != nil {
		return err
	}
	done(fmt.Sprintf("%d policies refused %d canaries in a row, each", len(names), row))
	return nil
}

// unchanged is an error if the policies or bindings of a cluster are not as they were compiled.
func (c *Cluster) unchanged(ctx context.Context, result *compile.Result) error {
	objects, err := Objects(result.Policies)
	if err != nil {
		return err
	}
	for _, want := range objects {
		have, err := c.at(want).Get(ctx, want.GetName(), metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("%s: %w", compile.Name(want), err)
		}
		if !compile.Same(want, have) {
			return fmt.Errorf("%s is not as it was compiled: delete it, or let `proviso compile apply` repair it", compile.Name(want))
		}
	}
	return nil
}

func policyNames(result *compile.Result) (names []string) {
	objects, err := Objects(result.Policies)
	if err != nil {
		return nil
	}
	for _, o := range objects {
		if o.GetKind() == "ValidatingAdmissionPolicy" {
			names = append(names, o.GetName())
		}
	}
	return names
}

// errNotRefused is what a policy shows that is not enforced.
var errNotRefused = errors.New("the canary was not refused")

// fatal reports whether asking again is of no use.
func fatal(err error) bool {
	return !errors.Is(err, errNotRefused) && (apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err))
}

// round sends a canary to each policy over a connection of its own.
func (c *Cluster) round(ctx context.Context, names []string) error {
	client, err := rest.HTTPClientFor(c.config)
	if err != nil {
		return err
	}
	defer utilnet.CloseIdleConnectionsFor(client.Transport)
	canaries, err := dynamic.NewForConfigAndClient(c.config, client)
	if err != nil {
		return err
	}
	at := canaries.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(canaryNamespace)
	for _, name := range names {
		canary := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": canaryNamespace}}}
		_, err := at.Create(ctx, canary, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case err == nil:
			return fmt.Errorf("policy %s: %w", name, errNotRefused)
		case !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), compile.CanaryMessage):
			return fmt.Errorf("the canary of policy %s: %w", name, err)
		}
	}
	return nil
}
