package authorize

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/engine/ruleset/matching"
	"proviso.dev/proviso/internal/engine/selectors"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/snapshot"
)

// each asks the rules that allow a list under conditions about every object in it, where selectors cannot express what
// the rules allow together (RD-10). As everywhere, one condition that holds is enough, and a condition that fails
// allows nothing.
type each struct {
	rules []*ruleCondition
	// names are the objects that rules allow by name alone, sorted.
	names []string
	view  requestctx.View
	place bool
}

var _ requestctx.Each = (*each)(nil)

// eachOf builds the question from the rules.
func eachOf(rules []*ruleCondition, req *expr.Request, served *snapshot.Served) *each {
	e := &each{}
	looks := expr.Looks{}
	texts := make([]string, 0, len(rules))
	for _, c := range rules {
		one := expr.LooksOf(c.rule)
		looks.Request, e.place = looks.Request || one.Request, e.place || one.Namespace
		texts = append(texts, identity(c, req, served))
		if c.hit.Condition() == nil && c.hit.Names() != nil {
			e.names = append(e.names, c.hit.Names()...)
			continue
		}
		e.rules = append(e.rules, c)
	}
	slices.Sort(e.names)
	e.names = slices.Compact(e.names)
	slices.Sort(texts)
	texts = slices.Compact(texts)
	h := newHash(req.APIGroup, req.APIVersion, req.Resource)
	h.add(texts...)
	if looks.Request {
		h.request(req)
	}
	e.view = requestctx.View(h.Sum(nil))
	return e
}

// Shows implements requestctx.Each.
func (e *each) Shows(ctx context.Context, data authorizer.ConditionsData) (bool, error) {
	if len(e.names) > 0 {
		if m, err := meta.Accessor(data.GetObject()); err == nil && matching.Contains(e.names, m.GetName()) {
			return true, nil
		}
	}
	var errs []error
	for _, c := range e.rules {
		switch result := c.Evaluate(ctx, data); {
		case result.IsTrue():
			return true, nil
		case result.IsFalse():
		case result.Error() != nil:
			errs = append(errs, result.Error())
		default:
			errs = append(errs, errNotEvaluable)
		}
	}
	return false, errors.Join(errs...)
}

// At implements requestctx.Each.
func (e *each) At(_, name string) (shown, known bool) {
	shown = matching.Contains(e.names, name)
	return shown, shown || len(e.rules) == 0
}

// View implements requestctx.Each.
func (e *each) View() requestctx.View { return e.view }

// LooksAtNamespace implements requestctx.Each.
func (e *each) LooksAtNamespace() bool { return e.place }

// identity is everything that determines the condition of a rule, and the version of the object that it sees.
func identity(c *ruleCondition, req *expr.Request, served *snapshot.Served) string {
	var content []byte
	if rule := c.hit.PolicyRule(); rule != nil {
		plain := *rule
		plain.Description = ""
		var err error
		if content, err = json.Marshal(&plain); err != nil {
			content = []byte(c.GetID()) // which is made of the rule, too
		}
	}
	h := newHash(string(content), sight(c, req, served))
	h.add(c.hit.Names()...)
	if expr.LooksOf(c.rule).Time {
		h.add(c.rule.Text(req, expr.Allow)) // what is left of it at this instant
	}
	return string(h.Sum(nil))
}

// sight is the version of the object that a condition sees, and whether the version of the request hides some of it.
func sight(c *ruleCondition, req *expr.Request, served *snapshot.Served) string {
	resource := schema.GroupResource{Group: req.APIGroup, Resource: req.Resource}
	named := ""
	if rule := c.hit.PolicyRule(); rule != nil {
		named = rule.APIVersion
	}
	seen, err := served.Seen(schema.GroupVersionKind{Group: req.APIGroup, Kind: served.OwnKind(resource)}, named)
	if err != nil {
		return "unknown"
	}
	text := seen.String()
	if served.Hides(resource, req.APIVersion, seen.Version, named) {
		text += " hidden"
	}
	if served.Converted(resource) {
		text += " converted"
	}
	return text
}

// hash is different for different lists of texts, whatever they contain.
type hash struct {
	w interface {
		io.Writer
		Sum([]byte) []byte
	}
}

func newHash(texts ...string) hash {
	h := hash{sha256.New()}
	h.add(texts...)
	return h
}

func (h hash) Sum(b []byte) []byte { return h.w.Sum(b) }

func (h hash) add(texts ...string) {
	h.number(len(texts))
	for _, t := range texts {
		h.number(len(t))
		_, _ = io.WriteString(h.w, t)
	}
}

func (h hash) number(n int) {
	var length [8]byte
	binary.LittleEndian.PutUint64(length[:], uint64(n))
	_, _ = h.w.Write(length[:])
}

// request adds all that conditions see of a request.
func (h hash) request(r *expr.Request) {
	h.add(r.User, r.UID, r.Verb, r.Subresource, r.Namespace, r.Name, selectors.FieldText(r.FieldSelector), selectors.LabelText(r.LabelSelector))
	h.add(r.Groups...)
	h.number(len(r.Extra))
	for _, key := range slices.Sorted(maps.Keys(r.Extra)) {
		h.add(key)
		h.add(r.Extra[key]...)
	}
}
