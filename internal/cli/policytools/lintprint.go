package policytools

import (
	"encoding/json"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"proviso.dev/proviso/internal/analysis/lint"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/platform/terminal"
)

// lintReport is what scripts rely on.
type lintReport struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Errors     int           `json:"errors"`
	Warnings   int           `json:"warnings"`
	Notes      int           `json:"notes"`
	Findings   []lintFinding `json:"findings"`

	hidden int
}

type lintFinding struct {
	Code     string        `json:"code"`
	Severity lint.Severity `json:"severity"`
	manifests.Place
	Object  string `json:"object"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
	Remedy  string `json:"remedy"`
	Page    string `json:"page"`
}

// lintPage is where the codes are explained.
const lintPage = "docs/reference/lint.md"

func (r *lintReport) add(m lint.Remark, at manifests.Place) {
	code, _ := lint.CodeOf(m.Code)
	remedy := m.Do
	if remedy == "" {
		remedy = code.Do
	}
	r.Findings = append(r.Findings, lintFinding{Code: m.Code, Severity: m.Severity, Place: at, Object: m.Object.String(), Field: m.Field(), Message: m.Message, Remedy: remedy,
		Page: lintPage + "#" + strings.ToLower(m.Code)})
}

// narrow leaves out what is not to be shown, and counts.
func (r *lintReport) narrow(least lint.Severity, ignore []string) {
	r.Findings = slices.DeleteFunc(r.Findings, func(f lintFinding) bool {
		if slices.Contains(ignore, f.Code) {
			return true
		}
		switch f.Severity {
		case lint.Error:
			r.Errors++
		case lint.Warning:
			r.Warnings++
		default:
			r.Notes++
		}
		if f.Severity.Rank() > least.Rank() {
			r.hidden++
			return true
		}
		return false
	})
}

func (r *lintReport) print(out io.Writer, format string) error {
	switch format {
	case "json":
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	case "sarif":
		return r.printSARIF(out)
	}
	var b strings.Builder
	for _, f := range r.Findings {
		where := f.Object
		if f.Field != "" {
			where += " " + f.Field
		}
		terminal.Fprintf(&b, "%s: %s %s: %s: %s\n    %s\n", f.Place, f.Severity, f.Code, where, f.Message, f.Remedy)
	}
	terminal.Fprintf(&b, "%s, %s, %s", terminal.Count(r.Errors, "error", "errors"), terminal.Count(r.Warnings, "warning", "warnings"), terminal.Count(r.Notes, "note", "notes"))
	if r.hidden > 0 {
		b.WriteString(" (--severity note shows all)")
	}
	_, err := terminal.Fprintln(out, terminal.Lines(b.String()))
	return err
}

// The parts of SARIF 2.1.0 that code-scanning tools show.
type sarif struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool struct {
		Driver sarifDriver `json:"driver"`
	} `json:"tool"`
	ColumnKind string        `json:"columnKind"`
	Results    []sarifResult `json:"results"`
}

type sarifDriver struct {
	Name           string      `json:"name"`
	InformationURI string      `json:"informationUri"`
	Rules          []sarifRule `json:"rules"`
}

type sarifText struct {
	Text     string `json:"text"`
	Markdown string `json:"markdown,omitempty"`
}

type sarifRule struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Short   sarifText `json:"shortDescription"`
	Full    sarifText `json:"fullDescription"`
	Help    sarifText `json:"help"`
	HelpURI string    `json:"helpUri"`
	Default struct {
		Level string `json:"level"`
	} `json:"defaultConfiguration"`
	Properties struct {
		Tags []string `json:"tags"`
	} `json:"properties"`
}

type sarifResult struct {
	RuleID       string            `json:"ruleId"`
	RuleIndex    int               `json:"ruleIndex"`
	Level        string            `json:"level"`
	Message      sarifText         `json:"message"`
	Locations    []sarifLocation   `json:"locations"`
	Fingerprints map[string]string `json:"partialFingerprints"`
}

type sarifLocation struct {
	Physical *sarifPhysical `json:"physicalLocation,omitempty"`
	Logical  []sarifLogical `json:"logicalLocations"`
}

type sarifPhysical struct {
	Artifact struct {
		URI string `json:"uri"`
	} `json:"artifactLocation"`
	Region struct {
		Line   int `json:"startLine"`
		Column int `json:"startColumn"`
	} `json:"region"`
}

type sarifLogical struct {
	Name string `json:"fullyQualifiedName"`
	Kind string `json:"kind"`
}

// lintHome is where tools send people who want to read more.
const lintHome = "https://proviso.dev/"

func (r *lintReport) printSARIF(out io.Writer) error {
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "proviso lint", InformationURI: lintHome}
	at := map[string]int{}
	for i, c := range lint.Codes() {
		rule := sarifRule{ID: c.ID, Name: c.Name, Short: sarifText{Text: c.Title}, Full: sarifText{Text: c.Why},
			Help: sarifText{Text: c.Why + "\n\n" + c.Do, Markdown: "**" + c.Title + ".** " + c.Why + "\n\n" + c.Do}, HelpURI: lintHome + lintPage + "#" + strings.ToLower(c.ID)}
		rule.Default.Level = string(c.Worst)
		rule.Properties.Tags = []string{"security", "authorization"}
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, rule)
		at[c.ID] = i
	}
	for _, f := range r.Findings {
		location := sarifLocation{Logical: []sarifLogical{{Name: strings.TrimSpace(f.Object + " " + f.Field), Kind: "object"}}}
		if f.File != "" {
			location.Physical = &sarifPhysical{}
			location.Physical.Artifact.URI = filepath.ToSlash(filepath.Clean(f.File))
			location.Physical.Region.Line, location.Physical.Region.Column = f.Line, f.Column
		}
		run.Results = append(run.Results, sarifResult{RuleID: f.Code, RuleIndex: at[f.Code], Level: string(f.Severity), Message: sarifText{Text: f.Message + ". " + f.Remedy},
			Locations: []sarifLocation{location}, Fingerprints: map[string]string{"proviso/v1": f.Code + " " + f.Object + " " + f.Field}})
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(sarif{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}})
}
