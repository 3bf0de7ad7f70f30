package e2e

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"proviso.dev/proviso/test/stock/differ"
)

// SC-12, at length: PROVISO_DIFFER is how many requests there are, and PROVISO_DIFFER_FROM the first of the worlds, 1
// if it is not said. A part of it is in TestSidecarByAddress.
func TestSidecarDecidesAsAServerDoes(t *testing.T) {
	total, err := strconv.Atoi(os.Getenv("PROVISO_DIFFER"))
	if err != nil {
		t.Skip("PROVISO_DIFFER is not set: run `go run ./hack/prove differ-sidecar`")
	}
	from, err := strconv.ParseUint(cmp.Or(os.Getenv("PROVISO_DIFFER_FROM"), "1"), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	t.Parallel()
	p := startPair(t)
	p.kubectl("apply", "-f", p.Side+"/cluster.yaml")
	p.honoured()
	p.differ(t, from, total)
}

// differ: SC-12. The same policies and the same random requests to a server of ours and to the pair. Nothing is allowed
// by the pair that the server refuses, and what it alone refuses is of a kind that the guide lists.
func (p *pair) differ(t *testing.T, from uint64, total int) {
	t.Helper()
	s := serve(t, tempDir(t))
	defer s.stop()
	for _, one := range []*server{p.server, s} {
		// A controller may make a service account at the same moment.
		one.await("the population", func() bool { _, err := one.try(differ.Population(), "apply", "-f", "-"); return err == nil })
		one.await("the custom resource", func() bool { _, err := one.try("", "get", "widgets"); return err == nil })
		one.apply(differ.Objects(), "--server-side") // without an annotation that an update would remove
	}
	const each = 5000
	all := &differ.Result{}
	for seed := from; all.Requests < total; seed++ {
		w := differ.NewWorld(seed)
		for _, one := range []*server{p.server, s} {
			one.policyOf(w)
		}
		result, err := w.Compare(t.Context(), s.end(), p.end(), min(each, total-all.Requests), 4)
		if err != nil {
			t.Fatal(err)
		}
		all.Add(result)
		t.Logf("world %d: %s", seed, result)
		for _, wrong := range result.Wrong {
			t.Errorf("world %d: %s", seed, wrong)
		}
		if len(result.Wrong) > 0 {
			t.Logf("policy:\n%s", w.Policy())
			break
		}
	}
	t.Logf("in all: %s", all)
	if all.BothPass == 0 || all.BothRefuse == 0 {
		t.Error("the test decides nothing")
	}
}

// policyOf puts the policy of a world in the place of the one before, which has the same names, and waits until it is
// known.
func (s *server) policyOf(w *differ.World) {
	s.t.Helper()
	s.apply(w.Policy())
	for _, marker := range w.Markers() {
		s.await("the policy to be known: "+marker.String(), func() bool {
			ok, err := marker.Holds(s.t.Context(), s.end())
			return ok && err == nil
		})
	}
}

// end is the server as its cluster admin reaches it.
func (s *server) end() differ.End {
	s.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		s.t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		s.t.Fatal(err)
	}
	return differ.End{URL: fmt.Sprintf("https://127.0.0.1:%d", s.port), Client: client}
}
