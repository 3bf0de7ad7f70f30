package sidecar

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	kubeadmv1beta4 "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/v1beta4"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/patches"
	"sigs.k8s.io/yaml"
)

// SC-4: each file is what its reader reads: no field is misspelt, and systemd has nothing to say about the unit.
func TestFilesAreOfTheirTypes(t *testing.T) {
	for name, change := range map[string]func(*settings){
		"as it comes": nil,
		"otherwise": func(s *settings) {
			s.Service, s.Advertise, s.Audit = byAddress, "2001:db8::1", auditByHook
			s.Etcd = etcdSettings{Servers: []string{"https://127.0.0.1:2379"}, CAFile: "/etc/kubernetes/pki/etcd/ca.crt", CertFile: "/etc/kubernetes/pki/c.crt", KeyFile: "/etc/kubernetes/pki/c.key"}
		},
	} {
		t.Run(name, func(t *testing.T) { filesAreOfTheirTypes(t, initialized(t, change)) })
	}
}

func filesAreOfTheirTypes(t *testing.T, dir string) {
	types := map[string]func() any{
		"Namespace": func() any { return &corev1.Namespace{} }, "Service": func() any { return &corev1.Service{} }, "Pod": func() any { return &corev1.Pod{} }, "EndpointSlice": func() any { return &discoveryv1.EndpointSlice{} },
		"APIService": func() any { return &apiregistrationv1.APIService{} }, "ClusterRole": func() any { return &rbacv1.ClusterRole{} },
		"ClusterRoleBinding": func() any { return &rbacv1.ClusterRoleBinding{} }, "Role": func() any { return &rbacv1.Role{} }, "RoleBinding": func() any { return &rbacv1.RoleBinding{} },
		"FlowSchema": func() any { return &flowcontrolv1.FlowSchema{} }, "Policy": func() any { return &auditv1.Policy{} }, "Config": func() any { return &clientcmdv1.Config{} },
		"ValidatingWebhookConfiguration": func() any { return &admissionregistrationv1.ValidatingWebhookConfiguration{} },
		"AuthorizationConfiguration":     func() any { return &apiserverv1.AuthorizationConfiguration{} },
		"AdmissionConfiguration":         func() any { return &apiserverv1.AdmissionConfiguration{} },
		"ClusterConfiguration":           func() any { return &kubeadmv1beta4.ClusterConfiguration{} },
	}
	set, err := readSettings(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name := range written {
		if filepath.Ext(name) == ".service" || strings.HasPrefix(name, patchDir) {
			continue // kubeadm tells about patches
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range strings.Split(string(text), "\n---\n") {
			var kind struct{ Kind string }
			if err := yaml.Unmarshal([]byte(document), &kind); err != nil || types[kind.Kind] == nil {
				t.Errorf("%s: kind %q, %v", name, kind.Kind, err)
				continue
			}
			into := types[kind.Kind]()
			if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
				t.Errorf("%s: %v\n%s", name, err, document)
			}
			if pod, ok := into.(*corev1.Pod); ok && (len(pod.Spec.Volumes) != 1+len(set.Etcd.files()) || len(pod.Spec.Containers[0].VolumeMounts) != len(pod.Spec.Volumes) ||
				len(validation.IsDNS1123Subdomain(pod.Name)) > 0 || !pod.Spec.HostNetwork || pod.Spec.Containers[0].Command[0] != "proviso") {
				t.Errorf("the static pod: %+v", pod)
			}
			if c, ok := into.(*kubeadmv1beta4.ClusterConfiguration); ok && (len(c.APIServer.ExtraArgs) < 7 || len(c.APIServer.ExtraVolumes) != 1) {
				t.Errorf("the fragment of kubeadm: %+v", c.APIServer)
			}
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd is not here: the unit was not verified")
		return
	}
	out, err := exec.Command(analyze, "verify", "--man=no", filepath.Join(dir, "proviso-sidecar.service")).CombinedOutput()
	if err != nil && strings.Contains(string(out), "proviso-sidecar.service:") {
		t.Errorf("the unit: %v\n%s", err, out)
	}
}

// SC-4: kubeadm itself makes an API server of its own manifest and the patches that has every flag of init, none that
// excludes them, and sees the directory.
func TestKubeadmTakesThePatches(t *testing.T) {
	dir := initialized(t, nil)
	// What kubeadm writes, as far as the patches touch it.
	original := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "kube-apiserver", Namespace: "kube-system"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "kube-apiserver", Image: "registry.k8s.io/kube-apiserver:v1.37.1",
			Command:      []string{"kube-apiserver", "--advertise-address=192.0.2.1", "--authorization-mode=Node,RBAC", "--secure-port=6443"},
			VolumeMounts: []corev1.VolumeMount{{Name: "k8s-certs", MountPath: "/etc/kubernetes/pki"}}}},
		Volumes: []corev1.Volume{{Name: "k8s-certs"}},
	}}
	data, err := yaml.Marshal(original)
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	manager, err := patches.GetPatchManagerForPath(filepath.Join(dir, patchDir), patches.KnownTargets(), &said)
	if err != nil {
		t.Fatal(err)
	}
	target := &patches.PatchTarget{Name: "kube-apiserver", StrategicMergePatchObject: corev1.Pod{}, Data: data}
	if err := manager.ApplyPatchesToTarget(target); err != nil {
		t.Fatal(err)
	}
	var patched corev1.Pod
	if err := yaml.UnmarshalStrict(target.Data, &patched); err != nil {
		t.Fatal(err)
	}
	flags, err := os.ReadFile(filepath.Join(dir, "kube-apiserver.flags"))
	if err != nil {
		t.Fatal(err)
	}
	want := append([]string{"kube-apiserver", "--advertise-address=192.0.2.1", "--secure-port=6443"}, strings.Fields(string(flags))...)
	if c := patched.Spec.Containers[0]; !slices.Equal(c.Command, want) || len(c.VolumeMounts) != 2 || len(patched.Spec.Volumes) != 2 {
		t.Errorf("kubeadm makes %+v of it, want %q\n%s", patched.Spec, want, said.String())
	}
}
