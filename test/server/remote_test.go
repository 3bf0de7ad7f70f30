package server

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/internal/state/source"
)

// admined reaches our groups as an admin does.
type admined struct{ config *rest.Config }

func (a admined) Group(gv schema.GroupVersion) (*rest.RESTClient, error) {
	return source.Client(a.config, gv)
}

// remote reads the server as a cluster elsewhere. What it has arrives, also what comes later; a kind that is not served
// is none.
func (p *policyServer) remote(t *testing.T) {
	remote, err := source.NewBeside(rest.CopyConfig(p.s.admin), source.InformersConfig{
		Groups: admined{p.s.admin},
		Served: source.ServedFunc(func(kind snapshot.Kind) (bool, error) { return kind.Resource != "unicorns", nil }),
		Health: source.NewHealth(),
	})
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]snapshot.Objects{}
	for _, kind := range []snapshot.Kind{snapshot.Namespaces, snapshot.Policies, snapshot.PolicyBindings, snapshot.ClusterRoles, snapshot.Definitions} {
		found, err := remote.Objects(kind)
		if err != nil || found == nil {
			t.Fatalf("%s: %v, %v", kind.Resource, found, err)
		}
		objects[kind.Resource] = found
	}
	unknown := snapshot.Kind{GroupVersionResource: policyv1alpha1.SchemeGroupVersion.WithResource("unicorns"), Example: &policyv1alpha1.Policy{}}
	if found, err := remote.Objects(unknown); err != nil || found != nil {
		t.Errorf("a kind that is not served: %v, %v", found, err)
	}
	remote.Run(t.Context())
	arrives := func(resource, key string) {
		t.Helper()
		p.s.await(resource+" "+key, func() (bool, error) {
			_, found, err := objects[resource].GetIndexer().GetByKey(key)
			return found, err
		})
	}
	arrives("namespaces", "hammer")
	arrives("policies", "hammer/default")
	arrives("policybindings", "hammer/hammer")
	arrives("clusterroles", "cluster-admin")
	p.admin.must(t, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: remotes.example.com}, "+
		"spec: {group: example.com, scope: Namespaced, names: {plural: remotes, kind: Remote}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}")
	arrives("customresourcedefinitions", "remotes.example.com")
	p.admin.must(t, "POST", viewsIn("hammer", "roles"), roleYAML("later", `{verbs: [get], resourceKinds: [configmaps]}`))
	p.s.await("the role that came later", func() (bool, error) {
		obj, found, err := objects["policies"].GetIndexer().GetByKey("hammer/default")
		policy, ok := obj.(*policyv1alpha1.Policy)
		if !found || !ok {
			return false, err
		}
		_, has := policy.Roles["later"]
		return has, nil
	})
	policies, err := objects["policies"].GetIndexer().ByIndex("namespace", "hammer")
	if err != nil || len(policies) != 1 {
		t.Errorf("policies of the namespace: %v, %v", policies, err)
	}
}
