package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// readsPolicy: by RBAC, otto and lab delete pods and config maps, evict pods and bind them. Policy denies otto to
// delete pods that are kept, and lets dora run commands in pods that are for it. A label is protected.
const readsPolicy = `apiVersion: policy.proviso.dev/v1alpha1
kind: Policy
metadata: {name: default, namespace: team}
---
apiVersion: policy.proviso.dev/v1alpha1
kind: PolicyBinding
metadata: {name: team, namespace: team}
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: keep, namespace: team}
rules: [{deny: true, verbs: [delete], resourceKinds: [pods], when: 'oldObject.metadata.?labels.keep.orValue("") == "yes"'}]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: keep, namespace: team}
roleRef: {namespace: team, name: keep}
userNames: [otto]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: debug, namespace: team}
rules: [{verbs: [get, create], resourceKinds: [pods/exec], when: 'target.metadata.?labels.debug.orValue("") == "yes"'}, {verbs: [get], resourceKinds: [pods]}]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: debug, namespace: team}
roleRef: {namespace: team, name: debug}
userNames: [dora]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: deletes, namespace: team}
rules:
- {apiGroups: [""], resources: [configmaps, pods], verbs: [get, delete]}
- {apiGroups: [""], resources: [pods/eviction, pods/binding], verbs: [create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: deletes, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: deletes}
subjects: [{kind: User, name: otto, apiGroup: rbac.authorization.k8s.io}, {kind: User, name: lab, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: policy.proviso.dev/v1alpha1
kind: ClusterProtectedAttribute
metadata: {name: zones}
attributeKind: Label
attributeName: zone
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: zoned}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: zoned}
rules: []
`

const heldPod = `apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: team, labels: {keep: "KEEP", debug: "KEEP"}, ownerReferences: OWNERS}
spec: {automountServiceAccountToken: false, containers: [{name: c, image: i}]}
`

func (p *pair) pod(name, keep, owners string) {
	p.apply(strings.NewReplacer("NAME", name, "KEEP", keep, "OWNERS", owners).Replace(heldPod))
}

// owner makes a config map, and gives the reference to it.
func (p *pair) owner(name string) string {
	p.kubectl("-n", "team", "create", "configmap", name)
	uid, _ := p.try("", "-n", "team", "get", "configmap", name, "-o", "jsonpath={.metadata.uid}")
	return `[{apiVersion: v1, kind: ConfigMap, name: ` + name + `, uid: ` + strings.TrimSpace(uid) + `}]`
}

// SC-16: with --read-objects denies of deletes hold by effect on a real stock server, for what is denied and for
// nothing else; without it everything that could be denied is refused, and the refusal names the flag.
func TestSidecarReadsObjects(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"may read": {"--read-objects"}, "may not read": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startPair(t, flags...)
			p.kubectl("apply", "-f", filepath.Join(p.Side, "cluster.yaml"))
			p.honoured()
			p.kubectl("create", "namespace", "team")
			p.kubectl("-n", "team", "create", "serviceaccount", "default")
			p.apply(readsPolicy)
			p.pod("kept", "yes", "[]")
			p.await("the deny to hold", func() bool {
				out, err := p.try("", "-n", "team", "--as", "otto", "delete", "pod", "kept", "--wait=false", "--dry-run=server")
				return err != nil && strings.Contains(out, "keep")
			})
			p.byEffect(flags != nil)
		})
	}
}

func (p *pair) byEffect(reads bool) {
	p.t.Helper()
	lets := func(user string, want bool, args ...string) string {
		out, err := p.try("", append([]string{"-n", "team", "--as", user}, args...)...)
		if (err == nil) != want {
			p.t.Errorf("%s %v: %v, want allowed %v: %s", user, args, err, want, out)
		}
		return out
	}
	p.pod("owned-kept", "yes", p.owner("keeps"))
	p.pod("owned-free", "no", p.owner("frees"))
	lets("otto", false, "delete", "configmap", "keeps", "--wait=false")
	out := lets("otto", reads, "delete", "configmap", "frees", "--wait=false")
	if !reads && !strings.Contains(out, "proviso sidecar init --read-objects") {
		p.t.Errorf("the refusal does not name the flag: %s", out)
	}
	lets("lab", true, "delete", "configmap", "keeps", "--wait=false") // to whom nothing is denied

	evict := func(user, pod string) (string, error) {
		return p.try(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"`+pod+`","namespace":"team"}}`, "--as", user, "create", "--raw", "/api/v1/namespaces/team/pods/"+pod+"/eviction", "-f", "-")
	}
	if out, err := evict("otto", "kept"); err == nil {
		p.t.Errorf("the eviction of a pod that is kept: %s", out)
	}
	out, err := evict("otto", "owned-free")
	if (err == nil) != reads || !reads && !strings.Contains(out, "proviso sidecar init --read-objects") {
		p.t.Errorf("the eviction of a pod that is not kept: %v %s", err, out)
	}

	// No kubelet runs: who is admitted gets as far as the node.
	out, _ = p.try("", "-n", "team", "--as", "dora", "exec", "kept", "--", "ps")
	if admitted := strings.Contains(out, "does not have a host assigned"); admitted != reads {
		p.t.Errorf("exec into a pod for it: %s", out)
	}
	p.pod("closed", "no", "[]")
	if out, _ = p.try("", "-n", "team", "--as", "dora", "exec", "closed", "--", "ps"); strings.Contains(out, "host assigned") {
		p.t.Errorf("exec into another pod: %s", out)
	}
	p.binds(reads)
	p.ownReads(reads)
}

// binds: a Binding sets a protected label as the pod has it, and no other.
func (p *pair) binds(reads bool) {
	p.t.Helper()
	p.pod("bound", "no", "[]")
	p.kubectl("-n", "team", "label", "pod", "bound", "zone=a")
	version, _ := p.try("", "-n", "team", "get", "pod", "bound", "-o", "jsonpath={.metadata.resourceVersion}")
	bind := func(zone, version string) (string, error) {
		return p.try(`{"apiVersion":"v1","kind":"Binding","metadata":{"name":"bound","namespace":"team","labels":{"zone":"`+zone+`"},"resourceVersion":"`+version+`"},"target":{"kind":"Node","name":"n"}}`,
			"--as", "lab", "create", "--raw", "/api/v1/namespaces/team/pods/bound/binding", "-f", "-")
	}
	if out, err := bind("b", version); err == nil {
		p.t.Errorf("a Binding that changes a protected label: %s", out)
	}
	if out, err := bind("a", ""); err == nil || reads && !strings.Contains(out, "resourceVersion of the pod") {
		p.t.Errorf("a Binding to a pod of any state: %v %s", err, out)
	}
	if out, err := bind("a", version); (err == nil) != reads || !reads && !strings.Contains(out, "proviso sidecar init --read-objects") {
		p.t.Errorf("a Binding that changes nothing: %v %s", err, out)
	}
}

// ownReads: the certificate of the sidecar reads objects, and gets nowhere by them.
func (p *pair) ownReads(reads bool) {
	p.t.Helper()
	own := func(args ...string) (string, error) {
		return p.try("", append([]string{"--kubeconfig", filepath.Join(p.Side, "sidecar.kubeconfig")}, args...)...)
	}
	if out, err := own("-n", "team", "get", "pods"); (err == nil) != reads {
		p.t.Errorf("the sidecar lists pods: %v %s", err, out)
	}
	for _, path := range []string{"/api/v1/nodes/n/proxy/run", "/api/v1/namespaces/team/pods/kept/exec?command=ps&stdout=true", "/api/v1/namespaces/team/pods/kept/log"} {
		if out, err := own("get", "--raw", path); err == nil || !strings.Contains(out, "orbidden") {
			p.t.Errorf("the sidecar gets %s: %v %s", path, err, out)
		}
	}
}
