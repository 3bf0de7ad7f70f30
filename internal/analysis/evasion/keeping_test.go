package evasion

import (
	"slices"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	"k8s.io/kubernetes/pkg/apis/batch"
	"k8s.io/kubernetes/pkg/apis/certificates"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/flowcontrol"
	"k8s.io/kubernetes/pkg/apis/networking"
	"k8s.io/kubernetes/pkg/apis/policy"
	"k8s.io/kubernetes/pkg/apis/resource"
	"k8s.io/kubernetes/pkg/apis/storage"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/autoscaling/horizontalpodautoscaler"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	csr "k8s.io/kubernetes/pkg/registry/certificates/certificates"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/flowschema"
	"k8s.io/kubernetes/pkg/registry/flowcontrol/prioritylevelconfiguration"
	"k8s.io/kubernetes/pkg/registry/networking/ingress"
	"k8s.io/kubernetes/pkg/registry/networking/servicecidr"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/kubernetes/pkg/registry/resource/devicetaintrule"
	"k8s.io/kubernetes/pkg/registry/storage/csinode"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattachment"
)

// TestWhatSubresourcesKeep: the table of subresources that keep labels and annotations is what upstream's own
// strategies do.
func TestWhatSubresourcesKeep(t *testing.T) {
	type endpoint struct {
		group, resource, sub string
		strategy             rest.RESTUpdateStrategy
		object               runtime.Object
	}
	seen := map[schema.GroupResource]bool{}
	rule := deny("delete", "*", "")
	for _, e := range []endpoint{
		{"", "namespaces", "status", namespace.StatusStrategy, &core.Namespace{}},
		{"", "namespaces", "finalize", namespace.FinalizeStrategy, &core.Namespace{}},
		{"", "nodes", "status", node.StatusStrategy, &core.Node{}},
		{"", "persistentvolumeclaims", "status", persistentvolumeclaim.StatusStrategy, &core.PersistentVolumeClaim{}},
		{"", "persistentvolumes", "status", persistentvolume.StatusStrategy, &core.PersistentVolume{}},
		{"", "pods", "status", pod.StatusStrategy, &core.Pod{}},
		{"", "pods", "ephemeralcontainers", pod.EphemeralContainersStrategy, &core.Pod{}},
		{"", "pods", "resize", pod.ResizeStrategy, &core.Pod{}},
		{"", "replicationcontrollers", "status", replicationcontroller.StatusStrategy, &core.ReplicationController{}},
		{"", "resourcequotas", "status", resourcequota.StatusStrategy, &core.ResourceQuota{}},
		{"", "services", "status", service.StatusStrategy, &core.Service{}},
		{"apiextensions.k8s.io", "customresourcedefinitions", "status", customresourcedefinition.NewStatusStrategy(runtime.NewScheme()), &apiextensions.CustomResourceDefinition{}},
		{"apps", "daemonsets", "status", daemonset.StatusStrategy, &apps.DaemonSet{}},
		{"apps", "deployments", "status", deployment.StatusStrategy, &apps.Deployment{}},
		{"apps", "replicasets", "status", replicaset.StatusStrategy, &apps.ReplicaSet{}},
		{"apps", "statefulsets", "status", statefulset.StatusStrategy, &apps.StatefulSet{}},
		{"autoscaling", "horizontalpodautoscalers", "status", horizontalpodautoscaler.StatusStrategy, &autoscaling.HorizontalPodAutoscaler{}},
		{"batch", "cronjobs", "status", cronjob.StatusStrategy, &batch.CronJob{}},
		{"batch", "jobs", "status", job.StatusStrategy, &batch.Job{}},
		{"certificates.k8s.io", "certificatesigningrequests", "status", csr.StatusStrategy, &certificates.CertificateSigningRequest{}},
		{"certificates.k8s.io", "certificatesigningrequests", "approval", csr.ApprovalStrategy, &certificates.CertificateSigningRequest{}},
		{"flowcontrol.apiserver.k8s.io", "flowschemas", "status", flowschema.StatusStrategy, &flowcontrol.FlowSchema{}},
		{"flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations", "status", prioritylevelconfiguration.StatusStrategy, &flowcontrol.PriorityLevelConfiguration{}},
		{"networking.k8s.io", "ingresses", "status", ingress.StatusStrategy, &networking.Ingress{}},
		{"networking.k8s.io", "servicecidrs", "status", servicecidr.StatusStrategy, &networking.ServiceCIDR{}},
		{"policy", "poddisruptionbudgets", "status", poddisruptionbudget.StatusStrategy, &policy.PodDisruptionBudget{}},
		{"resource.k8s.io", "devicetaintrules", "status", devicetaintrule.StatusStrategy, &resource.DeviceTaintRule{}},
		{"storage.k8s.io", "csinodes", "status", csinode.StatusStrategy, &storage.CSINode{}},
		{"storage.k8s.io", "volumeattachments", "status", volumeattachment.StatusStrategy, &storage.VolumeAttachment{}},
	} {
		old, changed := e.object.DeepCopyObject(), e.object.DeepCopyObject()
		set := func(o runtime.Object, value string) {
			o.(metav1.Object).SetLabels(map[string]string{"a": value})
			o.(metav1.Object).SetAnnotations(map[string]string{"a": value})
		}
		set(old, "old")
		set(changed, "new")
		e.strategy.PrepareForUpdate(t.Context(), changed, old)
		r := schema.GroupResource{Group: e.group, Resource: e.resource}
		for of, now := range map[Of]string{Label: changed.(metav1.Object).GetLabels()["a"], Annotation: changed.(metav1.Object).GetAnnotations()["a"]} {
			listed := slices.ContainsFunc(writes(&rule, r, Mark{of, "a"}), func(w write) bool { return w.sub == e.sub })
			seen[r] = seen[r] || listed
			if listed != (now == "new") {
				t.Errorf("%s/%s: a %s is changed to %q, and the table says %v", r, e.sub, of, now, listed)
			}
		}
	}
	for r := range keeping {
		if !seen[r] {
			t.Errorf("%s is not compared with upstream", r)
		}
	}
}
