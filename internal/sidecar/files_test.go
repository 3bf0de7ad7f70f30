package sidecar

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	kubeadmv1beta4 "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/v1beta4"
	"sigs.k8s.io/yaml"
)

// SC-4: each file is what its reader reads: no field is misspelt, and systemd has nothing to say about the unit.
func TestFilesAreOfTheirTypes(t *testing.T) {
	dir := initialized(t, nil)
	types := map[string]func() any{
		"Namespace": func() any { return &corev1.Namespace{} }, "Service": func() any { return &corev1.Service{} }, "Pod": func() any { return &corev1.Pod{} },
		"APIService": func() any { return &apiregistrationv1.APIService{} }, "ClusterRole": func() any { return &rbacv1.ClusterRole{} },
		"ClusterRoleBinding": func() any { return &rbacv1.ClusterRoleBinding{} }, "Role": func() any { return &rbacv1.Role{} }, "RoleBinding": func() any { return &rbacv1.RoleBinding{} },
		"FlowSchema": func() any { return &flowcontrolv1.FlowSchema{} }, "Policy": func() any { return &auditv1.Policy{} }, "Config": func() any { return &clientcmdv1.Config{} },
		"ValidatingWebhookConfiguration": func() any { return &admissionregistrationv1.ValidatingWebhookConfiguration{} },
		"AuthorizationConfiguration":     func() any { return &apiserverv1.AuthorizationConfiguration{} },
		"AdmissionConfiguration":         func() any { return &apiserverv1.AdmissionConfiguration{} },
		"ClusterConfiguration":           func() any { return &kubeadmv1beta4.ClusterConfiguration{} },
	}
	for name := range written {
		if filepath.Ext(name) == ".service" {
			continue
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
			if pod, ok := into.(*corev1.Pod); ok && (len(validation.IsDNS1123Subdomain(pod.Name)) > 0 || !pod.Spec.HostNetwork || pod.Spec.Containers[0].Command[0] != "proviso") {
				t.Errorf("the static pod: %+v", pod)
			}
			if c, ok := into.(*kubeadmv1beta4.ClusterConfiguration); ok && (len(c.APIServer.ExtraArgs) != 8 || len(c.APIServer.ExtraVolumes) != 1) {
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
