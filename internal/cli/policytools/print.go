package policytools

import (
	"encoding/json"
	"encoding/xml"
	"io"
	"strings"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/hosts/offline/policytest"
	"proviso.dev/proviso/internal/platform/terminal"
)

// printTests writes what became of the cases of policy tests.
func printTests(out io.Writer, format string, r *policytest.Report) error {
	switch format {
	case "json":
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	case "junit":
		return printJUnit(out, r)
	}
	var b strings.Builder
	for _, c := range r.Cases {
		if c.Passed {
			continue
		}
		terminal.Fprintf(&b, "FAIL %s/%s (%s)\n", c.Test, c.Case, c.File)
		for _, problem := range c.Problems {
			terminal.Fprintf(&b, "     %s\n", problem)
		}
		if c.Trace != nil {
			writeTrace(&b, c.Trace)
		}
	}
	terminal.Fprintf(&b, "%d passed, %d failed\n", r.Passed, r.Failed)
	if r.Coverage != nil {
		terminal.Fprintf(&b, "%d of %d rules decided a case (%d%%)\n", r.Coverage.Decided, r.Coverage.Rules, r.Coverage.Percent)
		for _, never := range r.Coverage.Never {
			terminal.Fprintf(&b, "  never: %s\n", never)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// writeTrace shows how a decision came about.
func writeTrace(b *strings.Builder, trace *authz.DecisionTrace) {
	for _, a := range trace.Authorizers {
		if a.Answer == authz.AnswerNotAsked {
			continue
		}
		terminal.Fprintf(b, "       %s: %s%s\n", a.Name, a.Answer, after(": ", a.Reason+a.Error))
		for _, rule := range a.Rules {
			mark := " "
			if rule.Decides {
				mark = "*"
			}
			terminal.Fprintf(b, "       %s %s by rule %d of %s: %s\n", mark, rule.Effect, rule.RuleIndex, policytest.RuleName(rule), rule.Rule)
			if rule.Condition != nil {
				terminal.Fprintf(b, "           %s is %s\n", strings.Join(strings.Fields(rule.Condition.Condition.Condition), " "), rule.Condition.Value)
			}
		}
	}
}

func after(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + text
}

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	File     string      `xml:"file,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Failure *junitFailure `xml:"failure,omitempty"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// printJUnit writes what CI systems read.
func printJUnit(out io.Writer, r *policytest.Report) error {
	all := junitSuites{Tests: r.Passed + r.Failed, Failures: r.Failed}
	for _, c := range r.Cases {
		n := len(all.Suites)
		if n == 0 || all.Suites[n-1].Name != c.Test || all.Suites[n-1].File != c.File {
			all.Suites = append(all.Suites, junitSuite{Name: c.Test, File: c.File})
			n++
		}
		suite := &all.Suites[n-1]
		one := junitCase{Name: c.Case, Class: c.Test}
		suite.Tests++
		if !c.Passed {
			suite.Failures++
			var trace strings.Builder
			if c.Trace != nil {
				writeTrace(&trace, c.Trace)
			}
			one.Failure = &junitFailure{Message: strings.Join(c.Problems, "; "), Text: trace.String()}
		}
		suite.Cases = append(suite.Cases, one)
	}
	if _, err := io.WriteString(out, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(out)
	encoder.Indent("", "  ")
	if err := encoder.Encode(all); err != nil {
		return err
	}
	_, err := terminal.Fprintln(out)
	return err
}
