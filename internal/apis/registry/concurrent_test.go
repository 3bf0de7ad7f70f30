package registry

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// runs is how often something random is tried: PROVISO_LAW_RUNS, or what is enough for every day.
func runs(everyday int) int {
	if n, err := strconv.Atoi(os.Getenv("PROVISO_LAW_RUNS")); err == nil && n > 0 {
		return n
	}
	return everyday
}

// inParallel runs n workers and reports their errors on the test.
func inParallel(t *testing.T, n int, work func(worker int) error) {
	t.Helper()
	var wg sync.WaitGroup
	errs := make(chan error, n)
	for i := range n {
		wg.Go(func() {
			if err := work(i); err != nil {
				errs <- fmt.Errorf("worker %d: %w", i, err)
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
}

// PO-4: concurrent writers of one container never lose an update, through one server or through two that share the
// store. Each worker works on entries of its own and keeps a model of them, adding, changing and removing at random; in
// between all of them write labels of their own on one shared role. At the end the store is exactly what the models
// say.
func TestConcurrentWritersLoseNothing(t *testing.T) {
	first := serve(t, &world{})
	first.containers("hammer")
	servers := []*api{first, serveAt(t, &world{}, first.prefix)}
	first.must("POST", rolesIn("hammer"), roleYAML("shared", readPods))
	workers, steps := 6, runs(12)
	models := make([]map[string]string, workers)
	shared := make([]int, workers)
	inParallel(t, workers, func(w int) error {
		random := rand.New(rand.NewPCG(7, uint64(w)))
		model := map[string]string{}
		models[w] = model
		for step := range steps {
			s := servers[random.IntN(len(servers))]
			name := fmt.Sprintf("role-%d-%d", w, random.IntN(3))
			value := fmt.Sprintf("v%d", step)
			path := rolesIn("hammer") + "/" + name
			var got answer
			var err error
			switch _, exists := model[name]; {
			case !exists:
				got, err = s.try("POST", rolesIn("hammer"), strings.Replace(roleYAML(name, readPods), "metadata: {", "metadata: {labels: {v: "+value+"}, ", 1))
				model[name] = value
			case random.IntN(3) == 0:
				got, err = s.try("DELETE", path, nil)
				delete(model, name)
			case random.IntN(2) == 0:
				got, err = s.try("PATCH", path+"?fieldManager=me&force=true", strings.Replace(roleYAML(name, readPods), "metadata: {", "metadata: {labels: {v: "+value+"}, ", 1), "Content-Type", applyPatch)
				model[name] = value
			default:
				if got, err = s.try("GET", path, nil); err != nil || got.code != 200 {
					return fmt.Errorf("get %s: %d %s %w", name, got.code, got.message(), err)
				}
				got.body["metadata"].(map[string]any)["labels"] = map[string]any{"v": value}
				got, err = s.try("PUT", path, got.body) // with the version: nobody else writes this entry, so no conflict
				model[name] = value
			}
			if err != nil || got.code/100 != 2 {
				return fmt.Errorf("step %d on %s: %d %s %w", step, name, got.code, got.message(), err)
			}
			if step%5 == 0 {
				got, err := s.try("PATCH", rolesIn("hammer")+"/shared", fmt.Sprintf(`{"metadata":{"labels":{"w%d":"%d"}}}`, w, step), "Content-Type", mergePatch)
				if err != nil || got.code != 200 {
					return fmt.Errorf("shared: %d %s %w", got.code, got.message(), err)
				}
				shared[w] = step
			}
		}
		return nil
	})
	want := map[string]string{}
	for _, m := range models {
		for k, v := range m {
			want[k] = v
		}
	}
	items, _ := first.must("GET", rolesIn("hammer"), nil).at("items").([]any)
	got := map[string]string{}
	versions := map[string]bool{}
	for _, item := range items {
		i := answer{body: item.(map[string]any)}
		name := i.at("metadata", "name").(string)
		version := i.at("metadata", "resourceVersion").(string)
		if versions[version] {
			t.Errorf("two entries have the resource version %s", version)
		}
		versions[version] = true
		if name == "shared" {
			for w := range workers {
				if i.at("metadata", "labels", fmt.Sprintf("w%d", w)) != fmt.Sprint(shared[w]) {
					t.Errorf("shared role lost the label of worker %d: %v", w, i.at("metadata", "labels"))
				}
			}
			continue
		}
		got[name], _ = i.at("metadata", "labels", "v").(string)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("stored %v\nwant   %v", got, want)
	}
}

// PO-4: of several writers with the same version of one entry exactly one wins, and the others hear of it.
func TestOptimisticConcurrency(t *testing.T) {
	s := serve(t, &world{})
	s.containers("hammer")
	s.must("POST", rolesIn("hammer"), roleYAML("reader", readPods))
	for round := range 5 {
		role := s.must("GET", rolesIn("hammer")+"/reader", nil)
		codes := make([]int, 4)
		inParallel(t, len(codes), func(w int) error {
			body := maps.Clone(role.body)
			body["rules"] = []any{map[string]any{"verbs": []any{fmt.Sprintf("v%d-%d", round, w)}, "resourceKinds": []any{"pods"}}}
			got, err := s.try("PUT", rolesIn("hammer")+"/reader", body)
			codes[w] = got.code
			return err
		})
		won := 0
		for _, c := range codes {
			switch c {
			case 200:
				won++
			case 409:
			default:
				t.Errorf("codes %v", codes)
			}
		}
		if won != 1 {
			t.Errorf("%d writers won, want one: %v", won, codes)
		}
	}
}

// PO-5: a role is deleted and bound at the same moment, through two servers: never does a binding that was acknowledged
// refer to a role whose deletion was.
func TestDeletingWhileBinding(t *testing.T) {
	first := serve(t, &world{})
	first.containers("hammer")
	second := serveAt(t, &world{}, first.prefix)
	rounds, both := runs(20), 0
	for round := range rounds {
		name := fmt.Sprintf("role-%d", round)
		first.must("POST", rolesIn("hammer"), roleYAML(name, readPods))
		var deleted, bound answer
		inParallel(t, 2, func(w int) (err error) {
			if w == 0 {
				deleted, err = first.try("DELETE", rolesIn("hammer")+"/"+name, nil)
			} else {
				bound, err = second.try("POST", bindingsIn("hammer"), bindingYAML(name, "hammer", name, "edgar"))
			}
			return err
		})
		if deleted.code/100 == 2 && bound.code/100 == 2 {
			t.Fatalf("round %d: the role was deleted and bound", round)
		}
		for _, a := range []answer{deleted, bound} {
			if a.code/100 != 2 && a.code/100 != 4 {
				t.Fatalf("round %d: %d %s", round, a.code, a.message())
			}
		}
		if deleted.code/100 != 2 && bound.code/100 != 2 {
			both++
		}
		// What is left is consistent: a binding if and only if it was acknowledged, and its role with it.
		if got := first.call("GET", bindingsIn("hammer")+"/"+name, nil); (got.code == 200) != (bound.code/100 == 2) {
			t.Fatalf("round %d: binding answered %d and is %d", round, bound.code, got.code)
		}
		role := first.call("GET", rolesIn("hammer")+"/"+name, nil)
		if (role.code == 200) != (deleted.code/100 != 2) {
			t.Fatalf("round %d: deletion answered %d %s and the role is %d", round, deleted.code, deleted.message(), role.code)
		}
		if role.code == 200 && role.at("metadata", "deletionTimestamp") != nil {
			t.Fatalf("round %d: the role kept its mark", round)
		}
	}
	t.Logf("both were refused in %d of %d rounds", both, rounds)
}

// PO-5: two bindings of one name to different policies at the same moment: at most one stays.
func TestBindingNamesAreUniqueAcrossContainers(t *testing.T) {
	s := serve(t, &world{})
	s.containers("hammer", "master")
	s.must("POST", rolesIn("master"), roleYAML("r", readPods))
	s.must("POST", rolesIn("hammer"), roleYAML("r", readPods))
	for round := range runs(10) {
		name := fmt.Sprintf("b-%d", round)
		codes := make([]int, 2)
		inParallel(t, 2, func(w int) error {
			got, err := s.try("POST", bindingsIn("hammer"), bindingYAML(name, []string{"hammer", "master"}[w], "r", "edgar"))
			codes[w] = got.code
			return err
		})
		n := 0
		for _, container := range []string{"hammer", "master"} {
			c := s.call("GET", policyAPI+"/namespaces/hammer/policybindings/"+container, nil)
			if c.at("roleBindings", name) != nil {
				n++
			}
		}
		won := 0
		for _, c := range codes {
			if c == 201 {
				won++
			} else if c != 409 {
				t.Errorf("codes %v", codes)
			}
		}
		if n > 1 || n != won {
			t.Fatalf("round %d: %d bindings are stored, codes %v", round, n, codes)
		}
	}
}

// PO-4: a container is deleted while an entry is added: either the entry is refused or the container stays.
func TestDeletingContainerWhileAdding(t *testing.T) {
	s := serve(t, &world{})
	for round := range runs(15) {
		ns := fmt.Sprintf("ns-%d", round)
		s.containers(ns)
		var deleted, added answer
		inParallel(t, 2, func(w int) (err error) {
			if w == 0 {
				deleted, err = s.try("DELETE", policyAPI+"/namespaces/"+ns+"/policies/default", nil)
			} else {
				added, err = s.try("POST", rolesIn(ns), roleYAML("a", readPods))
			}
			return err
		})
		if deleted.code/100 == 2 && added.code/100 == 2 {
			t.Fatalf("round %d: a role was added to a container that was deleted", round)
		}
		if deleted.code/100 != 2 && added.code/100 != 2 {
			t.Fatalf("round %d: neither: %d %s, %d %s", round, deleted.code, deleted.message(), added.code, added.message())
		}
	}
}
