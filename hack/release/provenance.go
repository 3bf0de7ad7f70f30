package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// The types are those of in-toto statements, version 1, with the predicate of SLSA provenance, version 1. What differs
// between two builds of one commit, such as when it ran and by whom, is left out: their provenance is the same bytes.
type (
	statement struct {
		Type          string     `json:"_type"`
		Subject       []resource `json:"subject"`
		PredicateType string     `json:"predicateType"`
		Predicate     predicate  `json:"predicate"`
	}
	resource struct {
		Name   string            `json:"name,omitempty"`
		URI    string            `json:"uri,omitempty"`
		Digest map[string]string `json:"digest"`
	}
	predicate struct {
		BuildDefinition buildDefinition `json:"buildDefinition"`
		RunDetails      runDetails      `json:"runDetails"`
	}
	buildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]string `json:"externalParameters"`
		InternalParameters   map[string]string `json:"internalParameters"`
		ResolvedDependencies []resource        `json:"resolvedDependencies"`
	}
	runDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	}
)

const (
	// builder is who vouches for the build: the person who has the key and ran `make release`. It claims no level of
	// SLSA, since nothing isolates that build from its user.
	builder   = "https://proviso.dev/release/make"
	buildType = builder + "/v1"
)

// subjects are all files that were made, with their checksums.
func (o *options) subjects() ([]resource, error) {
	entries, err := os.ReadDir(o.out)
	if err != nil {
		return nil, err
	}
	var all []resource
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		sum, err := checksum(filepath.Join(o.out, e.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, resource{Name: e.Name(), Digest: map[string]string{"sha256": sum}})
	}
	return all, nil
}

func (o *options) provenance(subjects []resource) statement {
	var platforms []string
	for _, p := range o.platforms {
		platforms = append(platforms, p.String())
	}
	s := statement{Type: "https://in-toto.io/Statement/v1", Subject: subjects, PredicateType: "https://slsa.dev/provenance/v1"}
	s.Predicate.BuildDefinition = buildDefinition{
		BuildType:            buildType,
		ExternalParameters:   map[string]string{"version": o.version, "platforms": strings.Join(platforms, ",")},
		InternalParameters:   map[string]string{"go": runtime.Version(), "ldflags": o.ldflags, "date": o.date.Format("2006-01-02T15:04:05Z")},
		ResolvedDependencies: []resource{{URI: "git+" + o.source, Digest: map[string]string{"gitCommit": o.commit}}},
	}
	s.Predicate.RunDetails.Builder.ID = builder
	return s
}
