package sidecar

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/engine/auditrule"
	"proviso.dev/proviso/internal/state/snapshot"
)

// compareAttempts is how often policy is read before it counts as different: it may change meanwhile.
const compareAttempts = 3

// peers compares the policy behind every API server of the cluster (SC-3). Each of them reaches the sidecar of its own
// machine, so each is asked.
func (c *checker) peers(ctx context.Context) []string {
	servers, err := c.servers(ctx)
	if err != nil {
		return []string{fmt.Sprintf("the API servers of the cluster cannot be listed: %s; run `kubectl apply -f %s`", explain(err), filepath.Join(c.dir, "cluster.yaml"))}
	}
	if len(servers) < 2 {
		return nil
	}
	return c.samePolicy(ctx, servers)
}

// servers are the addresses of all API servers, as they publish them.
func (c *checker) servers(ctx context.Context) (all []string, err error) {
	client, err := kubernetes.NewForConfig(c.config(c.files.SidecarCert, c.files.SidecarKey))
	if err != nil {
		return nil, err
	}
	slicesOf, err := client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=kubernetes"})
	if err != nil {
		return nil, err
	}
	for _, s := range slicesOf.Items {
		for _, e := range s.Endpoints {
			for _, address := range e.Addresses {
				for _, port := range s.Ports {
					if port.Port != nil {
						all = append(all, "https://"+net.JoinHostPort(address, strconv.Itoa(int(*port.Port))))
					}
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// samePolicy names the servers behind which there is another policy than behind ours.
func (c *checker) samePolicy(ctx context.Context, servers []string) (problems []string) {
	for _, server := range servers {
		for attempt := 1; ; attempt++ {
			ours, err := c.fingerprint(ctx, c.settings.Server)
			if err != nil {
				return append(problems, fmt.Sprintf("the policy cannot be read through %s: %s", c.settings.Server, explain(err)))
			}
			theirs, err := c.fingerprint(ctx, server)
			if err != nil {
				problems = append(problems, fmt.Sprintf("the policy of the sidecar at %s cannot be read: %s", server, explain(err)))
				break
			}
			if maps.Equal(ours, theirs) {
				break
			}
			if attempt == compareAttempts {
				problems = append(problems, fmt.Sprintf("the sidecar at %s has another policy than this one: give both the same etcd with `proviso sidecar init --etcd-servers`", server))
				break
			}
		}
	}
	return problems
}

// fingerprint identifies a store of policy: its objects, with their versions.
func (c *checker) fingerprint(ctx context.Context, server string) (map[string]string, error) {
	config := c.config(c.files.SidecarCert, c.files.SidecarKey)
	config.Host = server
	client, err := metadata.NewForConfig(rest.CopyConfig(config))
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, kind := range []snapshot.Kind{snapshot.Policies, snapshot.PolicyBindings} {
		list, err := client.Resource(kind.GroupVersionResource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, o := range list.Items {
			all[kind.Resource+" "+o.Namespace+"/"+o.Name] = string(o.UID) + " " + o.ResourceVersion
		}
	}
	return all, nil
}

// audited says where the audit policy of the API server gives sinks less than they ask for (SC-10).
func (c *checker) audited() (warnings []string) {
	path := filepath.Join(c.dir, "audit-policy.yaml")
	text, err := os.ReadFile(path)
	var policy auditv1.Policy
	if err == nil {
		err = yaml.UnmarshalStrict(text, &policy)
	}
	if err != nil {
		return []string{fmt.Sprintf("the audit policy cannot be read: %v", err)}
	}
	has := auditrule.None
	for _, r := range policy.Rules {
		level, _ := auditrule.LevelOf(r.Level)
		has = max(has, level)
	}
	for _, sink := range slices.Sorted(maps.Keys(c.said.Audit)) {
		if wants, _ := auditrule.LevelOf(c.said.Audit[sink]); wants > has {
			warnings = append(warnings, fmt.Sprintf("audit sink %s asks for level %s, and %s has %s at most: run `proviso sidecar init` again with --audit-level=%s and restart the API server",
				sink, wants, path, has, wants))
		}
	}
	return warnings
}
