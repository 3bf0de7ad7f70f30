package server

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// TestProtectedExamples applies the examples of protected attributes exactly as they are and does, as the users in
// question, what they are about (PA-10); and it tries, beyond the matrix, what else the page of requirements promises.
func TestProtectedExamples(t *testing.T) {
	x := &protectedExamples{examples: newExamples(t, peopled.get(t))} // the examples bind the role edit and make pods
	x.typed = kubernetes.NewForConfigOrDie(x.s.admin)
	x.create(t, object("v1", "Namespace", "lab", nil))
	x.bind(t, "lab", rbacv1.RoleRef{Kind: "ClusterRole", Name: "edit"}, "dora", "rita", "carl")
	x.bind(t, "", rbacv1.RoleRef{Kind: "ClusterRole", Name: "cluster-admin"}, "clara", "otto", "system:serviceaccount:kube-system:copier", "system:serviceaccount:kube-system:endpointslice-controller")
	t.Run("nothing is protected at first", x.nothingProtected)
	t.Run("image-policy", x.imagePolicy)
	t.Run("external-load-balancer", x.externalLoadBalancer)
	t.Run("two objects on one attribute", x.twoObjects)
	t.Run("annotation", x.annotation)
	t.Run("review", x.review)
	t.Run("copies", x.copies)
	t.Run("marker role", x.markerRole)
	t.Run("deleted role", x.deletedRole)
}

type protectedExamples struct {
	*examples
	typed kubernetes.Interface
}

// bind makes the users members of a role, in a namespace or everywhere.
func (x *protectedExamples) bind(t *testing.T, namespace string, ref rbacv1.RoleRef, users ...string) {
	t.Helper()
	ref.APIGroup = rbacv1.GroupName
	name := metav1.ObjectMeta{GenerateName: ref.Name + "-"}
	var subjects []rbacv1.Subject
	for _, u := range users {
		subjects = append(subjects, rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: u})
	}
	var err error
	if namespace == "" {
		_, err = x.typed.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: name, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
	} else {
		_, err = x.typed.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: name, RoleRef: ref, Subjects: subjects}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// clusterRole makes an empty role; that it has members is all that counts.
func (x *protectedExamples) clusterRole(t *testing.T, name string) rbacv1.RoleRef {
	t.Helper()
	x.create(t, object("rbac.authorization.k8s.io/v1", "ClusterRole", name, nil))
	return rbacv1.RoleRef{Kind: "ClusterRole", Name: name}
}

// protect makes a ProtectedAttribute in the namespace lab, or a ClusterProtectedAttribute.
func (x *protectedExamples) protect(t *testing.T, namespace, name, kind, key, role string, values ...any) {
	t.Helper()
	u := object(policyv1alpha1.SchemeGroupVersion.String(), "ClusterProtectedAttribute", name, nil)
	if namespace != "" {
		u.SetKind("ProtectedAttribute")
		u.SetNamespace(namespace)
	}
	u.Object["attributeKind"], u.Object["attributeName"] = kind, key
	u.Object["roleRef"] = map[string]any{"kind": "ClusterRole", "name": role}
	if len(values) > 0 {
		u.Object["protectedValues"] = values
	}
	x.create(t, u)
}

// inEffect waits until a request is refused; what was written before it is in effect as well.
func (x *protectedExamples) inEffect(t *testing.T, what string, request func() error) {
	t.Helper()
	x.s.await(what, func() (bool, error) {
		err := request()
		return apierrors.IsForbidden(err) || apierrors.IsInvalid(err), nil
	})
}

// impersonating returns a client for identities that no certificate is issued for.
func (x *protectedExamples) impersonating(user string, groups ...string) dynamic.Interface {
	c := rest.CopyConfig(x.s.admin)
	c.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return dynamic.NewForConfigOrDie(c)
}

// dry creates an object without storing it.
func dry(ctx context.Context, client dynamic.ResourceInterface, u *unstructured.Unstructured) error {
	_, err := client.Create(ctx, u, metav1.CreateOptions{DryRun: []string{"All"}})
	return err
}

// inLab is a config map with a label.
func inLab(name, key, value string) *unstructured.Unstructured {
	return inNamespace(labelled(name, map[string]string{key: value}), "lab")
}

// invalidWith wants the answer of a ValidatingAdmissionPolicy.
func invalidWith(t *testing.T, what string, err error, message string) {
	t.Helper()
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), message) {
		t.Errorf("%s: want 422 with %q, got %v", what, message, err)
	}
}

// nothingProtected: without protections every label is free and no review shows any (PA-9).
func (x *protectedExamples) nothingProtected(t *testing.T) {
	cm := inLab("free", "env", "prod")
	dora := x.resource(t, x.as("dora"), cm)
	x.eventually(t, "dora sets a label", func() error { return dry(t.Context(), dora, cm) })
	if got := x.ask(t, x.as("dora"), "conditionalAuthorization"); strings.Contains(got, "protected-attributes") || !strings.Contains(got, `"allowed":true`) {
		t.Errorf("a review without protections: %s", got)
	}
}

func (x *protectedExamples) imagePolicy(t *testing.T) {
	const protected = `label env=prod is protected by ClusterProtectedAttribute "env-prod"; changing it requires being bound to ClusterRole "release-managers"`
	const images = "pods with the label env=prod use images of registry.example.com only"
	ctx := t.Context()
	x.install(t, "image-policy/policy.yaml")
	pods := x.read(t, "image-policy/pods.yaml")
	prod, trial := pods[0], pods[1]
	foreign := with(t, prod, trial.Object["spec"], "spec")
	rita, gerd, dora := x.resource(t, x.as("rita"), prod), x.resource(t, x.as("gerd", "releasers"), prod), x.resource(t, x.as("dora", "developers"), prod)
	x.s.await("the default service account", func() (bool, error) {
		_, err := x.typed.CoreV1().ServiceAccounts("shop").Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
	x.eventually(t, "rita creates a pod for prod", func() error { return dry(ctx, rita, prod) })
	x.inEffect(t, "the protection", func() error { return dry(ctx, dora, prod) })
	x.inEffect(t, "the image policy", func() error { return dry(ctx, rita, foreign) })

	for who, client := range map[string]dynamic.ResourceInterface{"a member": rita, "a member by group": gerd} {
		fine(t, who+" with the registry's image", dry(ctx, client, prod))
		invalidWith(t, who+" with another image", dry(ctx, client, foreign), images)
	}
	volume := with(t, prod, []any{map[string]any{"name": "v", "image": map[string]any{"reference": "docker.io/library/nginx"}}}, "spec", "volumes")
	invalidWith(t, "a member with another image as a volume", dry(ctx, rita, volume), images)
	fine(t, "a member with the registry's image as a volume", dry(ctx, rita, with(t, prod, []any{map[string]any{"name": "v", "image": map[string]any{"reference": "registry.example.com/data:1"}}}, "spec", "volumes")))
	refusedWith(t, "a developer with the registry's image", dry(ctx, dora, prod), protected)
	fine(t, "a developer without prod", dry(ctx, dora, trial))

	for _, u := range pods {
		x.create(t, u)
	}
	const toProd, off, note = `{"metadata":{"labels":{"env":"prod"}}}`, `{"metadata":{"labels":{"env":null}}}`, `{"metadata":{"labels":{"note":"x"}}}`
	refusedWith(t, "a developer labels his pod", merge(ctx, dora, "trial", toProd), protected)
	invalidWith(t, "a member labels a pod with another image", merge(ctx, rita, "trial", toProd), images)
	refusedWith(t, "a developer takes the label off", merge(ctx, dora, "shop", off), protected)
	fine(t, "a developer leaves the label", merge(ctx, dora, "shop", note))
	fine(t, "a developer replaces a free value", merge(ctx, dora, "trial", `{"metadata":{"labels":{"env":"test"}}}`))
	fine(t, "a member by group takes the label off", merge(ctx, gerd, "shop", off))

	// PA-5: what a controller would create from a template is protected in the template.
	template := map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "w", "env": "prod"}}, "spec": prod.Object["spec"]}
	deployment := inNamespace(object("apps/v1", "Deployment", "w", map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"app": "w"}}, "template": template}), "shop")
	job := map[string]any{"template": with(t, &unstructured.Unstructured{Object: template}, "Never", "spec", "restartPolicy").Object}
	cron := inNamespace(object("batch/v1", "CronJob", "w", map[string]any{"schedule": "@daily", "jobTemplate": map[string]any{"spec": job}}), "shop")
	for _, u := range []*unstructured.Unstructured{deployment, cron} {
		refusedWith(t, "a developer's "+u.GetKind(), dry(ctx, x.resource(t, x.as("dora", "developers"), u), u), "env=prod")
		fine(t, "a member's "+u.GetKind(), dry(ctx, x.resource(t, x.as("rita"), u), u))
	}
}

func (x *protectedExamples) externalLoadBalancer(t *testing.T) {
	const protected = `label allowExternal=true is protected by ProtectedAttribute "allow-external"; changing it requires being bound to Role "network-admins"`
	const unlabelled = "a service of type LoadBalancer needs the label allowExternal=true"
	ctx := t.Context()
	x.install(t, "external-load-balancer/policy.yaml")
	service := x.read(t, "external-load-balancer/service.yaml")[0]
	bare := with(t, service, map[string]any{}, "metadata", "labels")
	nora, nick, dora := x.resource(t, x.as("nora"), service), x.resource(t, x.as("nick", "network"), service), x.resource(t, x.as("dora", "developers"), service)
	x.eventually(t, "nora creates the service", func() error { return dry(ctx, nora, service) })
	x.inEffect(t, "the protection", func() error { return dry(ctx, dora, service) })
	x.inEffect(t, "the policy", func() error { return dry(ctx, nora, bare) })

	for who, client := range map[string]dynamic.ResourceInterface{"a member": nora, "a member by group": nick} {
		fine(t, who+" with the label", dry(ctx, client, service))
		invalidWith(t, who+" without it", dry(ctx, client, bare), unlabelled)
		invalidWith(t, who+" with another value", dry(ctx, client, with(t, service, "false", "metadata", "labels", "allowExternal")), unlabelled)
	}
	refusedWith(t, "a developer with the label", dry(ctx, dora, service), protected)
	invalidWith(t, "a developer without it", dry(ctx, dora, bare), unlabelled)
	fine(t, "a developer's internal service", dry(ctx, dora, with(t, bare, "ClusterIP", "spec", "type")))
	x.create(t, service)
	fine(t, "a developer changes the selector", merge(ctx, dora, "front", `{"spec":{"selector":{"app":"new"}}}`))
	refusedWith(t, "a developer takes the label off", merge(ctx, dora, "front", `{"metadata":{"labels":{"allowExternal":null}}}`), protected)
	// The protection and the policy are of that namespace alone (PA-4).
	elsewhere := inNamespace(service.DeepCopy(), "lab")
	fine(t, "the label in another namespace", dry(ctx, x.resource(t, x.as("dora"), elsewhere), elsewhere))
}

// twoObjects: "role A may use dev and test, role B anything" (PA-2).
func (x *protectedExamples) twoObjects(t *testing.T) {
	ctx := t.Context()
	x.bind(t, "lab", x.clusterRole(t, "some-tiers"), "dora")
	x.bind(t, "lab", x.clusterRole(t, "all-tiers"), "rita")
	x.protect(t, "lab", "some-tiers", "Label", "tier", "some-tiers", "dev", "test")
	x.protect(t, "lab", "all-tiers", "Label", "tier", "all-tiers")
	client := func(user string) dynamic.ResourceInterface { return x.resource(t, x.as(user), inLab("x", "", "")) }
	clients := map[string]dynamic.ResourceInterface{"dora": client("dora"), "rita": client("rita"), "carl": client("carl")}
	x.inEffect(t, "the protections", func() error { return dry(ctx, clients["carl"], inLab("t", "tier", "dev")) })
	x.eventually(t, "the first role", func() error { return dry(ctx, clients["dora"], inLab("t", "tier", "dev")) })
	x.inEffect(t, "the second protection", func() error { return dry(ctx, clients["dora"], inLab("t", "tier", "other")) })
	for who, allowed := range map[string][]string{"dora": {"dev", "test"}, "rita": {"dev", "test", "prod", ""}, "carl": nil} {
		for _, value := range []string{"dev", "test", "prod", ""} {
			err := dry(ctx, clients[who], inLab("t", "tier", value))
			if slices.Contains(allowed, value) {
				fine(t, who+" sets "+value, err)
			} else {
				refusedWith(t, who+" sets "+value, err, "label tier")
			}
		}
	}
	// Replacing takes both the old and the new value.
	x.create(t, inLab("tiered", "tier", "prod"))
	refusedWith(t, "dora replaces prod by dev", merge(ctx, clients["dora"], "tiered", `{"metadata":{"labels":{"tier":"dev"}}}`), "tier=prod")
	fine(t, "rita replaces prod by dev", merge(ctx, clients["rita"], "tiered", `{"metadata":{"labels":{"tier":"dev"}}}`))
	fine(t, "dora replaces dev by test", merge(ctx, clients["dora"], "tiered", `{"metadata":{"labels":{"tier":"test"}}}`))
}

// annotation: a protected annotation, also where pods/binding would write it to a pod (PA-5).
func (x *protectedExamples) annotation(t *testing.T) {
	const key = "example.com/isolation"
	ctx := t.Context()
	x.bind(t, "", x.clusterRole(t, "isolators"), "clara")
	x.protect(t, "", "isolation", "Annotation", key, "isolators")
	namespace := object("v1", "Namespace", "isolated", nil)
	asLabel := namespace.DeepCopy()
	asLabel.SetLabels(map[string]string{key: "off"})
	namespace.SetAnnotations(map[string]string{key: "off"})
	clara, otto := x.resource(t, x.as("clara"), namespace), x.resource(t, x.as("otto"), namespace)
	x.inEffect(t, "the protection", func() error { return dry(ctx, otto, namespace) })
	refusedWith(t, "otto annotates a namespace", dry(ctx, otto, namespace), "annotation "+key+"=off is protected")
	fine(t, "clara annotates a namespace", dry(ctx, clara, namespace))
	fine(t, "otto uses a label of that name", dry(ctx, otto, asLabel))

	x.s.await("the default service account", func() (bool, error) {
		_, err := x.typed.CoreV1().ServiceAccounts("lab").Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
	x.create(t, inNamespace(object("v1", "Pod", "loose", map[string]any{"containers": []any{map[string]any{"name": "c", "image": "i"}}}), "lab"))
	place := func(user string, annotations map[string]string) error {
		client := kubernetes.NewForConfigOrDie(x.s.as(user)).CoreV1().Pods("lab")
		return client.Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "loose", Namespace: "lab", Annotations: annotations},
			Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}}, metav1.CreateOptions{})
	}
	refusedWith(t, "otto binds the pod with the annotation", place("otto", map[string]string{key: "off"}), key)
	fine(t, "clara binds the pod with the annotation", place("clara", map[string]string{key: "off"}))
}

// ask is a review whether the user may create config maps in lab, as text.
func (x *protectedExamples) ask(t *testing.T, client dynamic.Interface, options string) string {
	t.Helper()
	review := object("authorization.k8s.io/v1", "SelfSubjectAccessReview", "", map[string]any{
		"resourceAttributes": map[string]any{"verb": "create", "version": "v1", "resource": "configmaps", "namespace": "lab"}})
	if options != "" {
		review = with(t, review, map[string]any{"mode": "HumanReadable"}, "spec", options)
	}
	unstructured.RemoveNestedField(review.Object, "metadata")
	got, err := client.Resource(schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectaccessreviews"}).Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	unstructured.RemoveNestedField(got.Object, "status", "policyRevision") // it says how new the policy is, not what it says
	text, err := json.Marshal(got.Object["status"])
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// review: who asks for conditions sees the protections that concern him; who does not gets the answer he always got
// (PA-8).
func (x *protectedExamples) review(t *testing.T) {
	x.bind(t, "lab", x.clusterRole(t, "colourists"), "rita")
	before := x.ask(t, x.as("dora"), "")
	x.protect(t, "lab", "colour", "Label", "colour", "colourists", "red")
	dora := x.resource(t, x.as("dora"), inLab("x", "", ""))
	x.inEffect(t, "the protection", func() error { return dry(t.Context(), dora, inLab("c", "colour", "red")) })
	if after := x.ask(t, x.as("dora"), ""); after != before || !strings.Contains(after, `"allowed":true`) {
		t.Errorf("a plain review: %s before the protection and %s after it", before, after)
	}
	for who, want := range map[string]bool{"dora": true, "rita": false} {
		got := x.ask(t, x.as(who), "conditionalAuthorization")
		if !strings.Contains(got, `"authorizerName":"protected-attributes"`) || strings.Contains(got, `ProtectedAttribute \"colour\"`) != want {
			t.Errorf("a conditional review of %s, who is refused: %v: %s", who, want, got)
		}
	}
	if got := x.ask(t, x.admin, "conditionalAuthorization"); strings.Contains(got, "protected-attributes") {
		t.Errorf("a conditional review of an admin: %s", got)
	}
}

// copies: a controller copies what was admitted, and nobody becomes one by what his object claims, nor by his namespace
// (PA-6, PA-13).
func (x *protectedExamples) copies(t *testing.T) {
	ctx := t.Context()
	copied := inLab("copied", "tier", "prod")
	copied.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "u", Controller: new(bool)}})
	x.bind(t, "lab", rbacv1.RoleRef{Kind: "ClusterRole", Name: "edit"}, "system:serviceaccount:lab:copier", "system:kube-controller-manager")
	client := func(c dynamic.Interface) dynamic.ResourceInterface { return x.resource(t, c, copied) }
	accounts := []string{"system:serviceaccounts", "system:authenticated"}
	x.eventually(t, "the controller manager", func() error { return dry(ctx, client(x.impersonating("system:kube-controller-manager")), copied) })
	fine(t, "a controller of Kubernetes that copies", dry(ctx, client(x.impersonating("system:serviceaccount:kube-system:endpointslice-controller", accounts...)), copied))
	refusedWith(t, "another service account of kube-system", dry(ctx, client(x.impersonating("system:serviceaccount:kube-system:copier", accounts...)), copied), "tier=prod")
	refusedWith(t, "a service account of another namespace", dry(ctx, client(x.impersonating("system:serviceaccount:lab:copier", accounts...)), copied), "tier=prod")
	refusedWith(t, "a user whose object has an owner", dry(ctx, client(x.as("carl")), copied), "tier=prod")
	refusedWith(t, "a user in the group of kube-system's accounts", dry(ctx, client(x.as("carl", "system:serviceaccounts:kube-system")), copied), "tier=prod")
}

// markerRole: holding nothing is covered by everyone, so an empty role that guards an attribute takes the verb bind
// (PA-12).
func (x *protectedExamples) markerRole(t *testing.T) {
	ctx := t.Context()
	const role, why = "sealers", "holding its rules is not enough"
	x.bind(t, "lab", rbacv1.RoleRef{Kind: "ClusterRole", Name: "admin"}, "adam", "bea", "mona")
	x.clusterRole(t, "unrelated")
	x.bind(t, "lab", x.clusterRole(t, role), "mona")
	binder := object("rbac.authorization.k8s.io/v1", "ClusterRole", "sealer-binder", nil)
	binder.Object["rules"] = []any{map[string]any{"apiGroups": []any{rbacv1.GroupName}, "resources": []any{"clusterroles"}, "verbs": []any{"bind"}, "resourceNames": []any{role}}}
	x.create(t, binder)
	x.bind(t, "lab", rbacv1.RoleRef{Kind: "ClusterRole", Name: "sealer-binder"}, "bea")
	x.protect(t, "lab", "seal", "Label", "seal", role)

	join := func(by, role, user string) error {
		b := inNamespace(object("rbac.authorization.k8s.io/v1", "RoleBinding", "join", nil), "lab")
		b.Object["roleRef"] = map[string]any{"apiGroup": rbacv1.GroupName, "kind": "ClusterRole", "name": role}
		b.Object["subjects"] = []any{map[string]any{"apiGroup": rbacv1.GroupName, "kind": "User", "name": user}}
		return dry(ctx, x.resource(t, x.as(by), b), b)
	}
	x.inEffect(t, "the protection", func() error {
		return dry(ctx, x.resource(t, x.as("carl"), inLab("s", "", "")), inLab("s", "seal", "yes"))
	})
	x.eventually(t, "the admins", func() error { return join("adam", "unrelated", "adam") })
	refusedWith(t, "an admin binds himself", join("adam", role, "adam"), why)
	refusedWith(t, "an admin binds another", join("adam", role, "carl"), why)
	fine(t, "who may bind it by name binds himself", join("bea", role, "bea"))
	fine(t, "a member binds another", join("mona", role, "carl"))
	// Nor may an admin add himself to a binding that is there.
	bindings, err := x.typed.RbacV1().RoleBindings("lab").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bindings.Items {
		if b.RoleRef.Name != role {
			continue
		}
		u, err := asUnstructured(&b, "rbac.authorization.k8s.io/v1", "RoleBinding")
		if err != nil {
			t.Fatal(err)
		}
		const add = `{"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"adam"}]}`
		refusedWith(t, "an admin joins a binding", merge(ctx, x.resource(t, x.as("adam"), u), b.Name, add), why)
		fine(t, "a member adds to a binding", merge(ctx, x.resource(t, x.as("mona"), u), b.Name, add))
	}
}

// deletedRole: a role that goes away takes its members with it, and the protection stays (PA-1).
func (x *protectedExamples) deletedRole(t *testing.T) {
	ctx := t.Context()
	x.bind(t, "lab", x.clusterRole(t, "temps"), "rita")
	x.protect(t, "lab", "temp", "Label", "temp", "temps")
	client := func(c dynamic.Interface) dynamic.ResourceInterface { return x.resource(t, c, inLab("x", "", "")) }
	rita, carl := client(x.as("rita")), client(x.as("carl"))
	x.inEffect(t, "the protection", func() error { return dry(ctx, carl, inLab("d", "temp", "1")) })
	x.eventually(t, "the membership", func() error { return dry(ctx, rita, inLab("d", "temp", "1")) })
	if err := x.typed.RbacV1().ClusterRoles().Delete(ctx, "temps", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	x.inEffect(t, "the deletion", func() error { return dry(ctx, rita, inLab("d", "temp", "1")) })
	refusedWith(t, "who was a member", dry(ctx, rita, inLab("d", "temp", "1")), `ClusterRole "temps"`)
	refusedWith(t, "who never was", dry(ctx, carl, inLab("d", "temp", "1")), `ClusterRole "temps"`)
	fine(t, "system:masters", dry(ctx, client(x.admin), inLab("d", "temp", "1")))
	fine(t, "without the label", dry(ctx, rita, inLab("d", "other", "1")))
}
