package enforce

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
)

// mark is what makes a controller delete an object that carries it. A caller who is denied `delete` on the object may
// not change it.
type mark struct {
	resources           []schema.GroupResource
	labels, annotations []string
	// namespace is the only one in which the controller looks; "" is every one.
	namespace string
	// whole: while the object carries a label of the mark, the controller also looks at the rest of it.
	whole bool
	// then is what the controller does, for the refusal.
	then string
}

// marks are those of kube-apiserver itself and of the controllers of token secrets.
var marks = []mark{{
	resources:   []schema.GroupResource{secretResource},
	annotations: []string{corev1.ServiceAccountNameKey, corev1.ServiceAccountUIDKey},
	then:        "has the token controller delete the secret",
}, {
	resources: []schema.GroupResource{secretResource},
	labels:    []string{"kubernetes.io/legacy-token-invalid-since", "kubernetes.io/legacy-token-last-used"},
	then:      "has the cleaner of legacy tokens delete the secret",
}, {
	resources: []schema.GroupResource{{Group: "apiregistration.k8s.io", Resource: "apiservices"}},
	labels:    []string{"kube-aggregator.kubernetes.io/automanaged"},
	then:      "has the server delete the API service",
}, {
	resources: []schema.GroupResource{{Group: "coordination.k8s.io", Resource: "leases"}},
	labels:    []string{"apiserver.kubernetes.io/identity"},
	namespace: metav1.NamespaceSystem,
	whole:     true,
	then:      "has the server delete the lease when it expires",
}, {
	resources:   []schema.GroupResource{{Group: flowcontrolv1.GroupName, Resource: "flowschemas"}, {Group: flowcontrolv1.GroupName, Resource: "prioritylevelconfigurations"}},
	annotations: []string{flowcontrolv1.AutoUpdateAnnotationKey},
	then:        "has the server delete the object",
}, {
	resources: []schema.GroupResource{{Group: "networking.k8s.io", Resource: "ipaddresses"}},
	labels:    []string{"ipaddress.kubernetes.io/managed-by", "ipaddress.kubernetes.io/ip-family"},
	whole:     true,
	then:      "has the server delete the address",
}}

// marked refuses a change of a mark if the caller is denied `delete` on the object.
func (c *cause) marked(ctx context.Context, was, is metav1.Object) error {
	for i := range marks {
		m := &marks[i]
		if !slices.Contains(m.resources, c.GetResource().GroupResource()) || m.namespace != "" && m.namespace != c.GetNamespace() || !c.reached(c.GetNamespace()) {
			continue
		}
		what := m.change(was, is)
		if what == "" {
			continue
		}
		if why, denied := c.itself(ctx); denied {
			return forbidden(c, "changing "+what+" "+m.then+"; a rule denies you to delete it: "+why)
		}
	}
	return nil
}

// ends refuses an earlier end of a role binding of Policy if the server deletes those that have ended and the caller is
// denied `delete` on it.
func (c *cause) ends(ctx context.Context) error {
	was, old := c.GetOldObject().(*authz.RoleBinding)
	is, now := c.GetObject().(*authz.RoleBinding)
	if !c.Expires || !old || !now || is.NotAfter == nil || was.NotAfter != nil && !is.NotAfter.Before(was.NotAfter) || !c.reached(c.GetNamespace()) {
		return nil
	}
	if why, denied := c.itself(ctx); denied {
		return forbidden(c, "some time after notAfter, the server deletes the binding; a rule denies you to delete it: "+why)
	}
	return nil
}

// change returns what changes of the mark; empty if nothing does.
func (m *mark) change(was, is metav1.Object) string {
	for _, name := range m.annotations {
		if differs(was.GetAnnotations(), is.GetAnnotations(), name) {
			return "the annotation " + name
		}
	}
	for _, name := range m.labels {
		if differs(was.GetLabels(), is.GetLabels(), name) {
			return "the label " + name
		}
	}
	for _, name := range m.labels {
		if _, has := is.GetLabels()[name]; m.whole && has {
			return "an object with the label " + name
		}
	}
	return ""
}

func differs(was, is map[string]string, name string) bool {
	old, had := was[name]
	value, has := is[name]
	return old != value || had != has
}

// keeps reports whether the finalizers of the object still have its dependents orphaned, if they did, and do not have
// them deleted in the foreground, if they did not.
func keeps(was, is metav1.Object) bool {
	old, now := was.GetFinalizers(), is.GetFinalizers()
	orphaned := slices.Contains(old, metav1.FinalizerOrphanDependents) && !slices.Contains(now, metav1.FinalizerOrphanDependents)
	marked := !slices.Contains(old, metav1.FinalizerDeleteDependents) && slices.Contains(now, metav1.FinalizerDeleteDependents)
	return !orphaned && !marked
}
