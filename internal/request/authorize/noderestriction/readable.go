package noderestriction

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/expr"
)

// readable is what the restriction says about one request, for people. The plugin decides; this text only describes it,
// and a test compares the two.
type readable struct {
	// refusedIf is CEL: the plugin refuses every request that meets it. It is empty where CEL cannot express any of it.
	refusedIf string
	// and is what else the plugin refuses. It is empty where CEL expresses everything.
	and string
}

// condition returns the type and the text of the condition that represents it.
func (r readable) condition(node string) (kind, condition string, err error) {
	if r.and == "" {
		return expr.TypeCEL, r.refusedIf, nil
	}
	text, err := json.Marshal(map[string]string{"condition": "refused-by-node-restriction", "nodeName": node, "refusedIf": r.refusedIf, "alsoRefused": r.and})
	return nodeConditionType, string(text), err
}

// description returns it in one line.
func (r readable) description(node string) string {
	text := fmt.Sprintf("NodeRestriction refuses the object: node %q may write only itself and what belongs to it", node)
	if r.and != "" {
		text += "; refused is also " + r.and
	}
	return text
}

const never, always = "false", "true"

// textOf returns what the restriction of a node says about a request. Requests that are not listed are always refused.
func textOf(node string, attrs authorizer.Attributes) readable {
	if node == "" {
		return readable{refusedIf: always} // a node that cannot be identified may do nothing
	}
	t := texts{node: strconv.Quote(node)}
	verb, subresource := attrs.GetVerb(), attrs.GetSubresource()
	switch attrs.GetResource() {
	case "nodes":
		return t.itself(verb)
	case "leases":
		if attrs.GetNamespace() != corev1.NamespaceNodeLease {
			return readable{refusedIf: always}
		}
		return readable{refusedIf: t.named(verb, never)}
	case "csinodes":
		return t.csiNode(verb, subresource)
	case "resourceslices":
		return readable{refusedIf: t.byOperation(verb, t.not("object.spec.?nodeName"), never, t.not("oldObject.spec.?nodeName"))}
	case "pods":
		return t.pod(verb, subresource)
	case "serviceaccounts":
		return t.token(verb)
	case "persistentvolumeclaims":
		if subresource == "status" {
			return readable{and: "every change but to status.capacity, status.conditions and what is allocated"}
		}
	case "certificatesigningrequests":
		if creates(verb) {
			return readable{and: fmt.Sprintf("a request to the signers of kubelets whose common name is not system:node:%s", node)}
		}
		return readable{refusedIf: never}
	case "podcertificaterequests":
		if creates(verb) && subresource == "" {
			return readable{refusedIf: t.byOperation(verb, t.not("object.spec.?nodeName"), always, always),
				and: "a request that does not name this node, and a pod and service account that run on it, by their UIDs, or a signer that the pod does not use"}
		}
	}
	return readable{refusedIf: always}
}

// texts are the parts of the texts about one node, which is quoted.
type texts struct{ node string }

// not is the condition that a field is not the node.
func (t texts) not(field string) string { return fmt.Sprintf(`%s.orValue("") != %s`, field, t.node) }

// creates reports whether a verb can create an object. Updates and patches do if there is none.
func creates(verb string) bool { return verb == "create" || verb == "update" || verb == "patch" }

// byOperation picks the text of the operations that a verb leads to. Updates and patches may create.
func (t texts) byOperation(verb, create, update, remove string) string {
	switch verb {
	case "create":
		return create
	case "delete", "deletecollection":
		return remove
	}
	if create == update {
		return update
	}
	return fmt.Sprintf(`operation == "CREATE" ? %s : %s`, create, update)
}

// named is the condition that the object does not have the name of the node or, in updates, a further one.
func (t texts) named(verb, update string) string {
	changed := t.not("oldObject.metadata.?name")
	if update != never {
		changed = fmt.Sprintf("(%s || %s)", changed, update)
	}
	return t.byOperation(verb, t.not("object.metadata.?name"), changed, t.not("oldObject.metadata.?name"))
}

func (t texts) csiNode(verb, subresource string) readable {
	switch {
	case subresource == "":
		return readable{refusedIf: t.named(verb, never)}
	case subresource == "status" && (verb == "update" || verb == "patch"):
		return readable{refusedIf: t.not("oldObject.metadata.?name"), and: "a change of the spec, and every request without the feature gate CSIVolumeHealth"}
	}
	return readable{refusedIf: always}
}

// kubeletLabels are the labels of Kubernetes that a kubelet may set on its node, and kubeletNamespaces the label
// namespaces that hold such labels.
var (
	kubeletLabels = []string{
		corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
		corev1.LabelInstanceType, corev1.LabelInstanceTypeStable, corev1.LabelOSStable, corev1.LabelArchStable, "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
	}
	kubeletNamespaces = []string{corev1.LabelNamespaceSuffixKubelet, corev1.LabelNamespaceSuffixNode}
)

// within matches labels in one of the namespaces, or below it.
func within(namespaces ...string) string {
	quoted := make([]string, len(namespaces))
	for i, n := range namespaces {
		quoted[i] = regexp.QuoteMeta(n)
	}
	return strconv.Quote(`^([^/]*\.)?(` + strings.Join(quoted, "|") + `)/`)
}

// forbiddenLabel is the condition that a kubelet may not set the label k.
func forbiddenLabel() string {
	allowed := make([]string, len(kubeletLabels))
	for i, l := range kubeletLabels {
		allowed[i] = strconv.Quote(l)
	}
	slices.Sort(allowed)
	return fmt.Sprintf("(k.matches(%s) || k.matches(%s) && !k.matches(%s) && !(k in [%s]))", within(corev1.LabelNamespaceNodeRestriction),
		within("kubernetes.io", "k8s.io"), within(kubeletNamespaces...), strings.Join(allowed, ", "))
}

func (t texts) itself(verb string) readable {
	create := fmt.Sprintf("(%s || has(object.spec.configSource) || object.metadata.?labels.orValue({}).exists(k, %s))", t.not("object.metadata.?name"), forbiddenLabel())
	changed := func(path string) string { return fmt.Sprintf("object.%[1]s != oldObject.%[1]s", path) }
	update := fmt.Sprintf("(%s || has(object.spec.configSource) && %s || %s || %s || [object, oldObject].exists(o, o.metadata.?labels.orValue({}).exists(k, %s && %s)))",
		t.not("oldObject.metadata.?name"), changed("spec.?configSource"), changed("spec.?taints.orValue([])"), changed("metadata.?ownerReferences.orValue([])"),
		changed("metadata.?labels[?k]"), forbiddenLabel())
	return readable{refusedIf: t.byOperation(verb, create, update, t.not("oldObject.metadata.?name"))}
}

func (t texts) pod(verb, subresource string) readable {
	const unknown = "a pod that the server does not know yet"
	switch {
	case subresource == "" && creates(verb):
		owner := fmt.Sprintf(`!object.metadata.?ownerReferences.orValue([]).exists_one(o, true) || object.metadata.ownerReferences.exists(o, `+
			`o.apiVersion != "v1" || o.kind != "Node" || o.name != %s || !o.?controller.orValue(false) || o.?blockOwnerDeletion.orValue(false))`, t.node)
		mirror := fmt.Sprintf("(!(%s in object.metadata.?annotations.orValue({})) || %s || %s)", strconv.Quote(corev1.MirrorPodAnnotationKey), t.not("object.spec.?nodeName"), owner)
		return readable{refusedIf: t.byOperation(verb, mirror, always, always),
			and: "a pod whose owner has not the UID of the node, and one that refers to secrets, config maps, service accounts, claims or other objects"}
	case subresource == "" && (verb == "delete" || verb == "deletecollection"):
		return readable{refusedIf: t.not("oldObject.spec.?nodeName"), and: unknown}
	case subresource == "status" && (verb == "update" || verb == "patch"):
		return readable{refusedIf: fmt.Sprintf("%s || object.metadata.?labels.orValue({}) != oldObject.metadata.?labels.orValue({})", t.not("oldObject.spec.?nodeName")),
			and: "a change of the resource claims in the status"}
	case subresource == "eviction" && verb == "create":
		return readable{and: "the eviction of a pod of another node, and of " + unknown}
	}
	return readable{refusedIf: always}
}

func (t texts) token(verb string) readable {
	if verb != "create" {
		return readable{refusedIf: never}
	}
	return readable{refusedIf: `object.spec.?boundObjectRef.?apiVersion.orValue("") != "v1" || object.spec.?boundObjectRef.?kind.orValue("") != "Pod" || ` +
		`object.spec.?boundObjectRef.?name.orValue("") == "" || object.spec.?boundObjectRef.?uid.orValue("") == ""`,
		and: "a token for a pod that does not run on the node, or for an audience that neither the pod nor the right request-serviceaccounts-token-audience names"}
}
