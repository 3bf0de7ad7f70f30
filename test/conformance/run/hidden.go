package main

import (
	"context"
	"os"
)

// hiddenFields hides fields from the user of the suite: values of environments, also in templates, and binary data of
// config maps. Data of secrets is hidden from others.
const hiddenFields = `
apiVersion: policy.proviso.dev/v1alpha1
kind: FieldPermission
metadata: {name: env}
spec: {resources: [pods], field: ".spec.containers[].env[].value", permission: example.com/env, readExclusive: true}
---
apiVersion: policy.proviso.dev/v1alpha1
kind: FieldPermission
metadata: {name: binary}
spec: {resources: [configmaps], field: .binaryData, permission: example.com/binary, readExclusive: true}
---
apiVersion: policy.proviso.dev/v1alpha1
kind: FieldPermission
metadata: {name: secret}
spec: {resources: [secrets], field: .data, permission: example.com/secret, readExclusive: true}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: sees-secrets}
rules: [{apiGroups: [""], resources: [secrets], verbs: ["reveal:example.com/secret"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: sees-secrets}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: sees-secrets}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ` + suiteUser + `}]
`

// hide makes the user of the suite, and hides fields from it (HF-10).
func (r *recording) hide(ctx context.Context, s *server) (kubeconfig string, err error) {
	if kubeconfig, err = r.user(ctx, s); err != nil {
		return "", err
	}
	file := r.file("hidden.yaml")
	if err := os.WriteFile(file, []byte(hiddenFields), 0o600); err != nil {
		return "", err
	}
	return kubeconfig, r.to(ctx, os.DevNull, "kubectl", "--kubeconfig", s.kubeconfig, "apply", "-f", file)
}
