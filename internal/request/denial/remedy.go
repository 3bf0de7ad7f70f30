package denial

import (
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/verbs"
)

// Question is what a user who was refused should ask to see why, and which grant is missing (TR-12).
type Question struct {
	Attributes authorizer.Attributes
	// Verb replaces the verb of the request in the question; empty to keep it.
	Verb string
	// Object is set if the answer depends on the object.
	Object bool
}

// Advise adds the remedy to a message: the command that explains more. Without a question there is none.
func (q *Question) Advise(message string) string {
	command := q.command()
	if command == "" {
		return message
	}
	return strings.TrimPrefix(message+"; `"+command+"` says what would allow it", "; ")
}

// command returns a command that can be pasted into a shell as it is. It contains only what the caller has sent.
func (q *Question) command() string {
	if q == nil || q.Attributes == nil {
		return ""
	}
	a := q.Attributes
	verb := a.GetVerb()
	if q.Verb != "" {
		verb = q.Verb
	}
	words := []string{"proviso", "explain", verb}
	if !a.IsResourceRequest() {
		return join(append(words, a.GetPath()))
	}
	target := a.GetResource()
	if a.GetAPIGroup() != "" {
		target += "." + a.GetAPIGroup()
	}
	if a.GetName() != "" {
		target += "/" + a.GetName()
	}
	words = append(words, target)
	if a.GetSubresource() != "" {
		words = append(words, "--subresource", a.GetSubresource())
	}
	switch {
	case a.GetAPIGroup() == "" && a.GetResource() == "namespaces": // it is in itself, which nobody says
	case a.GetNamespace() != "":
		words = append(words, "-n", a.GetNamespace())
	case a.GetName() == "" && verb != "create":
		words = append(words, "-A")
	}
	if !q.Object {
		return join(words)
	}
	switch verb {
	case verbs.Create:
		words = append(words, "-f", "FILE")
	case verbs.Update, verbs.Patch:
		words = append(words, "--stored", "-f", "FILE")
	case verbs.Delete:
		words = append(words, "--stored")
	}
	return join(words)
}

// join quotes words for a shell; empty if one of them cannot be written in one line.
func join(words []string) string {
	for i, word := range words {
		switch {
		case word == "", strings.ContainsFunc(word, func(r rune) bool { return printable(r) != r || r == '\'' || r == '`' }):
			return ""
		case strings.ContainsFunc(word, special):
			words[i] = "'" + word + "'"
		}
	}
	return strings.Join(words, " ")
}

// special reports whether a shell could interpret the character.
func special(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune("-_./:@%+=,", r):
		return false
	}
	return true
}
