package replay

import (
	"context"
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/analysis/auditlog"
	"proviso.dev/proviso/internal/analysis/plan"
	"proviso.dev/proviso/internal/hosts/offline"
)

// Replay decides requests by two policies.
type Replay struct {
	before, after *offline.Host
	apart         *apart
	workers       []*worker
}

// Config says what is compared.
type Config struct {
	Before, After *offline.Host
	// Workers is how many goroutines call Request.
	Workers int
}

// New returns a replay that has seen nothing.
func New(cfg Config) (*Replay, error) {
	apart, err := compared(cfg.Before, cfg.After)
	if err != nil {
		return nil, err
	}
	r := &Replay{before: cfg.Before, after: cfg.After, apart: apart, workers: make([]*worker, cfg.Workers)}
	for i := range r.workers {
		r.workers[i] = &worker{Replay: r, served: map[schema.GroupResource]bool{}, answers: map[asked]answer{}, flips: map[flipKey]*Flip{}, undecided: map[Undecided]int64{}}
	}
	return r, nil
}

// Request decides one request; worker is the number of the goroutine. It fits auditlog.Config.
func (r *Replay) Request(ctx context.Context, worker int, request *auditlog.Request) {
	r.workers[worker].request(ctx, request)
}

// worker is what one goroutine has seen.
type worker struct {
	*Replay
	served                            map[schema.GroupResource]bool
	answers                           map[asked]answer
	flips                             map[flipKey]*Flip
	more                              int64
	requests, impersonated, otherwise int64
	undecided                         map[Undecided]int64
}

// Reasons for which a request is undecided.
var (
	needsObject = Undecided{Reason: "a condition needs the object", Level: "Request"}
	needsResult = Undecided{Reason: "a condition needs the object", Level: "RequestResponse"}
	needsStored = Undecided{Reason: "a condition needs the object as it was stored before, which no audit level records"}
	needsRead   = Undecided{Reason: "a condition on a read is decided on what is read, which no audit level records"}
	unknownKind = Undecided{Reason: "the policy to compare with does not know the resource; take it from a server, or from what proviso dump wrote"}
	unreadable  = Undecided{Reason: "the recorded object is not what the request is about, or in another version than conditions see"}
	perElement  = Undecided{Reason: "rights to single elements of an exclusive field decide"}
	byNode      = Undecided{Reason: "the Node authorizer decides about nodes, and is not part of the policy"}
)

func (w *worker) request(ctx context.Context, r *auditlog.Request) {
	w.requests++
	if r.By != nil {
		w.impersonated++
	}
	if r.IsResource() && !w.serves(schema.GroupResource{Group: r.Group, Resource: r.Resource}) {
		w.undecided[unknownKind]++
		return
	}
	attrs, found := w.decide(ctx, r)
	before, after := found.before, found.after
	if before == plan.If || after == plan.If || found.guards && before == plan.Yes && after == plan.Yes {
		var why *Undecided
		if before, after, why = w.withObject(ctx, r, attrs, found); why != nil {
			w.undecided[*why]++
			return
		}
	}
	isNode := slices.Contains(r.User.Groups, user.NodesGroup)
	if r.Decision != "" && !isNode && before != plan.If && (r.Decision == "allow") != (before == plan.Yes) {
		w.otherwise++
	}
	if (before == plan.Yes) == (after == plan.Yes) && (before == plan.If) == (after == plan.If) {
		return // refused for another reason is refused
	}
	if isNode && (before == plan.No || after == plan.No) {
		w.undecided[byNode]++
		return
	}
	w.flip(r, attrs, before, after)
}

// asked is what authorizers see of a request without selectors.
type asked struct {
	user                                                         *user.DefaultInfo
	verb, group, version, resource, subresource, namespace, name string
	path                                                         string
}

// answer is what both sides say to a request without its object, and whether guards may still decide it differently.
type answer struct {
	before, after plan.Effect
	guards        bool
}

// maxRemembered bounds how many answers a worker remembers.
const maxRemembered = 50_000

// decide asks both sides. Most of a log is the same few requests again and again, of which the answer is remembered.
func (w *worker) decide(ctx context.Context, r *auditlog.Request) (attrs authorizer.AttributesRecord, found answer) {
	attrs = r.Attributes()
	selects := attrs.FieldSelectorRequirements != nil || attrs.LabelSelectorRequirements != nil || attrs.FieldSelectorParsingErr != nil || attrs.LabelSelectorParsingErr != nil
	key := asked{user: r.User, verb: r.Verb, group: r.Group, version: r.Version, resource: r.Resource, subresource: r.Subresource, namespace: r.Namespace, name: r.Name}
	if !r.IsResource() {
		key.path = attrs.Path
	}
	if known, ok := w.answers[key]; ok && !selects {
		return attrs, known
	}
	found = answer{before: effect(w.before.Decide(ctx, &attrs)), after: effect(w.after.Decide(ctx, &attrs))}
	if mayAllow(found.before) && mayAllow(found.after) {
		found.guards = w.apart.guardsFor(ctx, attrs)
	}
	if !selects {
		if len(w.answers) >= maxRemembered {
			clear(w.answers)
		}
		w.answers[key] = found
	}
	return attrs, found
}

func (w *worker) serves(resource schema.GroupResource) bool {
	known, ok := w.served[resource]
	if !ok {
		known = w.before.Serves(resource) && w.after.Serves(resource)
		w.served[resource] = known
	}
	return known
}

func mayAllow(e plan.Effect) bool { return e == plan.Yes || e == plan.If }

func effect(a offline.Answer) plan.Effect {
	switch a {
	case offline.Allowed:
		return plan.Yes
	case offline.Depends:
		return plan.If
	case offline.Denied:
		return plan.Denied
	}
	return plan.No
}

// withObject decides what depends on the object. If both sides are the same whatever it is, they stay as they are.
func (w *worker) withObject(ctx context.Context, r *auditlog.Request, attrs authorizer.AttributesRecord, found answer) (before, after plan.Effect, why *Undecided) {
	before, after = found.before, found.after
	guarded := found.guards && (w.before.Guards(ctx, attrs) || w.after.Guards(ctx, attrs))
	// A right to single fields is conditional, too, and no rule about the request itself says whether it is the same.
	if before == after && !guarded && (before != plan.If || !found.guards && w.apart.alike(attrs)) {
		return before, after, nil
	}
	object, why := recordedObject(r)
	if why != nil {
		return before, after, why
	}
	for i, host := range []*offline.Host{w.before, w.after} {
		side := []*plan.Effect{&before, &after}[i]
		if *side != plan.If && !guarded {
			continue
		}
		status, err := host.Ask(ctx, r.User, r.Namespace, authz.SubjectAccessReviewSpec{Verb: r.Verb, ResourceKind: spelled(r), Content: &runtime.RawExtension{Raw: object}})
		if err != nil || status.EvaluationError != "" && !status.Allowed {
			return before, after, &unreadable
		}
		if *side = plan.No; status.Allowed {
			*side = plan.Yes
		}
	}
	if guarded && before == plan.No && after == plan.No && w.apart.byElement(attrs) {
		return before, after, &perElement
	}
	return before, after, nil
}

// recordedObject is the object that conditions see, if it was recorded: that of a create as it was stored or, if it was
// refused, as it was sent; that of a delete if it was sent back.
func recordedObject(r *auditlog.Request) ([]byte, *Undecided) {
	switch r.Verb {
	case "create":
		switch {
		case r.Answer != nil && !isStatus(r.Answer):
			return r.Answer, nil
		case r.Object != nil:
			return r.Object, nil
		}
		return nil, &needsObject
	case "delete":
		if r.Answer != nil && !isStatus(r.Answer) {
			return r.Answer, nil
		}
		if r.Level != "RequestResponse" {
			return nil, &needsResult
		}
		return nil, &needsStored
	case "get", "list", "watch":
		return nil, &needsRead
	}
	return nil, &needsStored
}

func isStatus(object []byte) bool {
	var kind struct {
		Kind string `json:"kind"`
	}
	return json.Unmarshal(object, &kind) != nil || kind.Kind == "Status" || kind.Kind == ""
}

// spelled is the resource as reviews name it.
func spelled(r *auditlog.Request) string {
	name := r.Resource
	if r.Group != "" {
		name += "." + r.Group
	}
	if r.Subresource != "" {
		name += "/" + r.Subresource
	}
	return name
}
