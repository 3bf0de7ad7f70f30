package server

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

const derivedWorld = `
{apiVersion: v1, kind: Namespace, metadata: {name: derived}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: derived}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: pulls, namespace: derived}, imagePullSecrets: [{name: registry}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: writer, namespace: derived}, rules: [{apiGroups: ["*"], resources: ["*"], verbs: [create]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: dora, namespace: derived}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: writer},
  subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: derived-dora}]}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: derived}, value: 5000, preemptionPolicy: Never}
---
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: derived}, handler: derived, overhead: {podFixed: {cpu: 1m}},
  scheduling: {nodeSelector: {derived: "yes"}, tolerations: [{key: derived, operator: Exists}]}}
`

// FP-16: where the server sets an exclusive field from another one, the caller is refused both: the object itself, in
// which the field is set by then, and what it is made from, in which it is not.
func TestDerivedFields(t *testing.T) {
	t.Parallel()
	s := plain.get(t)
	x := newExamples(t, s)
	x.createAll(t, derivedWorld)
	dora := dynamic.NewForConfigOrDie(s.as("derived-dora"))
	create := func(text string) error {
		var u unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		u.SetNamespace("derived")
		u.SetGenerateName("d-")
		_, err := x.resource(t, dora, &u).Create(t.Context(), &u, metav1.CreateOptions{DryRun: []string{"All"}})
		return err
	}
	const pod, claim = "pods", "persistentvolumeclaims"
	made := map[string][]string{
		pod: {
			`{apiVersion: v1, kind: Pod, %s}`,
			`{apiVersion: apps/v1, kind: Deployment, spec: {selector: {matchLabels: {a: b}}, template: {%s}}}`,
			`{apiVersion: batch/v1, kind: CronJob, spec: {schedule: "* * * * *", jobTemplate: {spec: {template: {%s}}}}}`,
		},
		claim: {
			`{apiVersion: v1, kind: PersistentVolumeClaim, %s}`,
			`{apiVersion: apps/v1, kind: StatefulSet, spec: {selector: {matchLabels: {a: b}}, serviceName: s, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: web, image: i}]}},
				volumeClaimTemplates: [{metadata: {name: v, labels: {c: d}}, %s}]}}`,
			`{apiVersion: v1, kind: Pod, spec: {containers: [{name: web, image: i}], volumes: [{name: v, ephemeral: {volumeClaimTemplate: {%s}}}]}}`,
		},
		"jobs.batch": {
			`{apiVersion: batch/v1, kind: Job, spec: {template: {%s}}}`,
			`{apiVersion: batch/v1, kind: CronJob, spec: {schedule: "* * * * *", jobTemplate: {spec: {template: {%s}}}}}`,
		},
	}
	const storage = "accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}"
	inPod := func(metadata, spec string) string {
		return "metadata: {labels: {a: b, e: f}" + metadata + "}, spec: {restartPolicy: RESTART, containers: [{name: web, image: i}]" + spec + "}"
	}
	inClaim := func(spec string) string { return "spec: {" + storage + spec + "}" }
	matching := ", labelSelector: {matchLabels: {a: b}}, topologyKey: zone, matchLabelKeys: [e]"
	for _, tc := range []struct {
		name, of, field, when string
		with, without         string
	}{
		{"profile", pod, ".spec.containers[].securityContext.appArmorProfile", "", inPod(", annotations: {container.apparmor.security.beta.kubernetes.io/web: unconfined}", ""), inPod(", annotations: {other: x}", "")},
		{"priority", pod, ".spec.priority", "self != null && self > 1000", inPod("", ", priorityClassName: derived"), inPod("", "")},
		{"preemption", pod, ".spec.preemptionPolicy", `self == "Never"`, inPod("", ", priorityClassName: derived"), inPod("", "")},
		{"overhead", pod, ".spec.overhead", "", inPod("", ", runtimeClassName: derived"), inPod("", "")},
		{"selector", pod, ".spec.nodeSelector[derived]", "", inPod("", ", runtimeClassName: derived"), inPod("", "")},
		{"tolerations", pod, ".spec.tolerations", `self != null && self.exists(t, has(t.key) && t.key == "derived")`, inPod("", ", runtimeClassName: derived"), inPod("", "")},
		{"requests", pod, ".spec.resources.requests", "", inPod("", ", resources: {limits: {cpu: 1}}"), inPod("", "")},
		{"spread", pod, ".spec.topologySpreadConstraints[].labelSelector.matchExpressions", "", inPod("", ", topologySpreadConstraints: [{maxSkew: 1, whenUnsatisfiable: DoNotSchedule"+matching+"}]"),
			inPod("", ", topologySpreadConstraints: [{maxSkew: 1, whenUnsatisfiable: DoNotSchedule"+strings.Replace(matching, "[e]", "[]", 1)+"}]")},
		{"affinity", pod, ".spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[].labelSelector.matchExpressions", "",
			inPod("", ", affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{"+matching[2:]+"}]}}"),
			inPod("", ", affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{"+strings.Replace(matching, "[e]", "[]", 1)[2:]+"}]}}")},
		{"reference", claim, ".spec.dataSourceRef", "", inClaim(", dataSource: {kind: PersistentVolumeClaim, name: other}"), inClaim("")},
		{"source", claim, ".spec.dataSource", "", inClaim(", dataSourceRef: {kind: PersistentVolumeClaim, name: other}"), inClaim("")},
		{"label", "jobs.batch", ".metadata.labels[c]", "", strings.Replace(inPod("", ""), "a: b", "c: d", 1), inPod("", "")},
	} {
		restore := x.withhold(t, tc.name, tc.of, tc.field, tc.when)
		needs := "granular:derived.example.com/" + tc.name
		for i, in := range made[tc.of] {
			restart := map[bool]string{false: "Always", true: "Never"}[strings.Contains(in, "batch/v1")]
			with, without := fmt.Sprintf(in, strings.Replace(tc.with, "RESTART", restart, 1)), fmt.Sprintf(in, strings.Replace(tc.without, "RESTART", restart, 1))
			if i == 0 {
				s.await(tc.name, func() (bool, error) {
					err := create(with)
					return err != nil && strings.Contains(err.Error(), needs), nil
				})
			}
			refusedWith(t, tc.name+": "+with, create(with), needs)
			fine(t, "not "+tc.name+": "+without, create(without))
			if i == len(made[tc.of])-1 {
				restore()
				s.await("no "+tc.name, func() (bool, error) { return create(with) == nil, nil })
			}
		}
	}
	// A service account, which its users may write, has the pull secrets of their pods.
	defer x.withhold(t, "pulls", pod, ".spec.imagePullSecrets", "")()
	const account = "{apiVersion: v1, kind: ServiceAccount%s}"
	s.await("pull secrets", func() (bool, error) {
		return apierrors.IsForbidden(create(fmt.Sprintf(account, ", imagePullSecrets: [{name: x}]"))), nil
	})
	refusedWith(t, "an account", create(fmt.Sprintf(account, ", imagePullSecrets: [{name: x}]")), "field .imagePullSecrets needs granular:derived.example.com/pulls")
	fine(t, "an account without pull secrets", create(fmt.Sprintf(account, "")))
	refusedWith(t, "a pod of one", create("{apiVersion: v1, kind: Pod, spec: {serviceAccountName: pulls, containers: [{name: web, image: i}]}}"), "field .spec.imagePullSecrets[registry] needs granular:derived.example.com/pulls")
}

// withhold declares an exclusive field.
func (x *examples) withhold(t *testing.T, name, of, field, when string) (restore func()) {
	t.Helper()
	spec := map[string]any{"resources": []any{of}, "field": field, "permission": "derived.example.com/" + name, "exclusive": true}
	if when != "" {
		spec["exclusiveWhen"] = when
	}
	permission := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "policy.proviso.dev/v1alpha1", "kind": "FieldPermission", "metadata": map[string]any{"name": "derived-" + name}, "spec": spec}}
	permissions := x.resource(t, x.admin, permission)
	_, err := permissions.Create(t.Context(), permission, metav1.CreateOptions{})
	fine(t, name, err)
	return func() { fine(t, name, permissions.Delete(t.Context(), permission.GetName(), metav1.DeleteOptions{})) }
}
