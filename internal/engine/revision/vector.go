package revision

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Entry is how recent one source is.
type Entry struct {
	// Source is the resource, as in "policies.policy.proviso.dev".
	Source string
	// At is the revision of the last event, bookmark or list seen from it. Everything up to it is known, including
	// deletions.
	At uint64
	// State identifies the content of the source, see Mark. 0 if it is not known: a write knows only its own revision.
	State uint64
}

// Vector has one entry per source, in the order of their names.
type Vector []Entry

// sources are the names that tokens abbreviate to their index in this list. Tokens outlive a release: only ever append
// names.
var sources = []string{
	"namespaces",
	"roles.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io",
	"rolebindings.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io",
	"policies.policy.proviso.dev", "policybindings.policy.proviso.dev", "fieldpermissions.policy.proviso.dev",
	"protectedattributes.policy.proviso.dev", "clusterprotectedattributes.policy.proviso.dev",
	"auditsinks.auditregistration.k8s.io", "auditclasses.auditregistration.k8s.io",
	"customresourcedefinitions.apiextensions.k8s.io",
	"tokenrevocations.access.proviso.dev", "accessrules.access.proviso.dev", "accessrequests.access.proviso.dev",
	"namespaceauditsinks.policy.proviso.dev",
}

// IsSource reports whether a resource has an entry.
func IsSource(resource string) bool { return slices.Contains(sources, resource) }

// format is the first byte of a token.
const format = 1

// maxToken bounds what Parse reads.
const maxToken = 1024

// Token returns the vector as callers get it. It is opaque: callers can compare it for equality, and send it back.
func (v Vector) Token() string {
	raw := []byte{format}
	for _, e := range v {
		id := slices.Index(sources, e.Source)
		if id < 0 {
			continue // nobody could read it
		}
		raw = append(raw, byte(id))
		raw = binary.AppendUvarint(raw, e.At)
		raw = binary.BigEndian.AppendUint64(raw, e.State)
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// ErrToken is the error of Parse for text that was never a token.
var ErrToken = errors.New("this is not a policy revision; use one that the server returned, from status.policyRevision, " +
	"the annotation authorization.proviso.dev/policy-revision or the header Proviso-Policy-Revision")

// Parse reads a token.
func Parse(token string) (Vector, error) {
	if len(token) > maxToken {
		return nil, ErrToken
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) == 0 {
		return nil, ErrToken
	}
	if raw[0] != format {
		return nil, fmt.Errorf("a policy revision of format %d: another release of the server has written it", raw[0])
	}
	var v Vector
	for rest := bytes.NewReader(raw[1:]); rest.Len() > 0; {
		id, _ := rest.ReadByte() // there is one
		at, err := binary.ReadUvarint(rest)
		var state [8]byte
		if err == nil {
			_, err = io.ReadFull(rest, state[:])
		}
		switch {
		case err != nil || slices.ContainsFunc(v, func(e Entry) bool { return int(id) < len(sources) && e.Source == sources[id] }):
			return nil, ErrToken
		case int(id) >= len(sources):
			return nil, errors.New("a policy revision of a source that this server does not have: a newer release has written it")
		}
		v = append(v, Entry{Source: sources[id], At: at, State: binary.BigEndian.Uint64(state[:])})
	}
	if len(v) == 0 {
		return nil, ErrToken
	}
	v.sort()
	return v, nil
}

func (v Vector) sort() {
	slices.SortFunc(v, func(a, b Entry) int { return cmp.Compare(a.Source, b.Source) })
}

// Of returns a vector of entries, given in any order.
func Of(entries ...Entry) Vector {
	v := Vector(slices.Clone(entries))
	v.sort()
	return v
}

// Entry returns the entry of a source.
func (v Vector) Entry(source string) (Entry, bool) {
	i, found := slices.BinarySearchFunc(v, source, func(e Entry, s string) int { return cmp.Compare(e.Source, s) })
	if !found {
		return Entry{}, false
	}
	return v[i], true
}

// With returns the vector with the newer of its own entry and this one.
func (v Vector) With(e Entry) Vector {
	if have, found := v.Entry(e.Source); found && have.At >= e.At {
		return v
	}
	next := slices.DeleteFunc(slices.Clone(v), func(have Entry) bool { return have.Source == e.Source })
	next = append(next, e)
	next.sort()
	return next
}

// Lacks returns the wanted entries that are newer than the vector, or whose source it does not have. A source with the
// same content lacks nothing, however old its last event is: a source that does not change sends no events.
func (v Vector) Lacks(wanted Vector) (lacks Vector) {
	for _, w := range wanted {
		have, found := v.Entry(w.Source)
		if !found || have.At < w.At && (w.State == 0 || have.State != w.State) {
			lacks = append(lacks, w)
		}
	}
	return lacks
}
