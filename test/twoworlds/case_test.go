package twoworlds

import (
	"encoding/json"
	"net/http"
	"slices"
)

// Case is one question to the law: a cluster, one change that the caller cannot see, and requests.
type Case struct {
	// Found is what differed when the case was kept.
	Found string `json:"found,omitempty"`
	// Open names the requirement that is not met yet, with the cause. The replay then expects the difference.
	Open string `json:"open,omitempty"`
	// Caller holds the names of the templates that grant and deny.
	Caller []string `json:"caller"`
	// Granted are those of them that the caller has by an access request that was approved, instead of a binding.
	Granted []string `json:"granted,omitempty"`
	// Links are templates, too: the caller comes with a narrowed token that has these links.
	Links   []string `json:"links,omitempty"`
	Objects []Object `json:"objects,omitempty"`
	Change  Change   `json:"change"`
	// Quota limits how many config maps and secrets the home namespace holds; 0 is no quota.
	Quota int    `json:"quota,omitempty"`
	Steps []Step `json:"steps"`
}

// Ref identifies an object.
type Ref struct {
	Kind string `json:"kind"`
	NS   string `json:"ns,omitempty"`
	Name string `json:"name"`
}

// Object is what an admin creates before the caller comes.
type Object struct {
	Ref
	Team string `json:"team"`
	// Level is the field of a widget that its older version does not have.
	Level string `json:"level,omitempty"`
	Tier  string `json:"tier,omitempty"`
	Value string `json:"value"`
	// Hid is the content of a field that is hidden from every caller (HF-1).
	Hid string `json:"hid,omitempty"`
	// Was is its content in an older revision, WasTeam the team that it belonged to then, if that was another.
	Was     string `json:"was,omitempty"`
	WasTeam string `json:"wasTeam,omitempty"`
	// Gone: it was deleted before the caller came.
	Gone bool `json:"gone,omitempty"`
	// Ending: it has a finalizer and was deleted.
	Ending bool `json:"ending,omitempty"`
	// Owner is the name of an object of the same kind and namespace.
	Owner string `json:"owner,omitempty"`
}

// The changes that the second world has.
const (
	changeValue  = "value"  // another content
	changeTier   = "tier"   // another label
	changeAbsent = "absent" // the object does not exist
	changeWas    = "was"    // another content in an older revision
	changeEnding = "ending" // it is not being deleted
	changePolicy = "policy" // another user has another policy
	changeRules  = "rules"  // another user has the same rights under other conditions, by other roles
	changeHid    = "hid"    // another content of a hidden field, of an object that the caller may see or not

	changeRequest       = "request"        // another user has asked for access
	changeRequestState  = "request-state"  // what another user has asked for is approved
	changeRequestReason = "request-reason" // another user has given another reason
)

// Change is the difference between the worlds.
type Change struct {
	Ref
	What string `json:"what"`
}

// Step is one request. $rv:N stands for the resourceVersion of state N of the cluster, $last for that of the last
// answer, $uid:KIND/NS/NAME for a UID, $more for the last continue token: each world has its own.
type Step struct {
	Method string `json:"method"`
	Path   string `json:"path"`
	Query  string `json:"query,omitempty"`
	Type   string `json:"type,omitempty"`
	Accept string `json:"accept,omitempty"`
	Body   string `json:"body,omitempty"`
	// Watch: the answer is a stream, read until a write that the caller may see arrives. Meanwhile: what the caller may
	// not see changes once more in the second world, before the request or while it watches.
	Watch     bool `json:"watch,omitempty"`
	Meanwhile bool `json:"meanwhile,omitempty"`
	// Socket: the stream is a web socket.
	Socket bool `json:"socket,omitempty"`
}

// reads reports whether the step changes nothing.
func (s Step) reads() bool { return s.Method == http.MethodGet || s.Method == http.MethodHead }

func (s Step) String() string {
	out := s.Method + " " + s.Path
	if s.Query != "" {
		out += "?" + s.Query
	}
	for _, more := range []string{s.Accept, s.Type, s.Body} {
		if more != "" {
			out += " " + more
		}
	}
	return out
}

func (c *Case) clone() *Case {
	raw, err := json.Marshal(c)
	out := &Case{}
	if err == nil {
		err = json.Unmarshal(raw, out)
	}
	if err != nil {
		panic(err) // a case is plain data
	}
	return out
}

// object finds an object of the case.
func (c *Case) object(r Ref) *Object {
	if i := slices.IndexFunc(c.Objects, func(o Object) bool { return o.Ref == r }); i >= 0 {
		return &c.Objects[i]
	}
	return nil
}

// in lists the objects of a world: the second one has the change.
func (c *Case) in(second bool) []Object {
	out := slices.Clone(c.Objects)
	if !second {
		return out
	}
	for i := range out {
		if out[i].Ref != c.Change.Ref {
			continue
		}
		switch c.Change.What {
		case changeValue:
			out[i].Value = "another-" + out[i].Value
		case changeTier:
			out[i].Tier = "other"
		case changeWas:
			out[i].Was = "another-" + out[i].Was
		case changeEnding:
			out[i].Ending = false
		case changeHid:
			out[i].Hid = "another-" + out[i].Hid
		case changeAbsent:
			return slices.Delete(out, i, i+1)
		}
	}
	return out
}

// hidden reports whether the change concerns only what no template of the caller reaches.
func (c *Case) hidden() bool {
	o := c.object(c.Change.Ref)
	switch {
	case c.Change.What == changePolicy, c.Change.What == changeRules, aboutRequests(c.Change.What):
		return true
	case c.Change.What == changeHid:
		return o != nil && !o.Gone && o.Hid != ""
	}
	if o == nil || o.Gone && c.Change.What != changeWas || o.Was == "" && c.Change.What == changeWas {
		return false
	}
	state := *o
	if c.Change.What == changeWas && o.WasTeam != "" {
		state.Team = o.WasTeam
	}
	return !c.reaches(state)
}

// reaches reports whether the caller has any right to an object that every link of their token leaves them.
func (c *Case) reaches(o Object) bool {
	return slices.ContainsFunc(c.Caller, func(name string) bool { return templates[name].reaches(o) }) &&
		!slices.ContainsFunc(c.Links, func(name string) bool { return !linkTemplates[name].reaches(o) })
}
