package controllers

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authnv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

var (
	bg      = context.Background()
	create  = metav1.CreateOptions{}
	get     = metav1.GetOptions{}
	del     = metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

// SV-1, SV-2: on a real server with our certificates and our etcd, the controllers do what a lone server lacks; of two
// servers one runs them; and the other takes over. One test, since starting a server is what takes time.
func TestControllers(t *testing.T) {
	s := startServer(t)
	goroutines := runtime.NumGoroutine()
	a := s.run(t, Config{LeaderElect: true, Identity: "a"})
	<-a.Started()
	if !a.Running() {
		t.Fatal("the only server does not run its controllers")
	}
	b := s.run(t, Config{LeaderElect: true, Identity: "b"})
	<-b.Started()
	if b.Running() {
		t.Fatal("both servers run controllers")
	}
	s.checkAll(t, "first")

	t.Run("a leader that leaves is replaced", func(t *testing.T) {
		a.stop(t)
		// It resigns: without that the other one would wait for the lease to run out.
		lease, err := s.CoordinationV1().Leases(leaseNamespace).Get(bg, leaseName, get)
		if err != nil || ptr.Deref(lease.Spec.HolderIdentity, "") == a.cfg.Identity {
			t.Errorf("who left still holds the lease: %+v, %v", lease.Spec, err)
		}
		await(t, "the other server", func(context.Context) (bool, error) { return b.Running(), nil })
		s.checkServiceAccounts(t, "second")
		s.checkGarbage(t, "second")
	})

	t.Run("a leader that loses the lease stops and campaigns again", func(t *testing.T) {
		steal := func(ctx context.Context) (bool, error) {
			lease, err := s.CoordinationV1().Leases(leaseNamespace).Get(ctx, leaseName, get)
			if err != nil {
				return false, err
			}
			lease.Spec.HolderIdentity, lease.Spec.RenewTime = ptr.To("thief"), ptr.To(metav1.NowMicro())
			_, err = s.CoordinationV1().Leases(leaseNamespace).Update(ctx, lease, metav1.UpdateOptions{})
			return err == nil, nil
		}
		await(t, "the theft", steal)
		await(t, "the end of the term", func(context.Context) (bool, error) { return !b.Running(), nil })
		await(t, "the next term", func(context.Context) (bool, error) { return b.Running(), nil })
		s.checkServiceAccounts(t, "third")
	})

	b.stop(t)
	t.Run("without elections", func(t *testing.T) {
		c := s.run(t, Config{Names: []string{"*", "-serviceaccount"}})
		<-c.Started()
		if !c.Running() {
			t.Error("started and not running")
		}
		ns := s.namespace(t, "fourth")
		await(t, "the root certificate", func(ctx context.Context) (bool, error) {
			_, err := s.CoreV1().ConfigMaps(ns).Get(ctx, "kube-root-ca.crt", get)
			return ignoreMissing(err)
		})
		if _, err := s.CoreV1().ServiceAccounts(ns).Get(bg, "default", get); !errors.IsNotFound(err) {
			t.Errorf("a controller that is switched off runs: %v", err)
		}
		c.stop(t)
	})

	t.Run("nothing to run", func(t *testing.T) {
		c := s.run(t, Config{Names: []string{"-namespace"}})
		<-c.Started()
		if c.Running() {
			t.Error("something runs")
		}
		c.stop(t)
	})
	// Nothing outlives its term. Idle connections and the server's own goroutines come and go.
	await(t, "goroutines to end", func(context.Context) (bool, error) { return runtime.NumGoroutine() < goroutines+100, nil })
}

// SV-2: controllers whose server does not answer neither fail nor hold up the end of the process.
func TestDeadServer(t *testing.T) {
	for _, elect := range []bool{false, true} {
		var calls atomic.Int32
		dead := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			calls.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
		c, err := New(Config{RestConfig: &rest.Config{Host: dead.URL}, LeaderElect: elect,
			lease: timing{duration: 3 * time.Second, deadline: 2 * time.Second, retry: 50 * time.Millisecond}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(bg)
		stopped := make(chan error, 1)
		go func() { stopped <- c.Run(ctx) }()
		await(t, "several attempts", func(context.Context) (bool, error) { return calls.Load() > 3, nil })
		select {
		case <-c.Started():
			t.Error("started without a server")
		case err := <-stopped:
			t.Errorf("gave up: %v", err)
		default:
		}
		cancel()
		select {
		case err := <-stopped:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(limit):
			t.Fatal("does not stop")
		}
		dead.Close()
	}
}

func ignoreMissing(err error) (bool, error) {
	if errors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

func (s *server) namespace(t *testing.T, name string) string {
	t.Helper()
	if _, err := s.CoreV1().Namespaces().Create(bg, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, create); err != nil {
		t.Fatal(err)
	}
	return name
}

// checkAll proves one effect of each controller, in a namespace of its own.
func (s *server) checkAll(t *testing.T, name string) {
	s.checkServiceAccounts(t, name)
	s.checkToken(t, name)
	s.checkAggregation(t, name)
	s.checkGarbage(t, name)
	s.checkQuota(t, name)
	s.checkClaimsEnd(t, name)
	s.checkNamespaceEnds(t, name)
}

func (s *server) checkServiceAccounts(t *testing.T, name string) {
	t.Helper()
	ns := s.namespace(t, name)
	await(t, "the default service account", func(ctx context.Context) (bool, error) {
		_, err := s.CoreV1().ServiceAccounts(ns).Get(ctx, "default", get)
		return ignoreMissing(err)
	})
	await(t, "the root certificate", func(ctx context.Context) (bool, error) {
		published, err := s.CoreV1().ConfigMaps(ns).Get(ctx, "kube-root-ca.crt", get)
		if err == nil && published.Data["ca.crt"] != string(read(t, s.files.CACert)) {
			t.Error("another certificate is published")
		}
		return ignoreMissing(err)
	})
}

// checkToken logs in with a token from a secret and with one that was requested.
func (s *server) checkToken(t *testing.T, ns string) {
	t.Helper()
	secret := &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, ObjectMeta: metav1.ObjectMeta{Name: "token",
		Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}}}
	if _, err := s.CoreV1().Secrets(ns).Create(bg, secret, create); err != nil {
		t.Fatal(err)
	}
	tokens := map[string]string{}
	await(t, "the token", func(ctx context.Context) (bool, error) {
		filled, err := s.CoreV1().Secrets(ns).Get(ctx, "token", get)
		if err != nil {
			return false, err
		}
		tokens["secret"] = string(filled.Data[corev1.ServiceAccountTokenKey])
		return tokens["secret"] != "" && len(filled.Data[corev1.ServiceAccountRootCAKey]) > 0, nil
	})
	requested, err := s.CoreV1().ServiceAccounts(ns).CreateToken(bg, "default", &authnv1.TokenRequest{}, create)
	if err != nil {
		t.Fatal(err)
	}
	tokens["requested"] = requested.Status.Token
	for kind, token := range tokens {
		config := rest.AnonymousClientConfig(s.admin)
		config.BearerToken = token
		review, err := kubernetes.NewForConfigOrDie(config).AuthenticationV1().SelfSubjectReviews().Create(bg, &authnv1.SelfSubjectReview{}, create)
		if err != nil {
			t.Fatalf("%s token: %v", kind, err)
		}
		if got, want := review.Status.UserInfo.Username, "system:serviceaccount:"+ns+":default"; got != want {
			t.Errorf("%s token: logged in as %s, want %s", kind, got, want)
		}
	}
}

func (s *server) checkAggregation(t *testing.T, name string) {
	t.Helper()
	label := map[string]string{"aggregate-to": name}
	rules := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{"example.com"}, Resources: []string{"widgets"}}}
	for _, role := range []*rbacv1.ClusterRole{
		{ObjectMeta: metav1.ObjectMeta{Name: name + "-part", Labels: label}, Rules: rules},
		{ObjectMeta: metav1.ObjectMeta{Name: name + "-whole"}, AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: label}}}},
	} {
		if _, err := s.RbacV1().ClusterRoles().Create(bg, role, create); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the aggregated rules", func(ctx context.Context) (bool, error) {
		role, err := s.RbacV1().ClusterRoles().Get(ctx, name+"-whole", get)
		return err == nil && len(role.Rules) == 1 && role.Rules[0].Resources[0] == "widgets", err
	})
}

// checkGarbage deletes an owner of built-in and custom objects; what nobody owns stays.
func (s *server) checkGarbage(t *testing.T, ns string) {
	t.Helper()
	s.ensureWidgets(t)
	owner, err := s.CoreV1().ConfigMaps(ns).Create(bg, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, create)
	if err != nil {
		t.Fatal(err)
	}
	ref := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID}}
	for name, refs := range map[string][]metav1.OwnerReference{"owned": ref, "free": nil} {
		if _, err := s.CoreV1().Secrets(ns).Create(bg, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: refs}}, create); err != nil {
			t.Fatal(err)
		}
		s.widget(t, ns, name, refs)
	}
	if err := s.CoreV1().ConfigMaps(ns).Delete(bg, "owner", del); err != nil {
		t.Fatal(err)
	}
	await(t, "owned objects to go", func(ctx context.Context) (bool, error) {
		_, secret := s.CoreV1().Secrets(ns).Get(ctx, "owned", get)
		_, widget := s.dynamic.Resource(widgets).Namespace(ns).Get(ctx, "owned", get)
		return errors.IsNotFound(secret) && errors.IsNotFound(widget), nil
	})
	if _, err := s.CoreV1().Secrets(ns).Get(bg, "free", get); err != nil {
		t.Error(err)
	}
	if _, err := s.dynamic.Resource(widgets).Namespace(ns).Get(bg, "free", get); err != nil {
		t.Error(err)
	}
}

// checkQuota counts built-in and custom objects, and follows a deletion and an update that only the whole object shows.
func (s *server) checkQuota(t *testing.T, ns string) {
	t.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "quota"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
		"configmaps": resource.MustParse("10"), "pods": resource.MustParse("5"), "services.nodeports": resource.MustParse("3"),
		"count/widgets.example.com": resource.MustParse("4"), "requests.storage": resource.MustParse("1Gi")}}}
	service, err := s.CoreV1().Services(ns).Create(bg, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "service"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}}}, create)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.CoreV1().ResourceQuotas(ns).Create(bg, quota, create); err != nil {
		t.Fatal(err)
	}
	used := func(want map[corev1.ResourceName]string) {
		t.Helper()
		await(t, "the quota's status", func(ctx context.Context) (bool, error) {
			got, err := s.CoreV1().ResourceQuotas(ns).Get(ctx, "quota", get)
			if err != nil {
				return false, err
			}
			for name, value := range want {
				if have, ok := got.Status.Used[name]; !ok || have.Cmp(resource.MustParse(value)) != 0 {
					return false, nil
				}
			}
			return len(got.Status.Hard) == len(quota.Spec.Hard), nil
		})
	}
	used(map[corev1.ResourceName]string{"configmaps": "1", "pods": "0", "services.nodeports": "1", "count/widgets.example.com": "1"})
	if err := s.dynamic.Resource(widgets).Namespace(ns).Delete(bg, "free", del); err != nil {
		t.Fatal(err)
	}
	service.Spec.Type, service.Spec.Ports[0].NodePort = corev1.ServiceTypeClusterIP, 0
	if _, err := s.CoreV1().Services(ns).Update(bg, service, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	used(map[corev1.ResourceName]string{"configmaps": "1", "services.nodeports": "0", "count/widgets.example.com": "0"})
}

// Admission protects claims and volumes by a finalizer; somebody has to take it off when they are deleted.
func (s *server) checkClaimsEnd(t *testing.T, ns string) {
	t.Helper()
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	once := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim, err := s.CoreV1().PersistentVolumeClaims(ns).Create(bg, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "ledger"},
		Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: once, Resources: corev1.VolumeResourceRequirements{Requests: size}},
	}, metav1.CreateOptions{})
	if err != nil || len(claim.Finalizers) == 0 {
		t.Fatalf("claim with its finalizer: %v, %v", claim.Finalizers, err)
	}
	volume, err := s.CoreV1().PersistentVolumes().Create(bg, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Spec: corev1.PersistentVolumeSpec{AccessModes: once, Capacity: size,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/ledger"}}},
	}, metav1.CreateOptions{})
	if err != nil || len(volume.Finalizers) == 0 {
		t.Fatalf("volume with its finalizer: %v, %v", volume.Finalizers, err)
	}
	if err := s.CoreV1().PersistentVolumeClaims(ns).Delete(bg, "ledger", del); err != nil {
		t.Fatal(err)
	}
	if err := s.CoreV1().PersistentVolumes().Delete(bg, ns, del); err != nil {
		t.Fatal(err)
	}
	await(t, "the claim and the volume to go", func(ctx context.Context) (bool, error) {
		_, claim := s.CoreV1().PersistentVolumeClaims(ns).Get(ctx, "ledger", get)
		_, volume := s.CoreV1().PersistentVolumes().Get(ctx, ns, get)
		return errors.IsNotFound(claim) && errors.IsNotFound(volume), nil
	})
}

func (s *server) checkNamespaceEnds(t *testing.T, ns string) {
	t.Helper()
	s.widget(t, ns, "last", nil)
	if err := s.CoreV1().Namespaces().Delete(bg, ns, del); err != nil {
		t.Fatal(err)
	}
	await(t, "the namespace to go", func(ctx context.Context) (bool, error) {
		_, err := s.CoreV1().Namespaces().Get(ctx, ns, get)
		if errors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
	left, err := s.dynamic.Resource(widgets).List(bg, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, widget := range left.Items {
		if widget.GetNamespace() == ns {
			t.Errorf("%s outlived its namespace", widget.GetName())
		}
	}
}

func (s *server) widget(t *testing.T, ns, name string, refs []metav1.OwnerReference) {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}}
	object.SetName(name)
	object.SetOwnerReferences(refs)
	if _, err := s.dynamic.Resource(widgets).Namespace(ns).Create(bg, object, create); err != nil {
		t.Fatal(err)
	}
}

// ensureWidgets defines a custom resource while the controllers run already.
func (s *server) ensureWidgets(t *testing.T) {
	t.Helper()
	crd := &extv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"}, Spec: extv1.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: extv1.NamespaceScoped, Names: extv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"},
		Versions: []extv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
			Schema: &extv1.CustomResourceValidation{OpenAPIV3Schema: &extv1.JSONSchemaProps{Type: "object"}}}}}}
	if _, err := s.crds.ApiextensionsV1().CustomResourceDefinitions().Create(bg, crd, create); err != nil && !errors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	await(t, "the custom resource", func(ctx context.Context) (bool, error) {
		_, err := s.dynamic.Resource(widgets).List(ctx, metav1.ListOptions{})
		if err != nil && !errors.IsNotFound(err) && !strings.Contains(err.Error(), "could not find") {
			return false, err
		}
		return err == nil, nil
	})
}
