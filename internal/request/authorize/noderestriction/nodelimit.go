package noderestriction

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"
	"k8s.io/kubernetes/plugin/pkg/admission/noderestriction"

	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/engine/expr"
)

// Restriction runs ahead of Policy. For every node identity it returns a set with one Deny condition: what the
// NodeRestriction admission plugin refuses (CA-18). It asks upstream's own plugin. So a node may do exactly what it may
// do with the plugin enabled, whether or not it is, and whatever a policy grants to nodes. It never allows.
type Restriction struct {
	plugin *noderestriction.Plugin
	nodes  nodeidentifier.NodeIdentifier
}

// Resources are the ones that the plugin looks at; it lets everything else pass. Requests for them that never reach it
// are not restricted: see ReachesPlugin.
var Resources = []schema.GroupResource{
	{Resource: "pods"}, {Resource: "nodes"}, {Resource: "persistentvolumeclaims"}, {Resource: "serviceaccounts"},
	{Group: "coordination.k8s.io", Resource: "leases"}, {Group: "storage.k8s.io", Resource: "csinodes"},
	{Group: "resource.k8s.io", Resource: "resourceslices"},
	{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}, {Group: "certificates.k8s.io", Resource: "podcertificaterequests"},
}

const (
	nodeConditionID   = expr.IDDomain + "/node-restriction"
	nodeConditionType = "k8s.io/node-authorizer"
)

// New wires the plugin as the admission initializers would. It asks the chain about audiences and signers.
func New(informers informers.SharedInformerFactory, chain authorizer.UnconditionalAuthorizer) (*Restriction, error) {
	identifier := nodeidentifier.NewDefaultNodeIdentifier()
	plugin := noderestriction.NewPlugin(identifier)
	plugin.InspectFeatureGates(utilfeature.DefaultFeatureGate)
	plugin.SetExternalKubeInformerFactory(informers)
	plugin.SetUnconditionalAuthorizer(chain)
	return &Restriction{plugin: plugin, nodes: identifier}, plugin.ValidateInitialization()
}

// restricts returns the node whose write the plugin would look at; false for all other users and requests.
func (n *Restriction) restricts(attrs authorizer.Attributes) (node string, restricted bool) {
	if attrs.GetUser() == nil || !attrs.IsResourceRequest() || !ReachesPlugin(attrs) {
		return "", false
	}
	return n.nodes.NodeIdentity(attrs.GetUser())
}

// ReachesPlugin reports whether admission shows the request to the plugin. It does not show connections: the plugin
// handles create, update and delete. Nor does it show names that exist only in access reviews:
// certificatesigningrequests/selfnodeclient, by which controllers ask whether a node may have its certificate approved,
// and the parts of the kubelet's API below nodes.
func ReachesPlugin(attrs authorizer.Attributes) bool {
	resource := schema.GroupResource{Group: attrs.GetAPIGroup(), Resource: attrs.GetResource()}
	if !slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, attrs.GetVerb()) || !slices.Contains(Resources, resource) {
		return false
	}
	switch subresource := attrs.GetSubresource(); resource.Resource {
	case "pods":
		return subresource != "log" && !connect.Connects(subresource)
	case "nodes":
		return subresource == "" || subresource == "status"
	case "serviceaccounts":
		return subresource == "token"
	case "certificatesigningrequests":
		return subresource == ""
	}
	return true
}

// Authorize has no opinion. A caller that cannot carry a condition to admission gets the answer of stock Kubernetes, of
// which the plugin is not a part (CA-18). The request itself is decided with conditions.
func (n *Restriction) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "", nil
}

// ConditionsAwareAuthorize answers with one Deny condition. Its text is CEL where CEL can express all of it (CA-25);
// the plugin decides, whatever the text is.
func (n *Restriction) ConditionsAwareAuthorize(_ context.Context, attrs authorizer.Attributes) authorizer.ConditionsAwareDecision {
	node, restricted := n.restricts(attrs)
	if !restricted {
		return authorizer.ConditionsAwareDecisionNoOpinion("", nil)
	}
	says := textOf(node, attrs)
	kind, text, err := says.condition(node)
	if err != nil { // cannot happen for strings
		return authorizer.ConditionsAwareDecisionDeny("", err)
	}
	return authorizer.ConditionsAwareDecisionConditionsMap([]authorizer.Condition{authorizer.GenericCondition{
		ID: nodeConditionID, Type: kind, Condition: text, Description: says.description(node),
		EvaluateFunc: func(ctx context.Context, data authorizer.ConditionsData) authorizer.ConditionEvaluationResult {
			request, ok := data.(admission.Attributes)
			if !ok {
				return authorizer.ConditionEvaluationResultError(errors.New("node restriction needs an admission request"))
			}
			return authorizer.ConditionEvaluationResultBoolean(n.refusal(ctx, request) != nil)
		},
	}}, nil, nil)
}

// refusal returns the plugin's error for a request that it handles.
func (n *Restriction) refusal(ctx context.Context, request admission.Attributes) error {
	if !n.plugin.Handles(request.GetOperation()) {
		return nil
	}
	return n.plugin.Admit(ctx, request, nil)
}

// EvaluateConditions resolves the set. The plugin's own words are the reason.
func (n *Restriction) EvaluateConditions(ctx context.Context, d authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	decision, reason, err := d.ConditionsMap().Evaluate(ctx, data, func(context.Context, authorizer.Condition, authorizer.ConditionsData) (bool, error) {
		return false, errors.New("the condition cannot be evaluated here")
	})
	if request, ok := data.(admission.Attributes); ok && decision == authorizer.DecisionDeny && err == nil {
		if refusal := n.refusal(ctx, request); refusal != nil {
			reason = "node restriction: " + refusal.Error()
		}
	}
	if decision == authorizer.DecisionNoOpinion {
		reason = ""
	}
	return decision, reason, err
}
