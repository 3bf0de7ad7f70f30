package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregatorclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/hosts/apiserver"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/state/snapshot"
)

// onlyGood is a trivial conditional authorizer: user "cond" may do anything to objects whose label good is "yes".
type onlyGood struct{}

func (onlyGood) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "", nil
}

func (onlyGood) ConditionsAwareAuthorize(_ context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	if a.GetUser().GetName() != "cond" {
		return authorizer.ConditionsAwareDecisionNoOpinion("", nil)
	}
	return authorizer.ConditionsAwareDecisionConditionsMap(nil, nil, []authorizer.Condition{authorizer.GenericCondition{
		ID: "test.proviso.dev/good", Type: "example.com/good", Description: "only good objects", EvaluateFunc: func(_ context.Context, d authorizer.ConditionsData) authorizer.ConditionEvaluationResult {
			object := d.GetObject()
			if object == nil {
				object = d.GetOldObject()
			}
			if object == nil {
				return authorizer.ConditionEvaluationResultError(errors.New("no object"))
			}
			m, err := meta.Accessor(object)
			if err != nil {
				return authorizer.ConditionEvaluationResultError(err)
			}
			return authorizer.ConditionEvaluationResultBoolean(m.GetLabels()["good"] == "yes")
		},
	}})
}

func (onlyGood) EvaluateConditions(ctx context.Context, d authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return d.ConditionsMap().Evaluate(ctx, data, func(context.Context, authorizer.Condition, authorizer.ConditionsData) (bool, error) {
		return false, authorizer.ErrorConditionEvaluationNotSupported
	})
}

func withOnlyGood(o *apiserver.Options) {
	plug(o, feature.System{Name: "only good", Links: []authorize.Link{{Name: "only-good", Authorizer: onlyGood{}}}})
}

// TestConditionsReachEveryServer: a conditional answer travels from the filter to admission for built-in resources,
// custom resources and APIServices, and is refused where no admission runs (CA-6, CA-7, CA-8).
func TestConditionsReachEveryServer(t *testing.T) {
	t.Parallel()
	s := peopled.get(t)
	ctx := t.Context()
	install(t, s, "widgets", "Widget")

	cond, err := dynamic.NewForConfig(s.as("cond"))
	if err != nil {
		t.Fatal(err)
	}
	kinds := []struct {
		name     string
		resource schema.GroupVersionResource
		object   func(name string) *unstructured.Unstructured
	}{
		{"built-in", corev1.SchemeGroupVersion.WithResource("configmaps"), func(n string) *unstructured.Unstructured {
			return object("v1", "ConfigMap", n, nil)
		}},
		{"custom", schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, func(n string) *unstructured.Unstructured {
			return object("example.com/v1", "Widget", n, nil)
		}},
		{"apiservice", apiregistration.SchemeGroupVersion.WithResource("apiservices"), func(n string) *unstructured.Unstructured {
			return object("apiregistration.k8s.io/v1", "APIService", "v1."+n+".example.org", map[string]any{
				"group": n + ".example.org", "version": "v1", "groupPriorityMinimum": int64(10), "versionPriority": int64(10),
				"insecureSkipTLSVerify": true, "service": map[string]any{"name": "s", "namespace": "default"},
			})
		}},
	}
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			var client dynamic.ResourceInterface = cond.Resource(k.resource)
			if k.name != "apiservice" {
				client = cond.Resource(k.resource).Namespace("default")
			}
			good, bad := label(k.object("good"), "yes"), label(k.object("bad"), "no")

			// create, and its twin that differs in one label
			if _, err := client.Create(ctx, good, metav1.CreateOptions{}); err != nil {
				t.Fatalf("a good object must be created: %v", err)
			}
			_, err := client.Create(ctx, bad, metav1.CreateOptions{})
			wantForbidden(t, "create of a bad object", err)
			_, err = client.Create(ctx, bad, metav1.CreateOptions{DryRun: []string{"All"}})
			wantForbidden(t, "dry run of it", err)

			// update and patch, which see the new object
			_, err = client.Patch(ctx, good.GetName(), types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`), metav1.PatchOptions{})
			if err != nil {
				t.Fatalf("patch of a good object: %v", err)
			}
			_, err = client.Patch(ctx, good.GetName(), types.MergePatchType, []byte(`{"metadata":{"labels":{"good":"no"}}}`), metav1.PatchOptions{})
			wantForbidden(t, "patch to a bad object", err)

			// apply that creates asks for create as well
			applied := label(k.object("applied"), "yes")
			if _, err := client.Apply(ctx, applied.GetName(), applied, metav1.ApplyOptions{FieldManager: "t"}); err != nil {
				t.Fatalf("apply that creates a good object: %v", err)
			}
			badApply := label(k.object("badapply"), "no")
			_, err = client.Apply(ctx, badApply.GetName(), badApply, metav1.ApplyOptions{FieldManager: "t"})
			wantForbidden(t, "apply that creates a bad object", err)

			// RD-1, RD-4: a get is decided on the object, whoever gave the condition; a list only by rules of a policy
			if _, err = client.Get(ctx, good.GetName(), metav1.GetOptions{}); err != nil {
				t.Errorf("get of a good object: %v", err)
			}
			_, err = client.List(ctx, metav1.ListOptions{})
			wantForbidden(t, "list", err)
			if !strings.Contains(err.Error(), "the list cannot be narrowed: an authorizer gave a condition that is not a rule of a policy") {
				t.Errorf("list: the message does not say why: %v", err)
			}

			if err := client.Delete(ctx, good.GetName(), metav1.DeleteOptions{}); err != nil {
				t.Fatalf("delete of a good object: %v", err)
			}
		})
	}

	t.Run("metrics", func(t *testing.T) { // CA-21, SV-10
		raw, err := kubernetes.NewForConfigOrDie(s.admin).RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`proviso_authorization_conditional_total{authorizer="only-good",type="example.com/good"}`,
			`proviso_enforcement_decisions_total{authorizer="only-good",decision="Allow",failed="false",type="example.com/good"}`,
			`proviso_enforcement_decisions_total{authorizer="only-good",decision="NoOpinion",failed="false",type="example.com/good"}`,
			`proviso_enforcement_duration_seconds_count{authorizer="only-good",type="example.com/good"}`,
			`apiserver_admission_controller_admission_duration_seconds_count{name="AuthorizationConditionsEnforcer"`} {
			if !strings.Contains(string(raw), want) {
				t.Errorf("no metric %s", want)
			}
		}
	})

	t.Run("proxied", func(t *testing.T) {
		// v1.applied.example.org is served by somebody else: no admission, no conditions.
		s.await("the group to be proxied", func() (bool, error) {
			_, err := cond.Resource(schema.GroupVersionResource{Group: "applied.example.org", Version: "v1", Resource: "things"}).
				Create(ctx, label(object("applied.example.org/v1", "Thing", "x", nil), "yes"), metav1.CreateOptions{})
			return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "another API server serves"), nil
		})
		// CA-6, CA-16: a selector that implies the condition is worth something only where this process honours it.
		applyPolicy(t, s, "reads-good", `resource.metadata.labels["good"] == "yes"`, "reader", "list", "things.applied.example.org", "widgets.example.com")
		reader := dynamic.NewForConfigOrDie(s.as("reader"))
		list := func(group, resource string) error {
			_, err := reader.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}).List(ctx, metav1.ListOptions{LabelSelector: "good=yes"})
			return err
		}
		s.await("the list of what is served here", func() (bool, error) { return list("example.com", "widgets") == nil, nil })
		if err := list("applied.example.org", "things"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "another API server serves") {
			t.Errorf("a list that another server answers: %v", err)
		}
	})

	t.Run("deletecollection object by object", func(t *testing.T) {
		admin := kubernetes.NewForConfigOrDie(s.admin)
		for name, good := range map[string]string{"dc-good": "yes", "dc-bad": "no"} {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"good": good, "dc": "1"}}}
			if _, err := admin.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		condTyped := kubernetes.NewForConfigOrDie(s.as("cond"))
		err := condTyped.CoreV1().ConfigMaps("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "dc=1"})
		wantForbidden(t, "deletecollection", err)
		if _, err := admin.CoreV1().ConfigMaps("default").Get(ctx, "dc-bad", metav1.GetOptions{}); err != nil {
			t.Errorf("the bad object must still be there: %v", err)
		}
		if _, err := condTyped.CoreV1().ConfigMaps("default").Get(ctx, "dc-bad", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("get of a bad object: %v", err)
		}
	})
}

// TestRefusedBeforeTheBodyIsRead: where nothing in the chain can allow, not a byte of the body is read (CA-4).
func TestRefusedBeforeTheBodyIsRead(t *testing.T) {
	t.Parallel()
	s := peopled.get(t)
	body := &countingReader{Reader: strings.NewReader(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}`)}
	post := func(config *rest.Config) int {
		// Over HTTP/1.1 with Expect: 100-continue the client sends the body only when the server asks for it.
		transport, err := rest.TLSConfigFor(config)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: transport, ExpectContinueTimeout: time.Minute}}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, config.Host+"/api/v1/namespaces/default/configmaps", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Expect", "100-continue")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if code := post(s.as("nobody")); code != http.StatusForbidden || body.n != 0 {
		t.Errorf("nobody: got status %d and %d bytes read, want 403 and 0", code, body.n)
	}
	// The twin: a conditional user gets as far as the enforcer, so that the body was read.
	if code := post(s.as("cond")); code != http.StatusForbidden || body.n == 0 {
		t.Errorf("cond: got status %d and %d bytes read, want 403 and more than 0", code, body.n)
	}
}

// TestNobodyIsLetInBeforeTheSnapshotIsSynced: SV-8.
func TestNobodyIsLetInBeforeTheSnapshotIsSynced(t *testing.T) {
	gate := make(chan struct{})
	s := launch(t, func(o *apiserver.Options) { plug(o, holding(heldPart{gate})) })
	admin := kubernetes.NewForConfigOrDie(s.admin)
	s.await("system:masters to be served", func() (bool, error) {
		_, err := admin.CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil, nil
	})
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "viewer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: "early", APIGroup: rbacv1.GroupName}},
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	early := kubernetes.NewForConfigOrDie(s.as("early"))
	_, err := early.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	wantForbidden(t, "a bound user before the sync", err)
	if !strings.Contains(err.Error(), "has not read its policy yet") {
		t.Errorf("the message does not help: %v", err)
	}
	for path, open := range map[string]bool{"/livez": true, "/readyz": true, "/healthz": true, "/metrics": false, "/version": false, "/readyz/etcd": false} {
		resp, err := anonymous(t, s).Get(s.admin.Host + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if forbidden := resp.StatusCode == http.StatusForbidden; forbidden == open {
			t.Errorf("GET %s before the sync: %d, open: %v", path, resp.StatusCode, open)
		}
		if path == "/readyz" && resp.StatusCode == http.StatusOK {
			t.Error("the server says that it is ready before its policy is synced")
		}
	}

	close(gate)
	s.await("the bound user to be let in", func() (bool, error) {
		_, err := early.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
		return err == nil, nil
	})
	s.AwaitReady()
}

// heldPart is a part of the snapshot that syncs when its channel is closed.
type heldPart struct{ gate chan struct{} }

func (heldPart) Name() string { return "held" }
func (p heldPart) HasSynced() bool {
	select {
	case <-p.gate:
		return true
	default:
		return false
	}
}
func (heldPart) Apply(*snapshot.Snapshot) {}

func anonymous(t *testing.T, s *instance) *http.Client {
	client, err := rest.HTTPClientFor(rest.AnonymousClientConfig(s.admin))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

type countingReader struct {
	io.Reader
	n int
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.n += n
	return n, err
}

func wantForbidden(t *testing.T, what string, err error) {
	t.Helper()
	if !apierrors.IsForbidden(err) {
		t.Fatalf("%s: want 403, got %v", what, err)
	}
}

func object(apiVersion, kind, name string, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}}}
	if spec != nil {
		u.Object["spec"] = spec
	}
	return u
}

func label(u *unstructured.Unstructured, good string) *unstructured.Unstructured {
	u.SetLabels(map[string]string{"good": good})
	return u
}

// install serves a custom resource of example.com.
func install(t *testing.T, s *instance, plural, kind string) {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + ".example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: strings.ToLower(kind), Kind: kind, ListKind: kind + "List"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}}},
		},
	}
	client, err := apiextensionsclient.NewForConfig(s.admin)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	admin := dynamic.NewForConfigOrDie(s.admin)
	s.await(plural+" to be served", func() (bool, error) {
		_, err := admin.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: plural}).List(t.Context(), metav1.ListOptions{})
		return err == nil, nil
	})
	// The aggregator must know the group too, or the dynamic client's first request races with its registration.
	aggregator, err := aggregatorclient.NewForConfig(s.admin)
	if err != nil {
		t.Fatal(err)
	}
	s.await("its APIService", func() (bool, error) {
		_, err := aggregator.ApiregistrationV1().APIServices().Get(t.Context(), "v1.example.com", metav1.GetOptions{})
		return err == nil, nil
	})
}

// applyPolicy gives a user a verb on resources, everywhere, under a where.
func applyPolicy(t *testing.T, s *instance, name, where, user, verb string, resources ...string) {
	t.Helper()
	rules := []any{}
	for _, resource := range resources {
		gr := schema.ParseGroupResource(resource)
		rules = append(rules, map[string]any{"verbs": []any{verb}, "apiGroups": []any{gr.Group}, "resourceKinds": []any{gr.Resource}, "where": where})
	}
	admin := dynamic.NewForConfigOrDie(s.admin)
	gv := schema.GroupVersion{Group: "authorization.proviso.dev", Version: "v1alpha1"}
	for _, u := range []*unstructured.Unstructured{
		{Object: map[string]any{"apiVersion": gv.String(), "kind": "Role", "metadata": map[string]any{"name": name, "namespace": "master"}, "rules": rules}},
		{Object: map[string]any{"apiVersion": gv.String(), "kind": "RoleBinding", "metadata": map[string]any{"name": name, "namespace": "master"},
			"roleRef": map[string]any{"namespace": "master", "name": name}, "userNames": []any{user}}},
	} {
		resource := strings.ToLower(u.GetKind()) + "s"
		if _, err := admin.Resource(gv.WithResource(resource)).Namespace("master").Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
