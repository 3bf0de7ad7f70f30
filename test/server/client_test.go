package server

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	audit "proviso.dev/proviso/api/auditregistration/v1alpha1"
	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
	auditapply "proviso.dev/proviso/client/applyconfiguration/auditregistration/v1alpha1"
	authzapply "proviso.dev/proviso/client/applyconfiguration/authorization/v1alpha1"
	policyapply "proviso.dev/proviso/client/applyconfiguration/policy/v1alpha1"
	"proviso.dev/proviso/client/clientset/versioned"
	"proviso.dev/proviso/client/informers/externalversions"
)

// typed is what the typed client does with one kind: it creates an object and applies a label to it, while an informer
// watches.
type typed struct {
	kind     string
	object   metav1.Object // what is created
	create   func(context.Context) error
	apply    func(context.Context, map[string]string) error
	informer cache.SharedIndexInformer
}

// write binds the two writes of a typed client to an object and to what is applied.
func write[T metav1.Object, A any](kind string, informer cache.SharedIndexInformer, object T,
	create func(context.Context, T, metav1.CreateOptions) (T, error),
	configuration func(labels map[string]string) A, apply func(context.Context, A, metav1.ApplyOptions) (T, error)) typed {
	return typed{kind: kind, object: object, informer: informer,
		create: func(ctx context.Context) error {
			_, err := create(ctx, object, metav1.CreateOptions{FieldManager: "creator"})
			return err
		},
		apply: func(ctx context.Context, labels map[string]string) error {
			_, err := apply(ctx, configuration(labels), metav1.ApplyOptions{FieldManager: "applier", Force: true})
			return err
		},
	}
}

// OP-8: the typed client creates, watches and applies every kind that can be written, asks every review and reads every
// table.
func (x *examples) typedClient(t *testing.T) {
	const namespace = "typed"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	core := kubernetes.NewForConfigOrDie(x.s.admin)
	if _, err := core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client, err := versioned.NewForConfig(x.s.admin)
	if err != nil {
		t.Fatal(err)
	}
	factory := externalversions.NewSharedInformerFactory(client, 0)
	kinds := typedKinds(client, factory, namespace)
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			t.Fatalf("the informer of %v has not synced", kind)
		}
	}
	for _, k := range kinds {
		if err := k.create(ctx); err != nil {
			t.Fatalf("create %s: %v", k.kind, err)
		}
		k.await(t, x, "the created", func(metav1.Object) bool { return true })
		if err := k.apply(ctx, map[string]string{"applied": "yes"}); err != nil {
			t.Fatalf("apply %s: %v", k.kind, err)
		}
		k.await(t, x, "the applied", func(o metav1.Object) bool { return o.GetLabels()["applied"] == "yes" })
	}
	x.typedReads(t, client, factory, namespace)
	cancel()
	factory.Shutdown()
}

func typedKinds(client *versioned.Clientset, factory externalversions.SharedInformerFactory, namespace string) []typed {
	named := func(name, namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: namespace}
	}
	policies, authorization, auditing := client.PolicyV1alpha1(), client.AuthorizationV1alpha1(), client.AuditregistrationV1alpha1()
	watched := factory.Policy().V1alpha1()
	member := policy.RoleReference{Kind: "ClusterRole", Name: "typed-members"}
	applied := func() *policyapply.RoleReferenceApplyConfiguration {
		return policyapply.RoleReference().WithKind(member.Kind).WithName(member.Name)
	}
	return []typed{
		write("Policy", watched.Policies().Informer(), &policy.Policy{ObjectMeta: named(policy.PolicyName, namespace)},
			policies.Policies(namespace).Create, func(l map[string]string) *policyapply.PolicyApplyConfiguration {
				return policyapply.Policy(policy.PolicyName, namespace).WithLabels(l)
			}, policies.Policies(namespace).Apply),
		write("PolicyBinding", watched.PolicyBindings().Informer(), &policy.PolicyBinding{ObjectMeta: named(namespace, namespace)},
			policies.PolicyBindings(namespace).Create, func(l map[string]string) *policyapply.PolicyBindingApplyConfiguration {
				return policyapply.PolicyBinding(namespace, namespace).WithLabels(l)
			}, policies.PolicyBindings(namespace).Apply),
		write("Role", factory.Authorization().V1alpha1().Roles().Informer(),
			&authz.Role{ObjectMeta: named("reader", namespace), Rules: []policy.PolicyRule{{Verbs: []string{"get"}, ResourceKinds: []string{"pods"}}}},
			authorization.Roles(namespace).Create, func(l map[string]string) *authzapply.RoleApplyConfiguration {
				rule := policyapply.PolicyRule().WithVerbs("get", "list").WithResourceKinds("pods")
				return authzapply.Role("reader", namespace).WithLabels(l).WithRules(rule)
			}, authorization.Roles(namespace).Apply),
		write("RoleBinding", factory.Authorization().V1alpha1().RoleBindings().Informer(),
			&authz.RoleBinding{ObjectMeta: named("readers", namespace), RoleRef: authz.RoleRef{Namespace: namespace, Name: "reader"}, UserNames: []string{"ruth"}},
			authorization.RoleBindings(namespace).Create, func(l map[string]string) *authzapply.RoleBindingApplyConfiguration {
				return authzapply.RoleBinding("readers", namespace).WithLabels(l).WithUserNames("ruth", "rita")
			}, authorization.RoleBindings(namespace).Apply),
		write("FieldPermission", watched.FieldPermissions().Informer(),
			&policy.FieldPermission{ObjectMeta: named("typed", ""), Spec: policy.FieldPermissionSpec{Resources: []string{"pods"}, Field: ".spec.priorityClassName", Permission: "example.com/typed"}},
			policies.FieldPermissions().Create, func(l map[string]string) *policyapply.FieldPermissionApplyConfiguration {
				return policyapply.FieldPermission("typed").WithLabels(l)
			}, policies.FieldPermissions().Apply),
		write("ProtectedAttribute", watched.ProtectedAttributes().Informer(),
			&policy.ProtectedAttribute{ObjectMeta: named("typed", namespace), AttributeKind: policy.AttributeLabel, AttributeName: "typed", RoleRef: member},
			policies.ProtectedAttributes(namespace).Create, func(l map[string]string) *policyapply.ProtectedAttributeApplyConfiguration {
				return policyapply.ProtectedAttribute("typed", namespace).WithLabels(l).WithRoleRef(applied()).WithProtectedValues("red")
			}, policies.ProtectedAttributes(namespace).Apply),
		write("ClusterProtectedAttribute", watched.ClusterProtectedAttributes().Informer(),
			&policy.ClusterProtectedAttribute{ObjectMeta: named("typed", ""), AttributeKind: policy.AttributeAnnotation, AttributeName: "typed", RoleRef: member},
			policies.ClusterProtectedAttributes().Create, func(l map[string]string) *policyapply.ClusterProtectedAttributeApplyConfiguration {
				return policyapply.ClusterProtectedAttribute("typed").WithLabels(l).WithRoleRef(applied()).WithProtectedValues("red")
			}, policies.ClusterProtectedAttributes().Apply),
		write("AuditClass", factory.Auditregistration().V1alpha1().AuditClasses().Informer(),
			&audit.AuditClass{ObjectMeta: named("typed", ""), Spec: audit.AuditClassSpec{Rules: []audit.Rule{{Verbs: []string{"delete"}}}}},
			auditing.AuditClasses().Create, func(l map[string]string) *auditapply.AuditClassApplyConfiguration {
				return auditapply.AuditClass("typed").WithLabels(l)
			}, auditing.AuditClasses().Apply),
		write("AuditSink", factory.Auditregistration().V1alpha1().AuditSinks().Informer(),
			&audit.AuditSink{ObjectMeta: named("typed", ""), Spec: audit.AuditSinkSpec{Policy: audit.Policy{Level: audit.LevelNone}}},
			auditing.AuditSinks().Create, func(l map[string]string) *auditapply.AuditSinkApplyConfiguration {
				return auditapply.AuditSink("typed").WithLabels(l)
			}, auditing.AuditSinks().Apply),
	}
}

func (k typed) await(t *testing.T, x *examples, what string, condition func(metav1.Object) bool) {
	t.Helper()
	key, err := cache.MetaNamespaceKeyFunc(k.object)
	if err != nil {
		t.Fatal(err)
	}
	x.s.await(what+" "+k.kind+" in the informer", func() (bool, error) {
		object, exists, err := k.informer.GetIndexer().GetByKey(key)
		if err != nil || !exists {
			return false, err
		}
		accessor, err := meta.Accessor(object)
		return err == nil && condition(accessor), err
	})
}

// typedReads looks at what was applied through listers, and asks what can only be asked.
func (x *examples) typedReads(t *testing.T, client *versioned.Clientset, factory externalversions.SharedInformerFactory, namespace string) {
	ctx := t.Context()
	role, err := factory.Authorization().V1alpha1().Roles().Lister().Roles(namespace).Get("reader")
	if err != nil || len(role.Rules) != 1 || len(role.Rules[0].Verbs) != 2 {
		t.Errorf("the lister has %+v, %v; want the rule that was applied", role, err)
	}
	authorization := client.AuthorizationV1alpha1()
	x.s.await("the applied binding in a review", func() (bool, error) {
		review, err := authorization.SubjectAccessReviews(namespace).Create(ctx, &authz.SubjectAccessReview{
			Spec: authz.SubjectAccessReviewSpec{UserName: "rita", Verb: "list", ResourceKind: "pods"}}, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed, err
	})
	for _, where := range []string{namespace, ""} { // with a namespace and without
		review, err := authorization.ResourceAccessReviews(where).Create(ctx, &authz.ResourceAccessReview{
			Spec: authz.ResourceAccessReviewSpec{Verb: "list", ResourceKind: "pods"}}, metav1.CreateOptions{})
		if err != nil || len(review.Status.GroupNames) == 0 {
			t.Errorf("who can list pods in %q: %+v, %v", where, review, err)
		}
	}
	x.s.await("the applied permission in the table", func() (bool, error) {
		permissions, err := authorization.Permissions().List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=example.com:typed"})
		return err == nil && len(permissions.Items) == 1, err
	})
	if _, err := authorization.ShadowRules("").List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("list shadow rules: %v", err)
	}
}
