package server

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

	"proviso.dev/proviso/internal/expr"
)

// nodeRestriction stands ahead of Policy: for every node identity a set with one Deny condition, which is what the
// NodeRestriction admission plugin refuses (CA-18). It asks upstream's own plugin, so that a node may do exactly what it may do
// with the plugin on, whether or not that is on, and whatever a policy grants to nodes. It never allows.
type nodeRestriction struct {
	plugin *noderestriction.Plugin
	nodes  nodeidentifier.NodeIdentifier
}

// restrictedResources are what the plugin looks at; it lets everything else pass.
var restrictedResources = []schema.GroupResource{
	{Resource: "pods"}, {Resource: "nodes"}, {Resource: "persistentvolumeclaims"}, {Resource: "serviceaccounts"},
	{Group: "coordination.k8s.io", Resource: "leases"}, {Group: "storage.k8s.io", Resource: "csinodes"},
	{Group: "resource.k8s.io", Resource: "resourceslices"},
	{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}, {Group: "certificates.k8s.io", Resource: "podcertificaterequests"},
}

const (
	nodeConditionID   = expr.IDDomain + "/node-restriction"
	nodeConditionType = "k8s.io/node-authorizer"
	nodeConditionText = "NodeRestriction refuses the object: a node may write only itself and what belongs to it"
)

// newNodeRestriction wires the plugin as the admission initializers would.
func newNodeRestriction(informers informers.SharedInformerFactory) *nodeRestriction {
	identifier := nodeidentifier.NewDefaultNodeIdentifier()
	plugin := noderestriction.NewPlugin(identifier)
	plugin.InspectFeatureGates(utilfeature.DefaultFeatureGate)
	plugin.SetExternalKubeInformerFactory(informers)
	return &nodeRestriction{plugin: plugin, nodes: identifier}
}

// initialize gives the plugin the chain it asks about audiences and signers. It is called before the server serves.
func (n *nodeRestriction) initialize(chain authorizer.UnconditionalAuthorizer) error {
	n.plugin.SetUnconditionalAuthorizer(chain)
	return n.plugin.ValidateInitialization()
}

func (n *nodeRestriction) applies(attrs authorizer.Attributes) bool {
	if attrs.GetUser() == nil || !attrs.IsResourceRequest() {
		return false
	}
	if !slices.Contains([]string{"create", "update", "patch", "delete", "deletecollection"}, attrs.GetVerb()) ||
		!slices.Contains(restrictedResources, schema.GroupResource{Group: attrs.GetAPIGroup(), Resource: attrs.GetResource()}) {
		return false
	}
	_, isNode := n.nodes.NodeIdentity(attrs.GetUser())
	return isNode
}

// Authorize folds the condition, as for every caller that cannot carry one.
func (n *nodeRestriction) Authorize(_ context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	if !n.applies(attrs) {
		return authorizer.DecisionNoOpinion, "", nil
	}
	return authorizer.DecisionDeny, "conditional: the object decides what a node may write, and it is not known here", nil
}

// ConditionsAwareAuthorize answers with a Deny condition and nothing else.
func (n *nodeRestriction) ConditionsAwareAuthorize(_ context.Context, attrs authorizer.Attributes) authorizer.ConditionsAwareDecision {
	if !n.applies(attrs) {
		return authorizer.ConditionsAwareDecisionNoOpinion("", nil)
	}
	return authorizer.ConditionsAwareDecisionConditionsMap([]authorizer.Condition{authorizer.GenericCondition{
		ID: nodeConditionID, Type: nodeConditionType, Condition: nodeConditionText, Description: nodeConditionText,
		EvaluateFunc: func(ctx context.Context, data authorizer.ConditionsData) authorizer.ConditionEvaluationResult {
			request, ok := data.(admission.Attributes)
			if !ok {
				return authorizer.ConditionEvaluationResultError(errors.New("node restriction needs an admission request"))
			}
			return authorizer.ConditionEvaluationResultBoolean(n.plugin.Admit(ctx, request, nil) != nil)
		},
	}}, nil, nil)
}

// EvaluateConditions resolves the set. The plugin's own words are the reason.
func (n *nodeRestriction) EvaluateConditions(ctx context.Context, d authorizer.ConditionsAwareDecision, data authorizer.ConditionsData) (authorizer.Decision, string, error) {
	decision, reason, err := d.ConditionsMap().Evaluate(ctx, data, func(context.Context, authorizer.Condition, authorizer.ConditionsData) (bool, error) {
		return false, errors.New("the condition cannot be evaluated here")
	})
	if request, ok := data.(admission.Attributes); ok && decision == authorizer.DecisionDeny && err == nil {
		if refusal := n.plugin.Admit(ctx, request, nil); refusal != nil {
			reason = "node restriction: " + refusal.Error()
		}
	}
	if decision == authorizer.DecisionNoOpinion {
		reason = ""
	}
	return decision, reason, err
}
