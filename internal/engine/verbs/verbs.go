package verbs

import (
	"slices"
	"strings"
)

// The verbs of requests for resources.
const (
	Get    = "get"
	List   = "list"
	Watch  = "watch"
	Create = "create"
	Update = "update"
	Patch  = "patch"
	Delete = "delete"
	// DeleteCollection deletes what a list with the same selectors would return.
	DeleteCollection = "deletecollection"
)

// All are the verbs of requests, reads before writes.
func All() []string { return append(Reads(), Writes()...) }

// Served are the verbs of requests in the order in which discovery lists them.
func Served() []string {
	return []string{Create, Delete, DeleteCollection, Get, List, Patch, Update, Watch}
}

// Reads are the verbs that change nothing.
func Reads() []string { return []string{Get, List, Watch} }

// Writes are the verbs that change what is stored.
func Writes() []string { return []string{Create, Update, Patch, Delete, DeleteCollection} }

// Special returns the verbs that rules name but requests do not have. Rules can name others as well.
func Special() []string {
	return []string{"approve", "attest", "bind", "deny", "escalate", "exec", "granular", "impersonate", "proxy", "sign", "unsafe-delete-ignore-read-errors", "use"}
}

// IsRead reports whether a verb reads objects.
func IsRead(verb string) bool { return verb == Get || verb == List || verb == Watch }

// IsWrite reports whether a verb changes what is stored. Such requests run admission.
func IsWrite(verb string) bool { return verb == Create || Changes(verb) }

// IsRequest reports whether a verb is one of requests for resources.
func IsRequest(verb string) bool { return IsRead(verb) || IsWrite(verb) }

// Stores reports whether a verb sends an object to be stored.
func Stores(verb string) bool { return verb == Create || Updates(verb) }

// Updates reports whether a verb changes an existing object.
func Updates(verb string) bool { return verb == Update || verb == Patch }

// Deletes reports whether a verb deletes objects.
func Deletes(verb string) bool { return verb == Delete || verb == DeleteCollection }

// Changes reports whether a verb changes or deletes existing objects.
func Changes(verb string) bool { return Updates(verb) || Deletes(verb) }

// Selects reports whether a verb is about the objects that selectors select.
func Selects(verb string) bool { return verb == List || verb == Watch || verb == DeleteCollection }

// HasName reports whether a request for a resource names its object. A create names it only in its body, and a request
// for a subresource always does.
func HasName(verb string) bool { return verb != Create && !Selects(verb) }

// MayName reports whether a request for a resource can name its object: a list or watch does so by a field selector for
// metadata.name.
func MayName(verb string) bool { return HasName(verb) || verb == List || verb == Watch }

// known are the verbs of requests, of paths among them, and the special ones of rules.
var known = slices.Concat(All(), Special(), []string{"*", "permission-request", "post", "put", "head", "options"})

// IsKnown reports whether Kubernetes or Proviso asks about a verb. Any other verb is matched literally, so it may still
// be correct.
func IsKnown(verb string) bool {
	return slices.Contains(known, verb) || strings.HasPrefix(verb, "granular:") || strings.HasPrefix(verb, "reveal:") || strings.HasPrefix(verb, "impersonate")
}

// WithReads adds all reading verbs if one of the verbs reads: a list shows what a get shows.
func WithReads(all []string) []string {
	if !slices.ContainsFunc(all, IsRead) {
		return all
	}
	out := slices.DeleteFunc(slices.Clone(all), IsRead)
	return append(Reads(), out...)
}
