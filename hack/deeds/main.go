// Command deeds reads audit logs of a server and fails if its own controllers changed something in a way that
// docs/explanation/effects.md does not list (NI-4).
//
//	go run ./hack/deeds LOG…
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"proviso.dev/proviso/test/deeds"
)

func main() {
	if err := run("docs/explanation/effects.md", os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "deeds:", err)
		os.Exit(1)
	}
}

func run(page string, logs []string, out io.Writer) error {
	list, err := deeds.Read(page)
	if err != nil {
		return err
	}
	times := map[string]int{}
	for _, log := range logs {
		if err := count(log, times); err != nil {
			return fmt.Errorf("%s: %w", log, err)
		}
	}
	if len(times) == 0 {
		return errors.New("the logs have nothing that a controller did")
	}
	all, bad := 0, []error{}
	for deed, n := range times {
		if all += n; !list.Has(deed) {
			bad = append(bad, fmt.Errorf("not in %s: %s (%d times)", page, deed, n))
		}
	}
	fmt.Fprintf(out, "%d changes by the server's own controllers, in %d ways, %d of them not listed\n", all, len(times), len(bad))
	return errors.Join(bad...)
}

func count(log string, times map[string]int) error {
	file, err := os.Open(log)
	if err != nil {
		return err
	}
	defer file.Close()
	for events := json.NewDecoder(file); ; {
		var e auditv1.Event
		if err := events.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		r := deeds.Request{User: e.User.Username, Agent: e.UserAgent, Verb: e.Verb}
		if e.ObjectRef != nil {
			r.Group, r.Resource, r.Subresource = e.ObjectRef.APIGroup, e.ObjectRef.Resource, e.ObjectRef.Subresource
		}
		if e.Stage == auditv1.StageResponseComplete && e.ResponseStatus != nil {
			r.Code = e.ResponseStatus.Code
		}
		if deed := r.Deed(); deed != "" {
			times[deed]++
		}
	}
}
