package conformance

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
)

var specList = flag.String("specs", "", "file with the full names of the specs to run, one on a line")

// listed reads the names of specs from the file of -specs.
func listed() ([]string, error) {
	text, err := os.ReadFile(*specList)
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		name := strings.TrimSpace(line)
		if name != "" && !strings.HasPrefix(name, "#") {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s names no spec", *specList)
	}
	return names, nil
}

// focus turns names into expressions that match exactly these. Ginkgo puts the suite's description in front of a name,
// therefore only its end is anchored.
func focus(names []string) []string {
	var all []string
	for _, name := range names {
		all = append(all, `(^|\s)`+regexp.QuoteMeta(name)+`$`)
	}
	return all
}

// A name that matches nothing would make the suite smaller without a word, so every listed spec has to have run.
var _ = ginkgo.ReportAfterSuite("every listed spec ran", func(report ginkgo.Report) {
	if *specList == "" {
		return
	}
	names, err := listed()
	if err != nil {
		ginkgo.Fail(err.Error())
	}
	for _, spec := range report.SpecReports {
		if spec.State.Is(types.SpecStatePassed | types.SpecStateFailureStates) {
			names = slices.DeleteFunc(names, func(name string) bool { return name == spec.FullText() })
		}
	}
	if len(names) > 0 {
		ginkgo.Fail(fmt.Sprintf("%d of the listed specs did not run:\n%s", len(names), strings.Join(names, "\n")))
	}
})
