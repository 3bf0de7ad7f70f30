package denial

import (
	"strings"
	"unicode"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"
)

// level is the verbosity of the line. --vmodule matches the name of this file.
const level klog.Level = 2

// Stages at which a request can be refused.
const (
	Authorization = "authorization"
	Conditions    = "conditions"
	Connection    = "connection"
	Fields        = "fields"
	Attributes    = "attributes and guards"
	Effects       = "effects"
)

// By is what refused a request. A rule is named as reasons or conditions name it; none of them quotes an object.
type By struct {
	Stage      string
	Authorizer string
	Rules      []string
	// Ask is what the caller should ask next; nil if the refusal says everything.
	Ask *Question
}

// Note counts a refusal, and writes the line if it is enabled.
func Note(attrs authorizer.Attributes, by By) {
	count(by)
	log := klog.V(level)
	if !log.Enabled() || attrs == nil {
		return
	}
	line := []any{"stage", by.Stage}
	add := func(key, value string) {
		if value != "" {
			line = append(line, key, strings.Map(printable, value))
		}
	}
	if u := attrs.GetUser(); u != nil {
		add("user", u.GetName())
	}
	add("verb", attrs.GetVerb())
	if attrs.IsResourceRequest() {
		add("group", attrs.GetAPIGroup())
		add("resource", attrs.GetResource())
		add("subresource", attrs.GetSubresource())
		add("namespace", attrs.GetNamespace())
		add("name", attrs.GetName())
	} else {
		add("path", attrs.GetPath())
	}
	add("authorizer", by.Authorizer)
	add("rule", strings.Join(by.Rules, ", "))
	log.InfoS("Request refused", line...)
}

// printable keeps a name from breaking the line.
func printable(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}
