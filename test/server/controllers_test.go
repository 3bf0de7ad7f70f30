package server

import (
	"maps"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"

	"proviso.dev/proviso/test/deeds"
)

// deedTrail keeps what the server's own identities have written: who, verb, resource.
type deedTrail struct {
	mu    sync.Mutex
	deeds map[string]bool
}

func (d *deedTrail) EvaluatePolicyRule(authorizer.Attributes) audit.RequestAuditConfig {
	return audit.RequestAuditConfig{Level: auditinternal.LevelMetadata}
}

func (d *deedTrail) ProcessEvents(events ...*auditinternal.Event) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range events {
		if e.Stage != auditinternal.StageResponseComplete || e.ObjectRef == nil || e.ResponseStatus == nil {
			continue
		}
		r := deeds.Request{User: e.User.Username, Agent: e.UserAgent, Verb: e.Verb, Code: e.ResponseStatus.Code,
			Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource}
		if deed := r.Deed(); deed != "" {
			d.deeds[deed] = true
		}
	}
	return true
}

func (d *deedTrail) Run(<-chan struct{}) error { return nil }
func (d *deedTrail) Shutdown()                 {}
func (d *deedTrail) String() string            { return "deeds" }

func (d *deedTrail) seen() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.deeds))
}

// NI-4: the closed list of effects is what the controllers of the server really write. A new way fails here: say in the
// list what a deny does about it.
func TestControllersDoOnlyWhatIsListed(t *testing.T) {
	s := peopled.get(t)
	ctx := t.Context()
	admin := kubernetes.NewForConfigOrDie(s.admin)
	must := func(err error) {
		t.Helper()
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	const ns = "deeds"
	_, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{})
	must(err)
	// Owners and what they own, a quota, tokens, claims, an aggregated role.
	owner, err := admin.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	must(err)
	owned := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID}}}}
	_, err = admin.CoreV1().Secrets(ns).Create(ctx, owned, metav1.CreateOptions{})
	must(err)
	orphan := owned.DeepCopy()
	second, err := admin.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "second"}}, metav1.CreateOptions{})
	must(err)
	orphan.Name, orphan.OwnerReferences[0].Name, orphan.OwnerReferences[0].UID = "orphan", "second", second.UID
	_, err = admin.CoreV1().Secrets(ns).Create(ctx, orphan, metav1.CreateOptions{})
	must(err)
	_, err = admin.CoreV1().ResourceQuotas(ns).Create(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/secrets": resource.MustParse("50")}}}, metav1.CreateOptions{})
	must(err)
	_, err = admin.CoreV1().ServiceAccounts(ns).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "sa"}}, metav1.CreateOptions{})
	must(err)
	_, err = admin.CoreV1().Secrets(ns).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "token", Annotations: map[string]string{"kubernetes.io/service-account.name": "sa"}}, Type: corev1.SecretTypeServiceAccountToken}, metav1.CreateOptions{})
	must(err)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim"}, Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}}}}
	_, err = admin.CoreV1().PersistentVolumeClaims(ns).Create(ctx, claim, metav1.CreateOptions{})
	must(err)
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "deeds"}, Spec: corev1.PersistentVolumeSpec{Capacity: corev1.ResourceList{"storage": resource.MustParse("1Gi")}, AccessModes: claim.Spec.AccessModes, PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}}}
	_, err = admin.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	must(err)
	for name, role := range map[string]*rbacv1.ClusterRole{
		"deeds-all":  {AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"deeds": "yes"}}}}},
		"deeds-part": {ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"deeds": "yes"}}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}},
	} {
		role.Name = name
		_, err = admin.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
		must(err)
	}
	s.await("the controllers to fill what is new", func() (bool, error) {
		token, _ := admin.CoreV1().Secrets(ns).Get(ctx, "token", metav1.GetOptions{})
		role, _ := admin.RbacV1().ClusterRoles().Get(ctx, "deeds-all", metav1.GetOptions{})
		quota, _ := admin.CoreV1().ResourceQuotas(ns).Get(ctx, "q", metav1.GetOptions{})
		return len(token.Data) > 0 && len(role.Rules) > 0 && len(quota.Status.Used) > 0, nil
	})
	orphans := metav1.DeletePropagationOrphan
	must(admin.CoreV1().ConfigMaps(ns).Delete(ctx, "owner", metav1.DeleteOptions{}))
	must(admin.CoreV1().ConfigMaps(ns).Delete(ctx, "second", metav1.DeleteOptions{PropagationPolicy: &orphans}))
	must(admin.CoreV1().ServiceAccounts(ns).Delete(ctx, "sa", metav1.DeleteOptions{}))
	must(admin.CoreV1().PersistentVolumeClaims(ns).Delete(ctx, "claim", metav1.DeleteOptions{}))
	must(admin.CoreV1().PersistentVolumes().Delete(ctx, "deeds", metav1.DeleteOptions{}))
	s.await("what goes with it to be gone", func() (bool, error) {
		for _, name := range []string{"owned", "token"} {
			if _, err := admin.CoreV1().Secrets(ns).Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return false, nil
			}
		}
		left, err := admin.CoreV1().Secrets(ns).Get(ctx, "orphan", metav1.GetOptions{})
		_, gone := admin.CoreV1().PersistentVolumes().Get(ctx, "deeds", metav1.GetOptions{})
		return err == nil && len(left.OwnerReferences) == 0 && apierrors.IsNotFound(gone), nil
	})
	must(admin.CoreV1().Namespaces().Delete(ctx, ns, metav1.DeleteOptions{}))
	s.await("the end of the namespace", func() (bool, error) {
		_, err := admin.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})

	listed, err := deeds.Read("../../docs/explanation/effects.md")
	must(err)
	for _, deed := range done.seen() {
		if !listed.Has(deed) {
			t.Errorf("not in docs/explanation/effects.md: %s", deed)
		}
	}
	for _, deed := range listed.NotDone(done.seen()) {
		t.Errorf("in docs/explanation/effects.md, and not done: %s", deed)
	}
}
