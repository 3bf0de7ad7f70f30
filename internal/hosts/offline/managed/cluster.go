package managed

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/analysis/compile"
)

// kinds are the resources of all that is compiled, in the order in which they are created.
var kinds = []struct {
	kind     string
	resource schema.GroupVersionResource
	policy   bool
}{
	{"ValidatingAdmissionPolicy", schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}, true},
	{"ValidatingAdmissionPolicyBinding", schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"}, true},
	{"ClusterRole", schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, false},
	{"Role", schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}, false},
	{"ClusterRoleBinding", schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"}, false},
	{"RoleBinding", schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}, false},
}

// Cluster is a cluster that compiled objects are in.
type Cluster struct {
	config *rest.Config
	client dynamic.Interface
}

// NewCluster reaches a cluster.
func NewCluster(config *rest.Config) (*Cluster, error) {
	// A policy of some size has more objects, and canaries, than the five a second of a client that nobody told.
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 100, 200
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Cluster{config: config, client: client}, nil
}

// Read lists all objects of the kinds that are compiled.
func (c *Cluster) Read(ctx context.Context) (all []*unstructured.Unstructured, err error) {
	for _, k := range kinds {
		options := metav1.ListOptions{Limit: 500}
		for {
			list, err := c.client.Resource(k.resource).List(ctx, options)
			if err != nil {
				return nil, fmt.Errorf("listing %s: %w", k.resource.Resource, err)
			}
			for i := range list.Items {
				all = append(all, &list.Items[i])
			}
			if options.Continue = list.GetContinue(); options.Continue == "" {
				break
			}
		}
	}
	return all, nil
}

// Apply brings a cluster from whatever was compiled before to this result: new policies, verify, new grants, old grants
// away, old policies away. A grant never exists without its condition. Done is called after each step.
func (c *Cluster) Apply(ctx context.Context, result *compile.Result, done func(string)) error {
	policies, err := Objects(result.Policies)
	if err != nil {
		return err
	}
	grants, err := Objects(result.Grants)
	if err != nil {
		return err
	}
	there, err := c.Read(ctx)
	if err != nil {
		return err
	}
	wanted := slices.Concat(policies, grants)
	left := slices.DeleteFunc(slices.Clone(there), func(o *unstructured.Unstructured) bool {
		return o.GetLabels()[compile.ManagedBy] != compile.Manager || slices.ContainsFunc(wanted, func(w *unstructured.Unstructured) bool { return compile.Name(w) == compile.Name(o) })
	})
	if err := c.put(ctx, policies, there, done); err != nil {
		return err
	}
	if err := c.Verify(ctx, result, done); err != nil {
		return err
	}
	if err := c.put(ctx, grants, there, done); err != nil {
		return err
	}
	return c.remove(ctx, left, done)
}

// put creates missing objects, and repairs changed ones. Objects that equal the compiled ones are not touched.
func (c *Cluster) put(ctx context.Context, objects, there []*unstructured.Unstructured, done func(string)) error {
	for _, o := range objects {
		i := slices.IndexFunc(there, func(t *unstructured.Unstructured) bool { return compile.Name(t) == compile.Name(o) })
		if i >= 0 && compile.Same(o, there[i]) {
			continue
		}
		if err := c.write(ctx, o, i >= 0); err != nil {
			return fmt.Errorf("%s: %w", compile.Name(o), err)
		}
		done("applied " + compile.Name(o))
	}
	return nil
}

// write creates an object, or puts it in the place of one that was changed. The role of a binding cannot be changed,
// so that a grant is removed first.
func (c *Cluster) write(ctx context.Context, o *unstructured.Unstructured, replace bool) error {
	at := c.at(o)
	if at == nil {
		return errors.New("it is of a kind that is not compiled")
	}
	if !replace {
		_, err := at.Create(ctx, o, metav1.CreateOptions{})
		return err
	}
	if isPolicy(o) {
		old, err := at.Get(ctx, o.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		o = o.DeepCopy()
		o.SetResourceVersion(old.GetResourceVersion())
		_, err = at.Update(ctx, o, metav1.UpdateOptions{})
		return err
	}
	if err := at.Delete(ctx, o.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	_, err := at.Create(ctx, o, metav1.CreateOptions{})
	return err
}

// remove deletes objects in the reverse order of their creation: bindings before roles, and grants before policies.
func (c *Cluster) remove(ctx context.Context, objects []*unstructured.Unstructured, done func(string)) error {
	for i := len(kinds) - 1; i >= 0; i-- {
		for _, o := range objects {
			if o.GetKind() != kinds[i].kind {
				continue
			}
			if err := c.at(o).Delete(ctx, o.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s: %w", compile.Name(o), err)
			}
			done("removed " + compile.Name(o))
		}
	}
	return nil
}

// Remove removes all compiled objects: grants first.
func (c *Cluster) Remove(ctx context.Context, done func(string)) error {
	there, err := c.Read(ctx)
	if err != nil {
		return err
	}
	return c.remove(ctx, slices.DeleteFunc(there, func(o *unstructured.Unstructured) bool { return o.GetLabels()[compile.ManagedBy] != compile.Manager }), done)
}

func (c *Cluster) at(o *unstructured.Unstructured) dynamic.ResourceInterface {
	for _, k := range kinds {
		if k.kind != o.GetKind() {
			continue
		}
		if o.GetNamespace() != "" {
			return c.client.Resource(k.resource).Namespace(o.GetNamespace())
		}
		return c.client.Resource(k.resource)
	}
	return nil
}

func isPolicy(o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(kinds, func(k struct {
		kind     string
		resource schema.GroupVersionResource
		policy   bool
	}) bool {
		return k.policy && k.kind == o.GetKind()
	})
}
