// Package deeds holds what the server's own controllers write against the list of docs/explanation/effects.md (NI-4).
package deeds

import (
	"os"
	"slices"
	"strings"

	"proviso.dev/proviso/internal/engine/verbs"
)

// Request is one that the server has answered.
type Request struct {
	User, Agent, Verb            string
	Group, Resource, Subresource string
	Code                         int32
}

// Deed is who changed what, as "controller verb resource.group/subresource"; empty if the server's own identity changed
// nothing by the request.
func (r Request) Deed() string {
	if r.User != "system:apiserver" || r.Resource == "" || !verbs.Changes(r.Verb) || r.Code == 0 || r.Code >= 300 {
		return ""
	}
	account := "server"
	if _, agent, found := strings.Cut(r.Agent, ") kubernetes/"); found {
		if _, controller, found := strings.Cut(agent, "/"); found {
			account = controller
		}
	}
	what := r.Resource
	if r.Group != "" {
		what += "." + r.Group
	}
	if r.Subresource != "" {
		what += "/" + r.Subresource
	}
	return account + " " + r.Verb + " " + what
}

// List is the table of the page: by whom, verbs, resources; * is any resource.
type List map[string]bool

// Read reads the page.
func Read(page string) (List, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	all := List{}
	_, table, _ := strings.Cut(string(text), "\n## What the server's own controllers write\n")
	for line := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(line, "|")
		if strings.HasPrefix(line, "## ") {
			break
		}
		if len(cells) < 5 || !strings.Contains(cells[1], "`") {
			continue
		}
		clean := func(cell string) string { return strings.Trim(strings.ReplaceAll(cell, "`", ""), " ") }
		for verb := range strings.SplitSeq(clean(cells[2]), ", ") {
			for what := range strings.SplitSeq(clean(cells[3]), ", ") {
				all[clean(cells[1])+" "+verb+" "+what] = true
			}
		}
	}
	return all, nil
}

// Has reports whether a deed is listed.
func (l List) Has(deed string) bool {
	words := strings.Fields(deed)
	return l[deed] || l[words[0]+" "+words[1]+" *"]
}

// NotDone are those of the list that were not seen.
func (l List) NotDone(seen []string) (left []string) {
	for listed := range l {
		words := strings.Fields(listed)
		if words[0] == "server" || words[0] == "leader-election" || words[0] == "root-ca-cert-publisher" {
			continue // they write from time to time, or when another client has
		}
		if !slices.ContainsFunc(seen, func(deed string) bool {
			return deed == listed || words[2] == "*" && strings.HasPrefix(deed, words[0]+" "+words[1]+" ")
		}) {
			left = append(left, listed)
		}
	}
	return left
}
