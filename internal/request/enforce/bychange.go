package enforce

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/verbs"
	"proviso.dev/proviso/internal/request/denial"
)

var (
	secretResource = schema.GroupResource{Resource: "secrets"}
	clusterRoles   = schema.GroupVersionResource{Group: rbacv1.GroupName, Version: "v1", Resource: "clusterroles"}
)

// tokenAnnotations name the service account of a token secret. The token controller deletes a secret whose account is
// not there.
var tokenAnnotations = []string{"kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"}

// rehomes refuses to give a token secret to another service account if the caller is denied to delete the secret.
func (c *cause) rehomes(ctx context.Context, was, is metav1.Object) error {
	if c.GetResource().GroupResource() != secretResource || !c.reached(c.GetNamespace()) {
		return nil
	}
	for _, name := range tokenAnnotations {
		old, had := was.GetAnnotations()[name]
		if value, has := is.GetAnnotations()[name]; old == value && had == has {
			continue
		}
		if why, denied := c.itself(ctx); denied {
			return forbidden(c, "changing the annotation "+name+" has the token controller delete the secret; a rule denies you to delete it: "+why)
		}
		return nil
	}
	return nil
}

// aggregates refuses to write or delete a cluster role that is gathered by another one which the caller is denied to
// change: the aggregation controller changes that one.
func (c *cause) aggregates(ctx context.Context, sets ...labels.Set) error {
	if c.GetResource().GroupResource() != clusterRoles.GroupResource() || c.GetSubresource() != "" {
		return nil
	}
	rules, request := c.snapshot().Rules, c.deletes(clusterRoles, "", "")
	request.Verb = verbs.Update
	if _, may := rules.MayDeny(request); !may {
		return nil
	}
	refuse := func(why string) error {
		return forbidden(c, "rules deny you changes of cluster roles, and the server cannot tell which of them gather this one: "+why)
	}
	all, more, err := c.Stored.List(ctx, clusterRoles, "", maxListed)
	switch {
	case err != nil:
		return refuse(err.Error())
	case more:
		return refuse(fmt.Sprintf("there are more than %d", maxListed))
	}
	for i := range all {
		request.Name = all[i].Name
		if _, may := rules.MayDeny(request); !may || request.Name == c.name() {
			continue
		}
		stored, err := c.Stored.Get(ctx, clusterRoles, "", request.Name)
		if err != nil {
			return refuse(err.Error())
		}
		var role rbacv1.ClusterRole
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, &role); err != nil {
			return refuse(err.Error())
		}
		if gathers, err := gathers(&role, sets); err != nil {
			return refuse(err.Error())
		} else if !gathers {
			continue
		}
		kind := schema.GroupVersionKind{Group: rbacv1.GroupName, Version: "v1", Kind: "ClusterRole"}
		out, denied := c.Denials.Denied(ctx, request, &facts{
			Attributes: admission.NewAttributesRecord(stored, stored, kind, "", request.Name, clusterRoles, "", admission.Update, &metav1.UpdateOptions{}, c.IsDryRun(), c.GetUserInfo()),
			data: expr.NewData(expr.DataConfig{Operation: string(admission.Update), Objects: expr.Static{New: stored, Old: stored}, OwnKind: true,
				Options: &metav1.UpdateOptions{}, Shared: expr.BudgetOf(ctx)}),
		})
		if denied {
			c.by.Rules, c.by.Ask = out.Conditions, &denial.Question{Attributes: request}
			return forbidden(c, fmt.Sprintf("cluster role %q gathers this one by its labels and would change; a rule denies you that: %s", request.Name, out.Reason))
		}
	}
	return nil
}

// gathers reports whether a cluster role takes its rules from others with one of these sets of labels.
func gathers(role *rbacv1.ClusterRole, sets []labels.Set) (bool, error) {
	if role.AggregationRule == nil {
		return false, nil
	}
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return false, err
		}
		for _, set := range sets {
			if selector.Matches(set) {
				return true, nil
			}
		}
	}
	return false, nil
}

// gathered looks at a new cluster role.
func (c *cause) gathered(ctx context.Context) error {
	m, err := meta.Accessor(c.GetObject())
	if err != nil {
		return nil //nolint:nilerr // without labels nothing gathers it
	}
	return c.aggregates(ctx, m.GetLabels())
}
