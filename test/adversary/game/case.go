package game

import (
	"encoding/json"
	"slices"
	"strings"
)

// Run is the character that stands for the run in every name of a case, so that a case can be run many times on one
// server.
const Run = "~"

// Case is one game.
type Case struct {
	// Theme says which part of the grammar it was drawn from.
	Theme string `json:"theme"`
	// Found says what it showed when it was kept.
	Found     string      `json:"found,omitempty"`
	Actors    []Actor     `json:"actors"`
	Grants    []Grant     `json:"grants,omitempty"`
	Fields    []Field     `json:"fields,omitempty"`
	Protected []Protected `json:"protected,omitempty"`
	Prey      []Prey      `json:"prey,omitempty"`
	Access    []Access    `json:"access,omitempty"`
	Steps     []Step      `json:"steps"`
}

// Actor is a user who logs in.
type Actor struct {
	Name   string   `json:"name"`
	Groups []string `json:"groups,omitempty"`
	// Links are those of the narrowed token that they come with; none means that they come without.
	Links [][]Rule `json:"links,omitempty"`
}

// The ways in which an admin grants, or denies.
const (
	ByClusterRole = "rbac-cluster"   // a ClusterRole by a ClusterRoleBinding
	ByLocalRole   = "rbac-namespace" // a Role by a RoleBinding
	ByMaster      = "master"         // a role of the master namespace, bound there
	ByNamespace   = "namespace"      // a role of the namespace, bound there
)

// Grant is a role and its binding, made by an admin before the game.
type Grant struct {
	// Name is that of the role and of the binding.
	Name string `json:"name"`
	How  string `json:"how"`
	NS   string `json:"ns,omitempty"`
	// Role is a default role (view, edit, admin) instead of rules, bound in a namespace by Policy.
	Role  string   `json:"role,omitempty"`
	Rules []Rule   `json:"rules,omitempty"`
	To    []string `json:"to"` // user:x, group:x, sa:namespace/name
	// Kept: a finalizer keeps the binding when its namespace is deleted (RBAC only).
	Kept bool `json:"kept,omitempty"`
}

// Rule is one rule, of RBAC or Policy. Kinds are spelled as in resourceKinds; for RBAC they are plurals with their
// group.
type Rule struct {
	Deny  bool     `json:"deny,omitempty"`
	Verbs []string `json:"verbs"`
	Kinds []string `json:"kinds"`
	Names []string `json:"names,omitempty"`
	// If is a condition: has:KEY (labelsContain), where:KEY (where the label is there), named:NAME (when request.name
	// is that), only:PATH (fieldsMutable).
	If string `json:"if,omitempty"`
}

// Field is an exclusive field permission.
type Field struct {
	Name       string   `json:"name"`
	Resources  []string `json:"resources"`
	Path       string   `json:"path"` // .metadata.labels[KEY], or a path of plain names
	Permission string   `json:"permission"`
}

// Protected is a label or an annotation that only members of an empty cluster role may write.
type Protected struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"` // Label or Annotation
	Attribute string `json:"attribute"`
	// Values are the protected ones; none means all.
	Values []string `json:"values,omitempty"`
}

// Prey is an object that an admin made before the game.
type Prey struct {
	Resource string            `json:"resource"`
	NS       string            `json:"ns,omitempty"`
	Name     string            `json:"name"`
	Labels   map[string]string `json:"labels,omitempty"`
	// Owner is the name of another prey of the namespace.
	Owner string `json:"owner,omitempty"`
	// Kept: a finalizer keeps it when it is deleted.
	Kept bool `json:"kept,omitempty"`
	// Shared: two appliers keep up one label each.
	Shared bool `json:"shared,omitempty"`
}

// Ref names an object.
func (p Prey) Ref() Ref { return Ref{p.Resource, p.NS, p.Name} }

// Ref is an object's place.
type Ref struct{ Resource, NS, Name string }

func (r Ref) String() string { return r.Resource + "/" + r.NS + "/" + r.Name }

// Step is one request of an actor.
type Step struct {
	Actor string `json:"actor"`
	// As is whom the actor acts as: token:NS/NAME with a token of a step before, user:NAME by impersonation.
	As string `json:"as,omitempty"`
	// Verb is that of the API; connect opens a connection, apply is a server-side apply.
	Verb     string `json:"verb"`
	Resource string `json:"resource"` // plural.group/subresource
	NS       string `json:"ns,omitempty"`
	Name     string `json:"name,omitempty"`
	Edits    []Edit `json:"edits,omitempty"`
	// Query is added to the URL.
	Query string `json:"query,omitempty"`
	// With: it is made at the same time as the next one.
	With bool `json:"with,omitempty"`
}

// Edit sets a field: a path of names, separated by blanks. The value null removes it. Strings "$uid:RESOURCE/NS/NAME"
// stand for a UID, "$managed:NAME" for managed fields in which the manager NAME has everybody's.
type Edit struct {
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// In gives every name its run.
func (c *Case) In(run string) *Case {
	raw, _ := json.Marshal(c)
	out := &Case{}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(raw), Run, run)), out); err != nil {
		panic(err) // a case is plain data
	}
	return out
}

// Clone copies a case.
func (c *Case) Clone() *Case { return c.In(Run) }

// Namespaces are those that the case mentions.
func (c *Case) Namespaces() []string {
	var out []string
	add := func(ns string) {
		if ns != "" && !slices.Contains(out, ns) {
			out = append(out, ns)
		}
	}
	for _, g := range c.Grants {
		add(g.NS)
		for _, to := range g.To {
			if at, ok := strings.CutPrefix(to, "sa:"); ok {
				ns, _, _ := strings.Cut(at, "/")
				add(ns)
			}
		}
	}
	for _, p := range c.Prey {
		add(p.NS)
	}
	for _, a := range c.Access {
		add(a.NS)
	}
	for _, s := range c.Steps {
		if strings.HasPrefix(s.NS, "n") {
			add(s.NS)
		}
	}
	return out
}
