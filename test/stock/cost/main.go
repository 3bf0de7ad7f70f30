// Command cost measures what a sidecar costs (SC-14), in pairs of servers: a stock kube-apiserver alone, and beside it
// one with a sidecar, one whose webhooks are not asked since their match conditions say no, one whose webhooks answer
// without looking, and a second one alone, which shows what chance does. Both of a pair run at the same time, and the
// client sends a few requests to one and then to the other, in an order that is drawn, so that what disturbs one
// disturbs the other. Servers of the same kind differ by chance for as long as they run, so that each pair is started
// several times.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"proviso.dev/proviso/internal/platform/pki"
	"proviso.dev/proviso/test/stock"
)

func main() {
	sets := flag.Int("sets", 3, "how often each pair is started")
	var l load
	flag.IntVar(&l.rounds, "rounds", 6, "rounds of each start; none for the memory alone")
	flag.IntVar(&l.each, "each", 100, "requests of each kind in a round")
	flag.DurationVar(&l.breath, "breath", 2*time.Millisecond, "how long a server has for what it does after its answer, before the next request")
	with := flag.String("with", strings.Join(compared, "; "), "what is measured beside a server alone")
	bindings := flag.Int("bindings", 20000, "role bindings for the memory of the sidecar; none to leave that out")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("PROVISO_BIN"), strings.Split(*with, "; "), *sets, l, *bindings); err != nil {
		fmt.Fprintln(os.Stderr, "cost:", err)
		os.Exit(1)
	}
}

// callers are those whose requests are measured: one whom policy does not concern, one whom the webhooks are not asked
// about, and one whom kube-apiserver lets in before it asks any authorizer.
var callers = []struct {
	name, user string
	groups     []string
	exempt     bool
}{
	{name: "an RBAC user", user: "dev"},
	{name: "an exempt caller", user: "system:kube-scheduler", exempt: true},
	{name: "an administrator", user: "admin", groups: []string{"system:masters"}, exempt: true},
}

var requests = []string{"get", "create", "dry-run create"}

// stack is an API server, with what answers its webhooks.
type stack struct {
	name    string
	pair    *stock.Pair
	servers []*exec.Cmd // etcd, API server, sidecar
	admin   *rest.Config
	clients []*rest.Config
	open    []*http.Client
	made    int
	*figures
}

// figures are how long requests took, by caller and request, and the processor time of the API server and of the
// sidecar. The same request has the same place on both sides of a pair.
type figures struct {
	took map[string][]time.Duration
	cpu  map[string][2]time.Duration
}

func newFigures() *figures {
	return &figures{took: map[string][]time.Duration{}, cpu: map[string][2]time.Duration{}}
}

// load is what is sent to a pair each time it is started.
type load struct {
	rounds, each int
	breath       time.Duration
}

func run(ctx context.Context, proviso string, with []string, sets int, l load, bindings int) error {
	if proviso == "" {
		return errors.New("PROVISO_BIN is needed: run `go run ./hack/prove bench-sidecar`")
	}
	if l.rounds > 0 {
		all := map[string]*pair{}
		for set := range sets {
			for _, name := range with {
				if !slices.Contains(compared, name) {
					return fmt.Errorf("-with %q: want some of %q", name, compared)
				}
				if all[name] == nil {
					all[name] = &pair{newFigures(), newFigures()}
				}
				if err := all[name].measure(ctx, proviso, name, set%2 == 0, l); err != nil {
					return err
				}
				fmt.Fprintf(os.Stderr, "%d of %d: %s\n", set+1, sets, name)
			}
		}
		report(all, sets)
	}
	if bindings == 0 {
		return nil
	}
	return remember(ctx, proviso, bindings)
}

// pair is what was measured at a server alone and at another one beside it.
type pair struct{ alone, other *figures }

// measure starts a pair, sends requests to it, and stops it. Who is started first is slower by some microseconds.
func (p *pair) measure(ctx context.Context, proviso, name string, aloneFirst bool, l load) error {
	names, all := []string{alone, name}, []*figures{p.alone, p.other}
	if !aloneFirst {
		slices.Reverse(names)
		slices.Reverse(all)
	}
	return started(ctx, proviso, names, func(stacks []*stack) error {
		for i, s := range stacks {
			s.figures = all[i]
		}
		for round := range l.rounds + 1 { // the first one warms up
			if err := turn(ctx, stacks, l, round > 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// remember prints the memory of a sidecar.
func remember(ctx context.Context, proviso string, bindings int) error {
	return started(ctx, proviso, []string{beside}, func(stacks []*stack) error {
		car := stacks[0]
		began, before := time.Now(), memory(car.servers[2].Process.Pid)
		if err := car.bind(ctx, bindings); err != nil {
			return err
		}
		after := memory(car.servers[2].Process.Pid)
		fmt.Printf("memory of the sidecar: %s, and %s with %d role bindings, which were written in %s (goal: at most 250 MB)\n", before, after, bindings, time.Since(began).Round(time.Second))
		return nil
	})
}

// started has servers of these names run while something is done.
func started(ctx context.Context, proviso string, names []string, do func([]*stack) error) error {
	dir, err := os.MkdirTemp("", "pc")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	var stacks []*stack
	defer func() {
		for _, s := range stacks {
			s.stop()
		}
	}()
	for i, name := range names {
		s := &stack{name: name}
		stacks = append(stacks, s)
		if err := s.start(ctx, proviso, filepath.Join(dir, strconv.Itoa(i))); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return do(stacks)
}

func (s *stack) start(ctx context.Context, proviso, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var err error
	if s.pair, err = stock.Prepare(stock.Config{Proviso: proviso, Dir: dir}); err != nil {
		return err
	}
	commands := [][]string{s.pair.Etcd, s.pair.Server}
	switch s.name {
	case alone, again:
		commands[1] = s.pair.Alone()
	case never:
		if err := neverAsked(s.pair); err != nil {
			return err
		}
	case beside:
		commands = append(commands, s.pair.Car)
	default:
		if err := idle(ctx, s.pair); err != nil {
			return err
		}
	}
	for _, c := range commands {
		log, err := os.Create(filepath.Join(dir, fmt.Sprintf("log%d", len(s.servers))))
		if err != nil {
			return err
		}
		cmd := exec.Command(c[0], c[1:]...)
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			return err
		}
		s.servers = append(s.servers, cmd)
	}
	if s.admin, err = clientcmd.BuildConfigFromFlags("", s.pair.Kubeconfig); err != nil {
		return err
	}
	s.admin.QPS = -1
	steps := [][]string{{"kubectl", "--kubeconfig", s.pair.Kubeconfig, "get", "--raw", "/readyz"}}
	if s.name == beside {
		steps = append(steps, []string{"kubectl", "--kubeconfig", s.pair.Kubeconfig, "apply", "-f", filepath.Join(s.pair.Side, "cluster.yaml")}, []string{"sidecar", "check", "--dir", s.pair.Side})
	}
	for _, step := range steps {
		for exec.CommandContext(ctx, proviso, step...).Run() != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			time.Sleep(200 * time.Millisecond) // until it is there
		}
	}
	return s.seed(ctx)
}

// seed lets the callers read and write config maps.
func (s *stack) seed(ctx context.Context) error {
	admin, err := rest.HTTPClientFor(s.admin)
	if err != nil {
		return err
	}
	for path, body := range map[string]string{
		"/api/v1/namespaces":                              `{"metadata":{"name":"cost"}}`,
		"/apis/rbac.authorization.k8s.io/v1/clusterroles": `{"metadata":{"name":"cost"},"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get","list","create"]}]}`,
		"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings": `{"metadata":{"name":"cost"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cost"},
			"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"dev"},{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"system:kube-scheduler"}]}`,
	} {
		if err := send(ctx, admin, http.MethodPost, s.pair.URL()+path, body); err != nil {
			return err
		}
	}
	for _, c := range callers {
		data, err := pki.IssueClient(s.pair.Files, pki.ClientRequest{User: c.user, Groups: c.groups, TTL: time.Hour, Server: s.pair.URL()})
		if err != nil {
			return err
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(data)
		if err != nil {
			return err
		}
		s.clients = append(s.clients, config)
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			return err
		}
		s.open = append(s.open, client)
	}
	deadline := time.Now().Add(time.Minute)
	for err == nil {
		if err = send(ctx, s.open[0], http.MethodPost, s.configMaps(), `{"metadata":{"name":"x"},"data":{"a":"b"}}`); err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(100 * time.Millisecond) // until the binding is known
		err = ctx.Err()
	}
	return err
}

func (s *stack) configMaps() string { return s.pair.URL() + "/api/v1/namespaces/cost/configmaps" }

// streak is how many requests the client sends to one server before it goes on to the other.
const streak = 10

// turn sends requests one after the other, some to each stack, in an order that is drawn.
func turn(ctx context.Context, stacks []*stack, l load, count bool) error {
	for i, c := range callers {
		for _, request := range requests {
			key := c.name + ", " + request
			var before [][2]time.Duration
			for _, s := range stacks {
				before = append(before, s.used())
			}
			for sent := 0; sent < l.each; sent += streak {
				for _, at := range rand.Perm(len(stacks)) {
					s := stacks[at]
					took, err := s.some(ctx, s.open[i], request, min(streak, l.each-sent), l.breath)
					if err != nil {
						return fmt.Errorf("%s: %w", s.name, err)
					}
					if count {
						s.took[key] = append(s.took[key], took...)
					}
				}
			}
			if !count {
				continue
			}
			for at, s := range stacks {
				after, sum := s.used(), s.cpu[key]
				for n := range sum {
					sum[n] += after[n] - before[at][n]
				}
				s.cpu[key] = sum
			}
		}
	}
	return nil
}

// some sends requests one after the other, and says how long each took.
func (s *stack) some(ctx context.Context, client *http.Client, request string, n int, breath time.Duration) ([]time.Duration, error) {
	var all []time.Duration
	for range n {
		time.Sleep(breath)
		took, err := s.one(ctx, client, request)
		if err != nil {
			return nil, err
		}
		all = append(all, took)
	}
	return all, nil
}

// one sends a request, and says how long it took.
func (s *stack) one(ctx context.Context, client *http.Client, request string) (time.Duration, error) {
	method, url, body := http.MethodGet, s.configMaps()+"/x", ""
	if request != "get" {
		s.made++
		method, url, body = http.MethodPost, s.configMaps(), fmt.Sprintf(`{"metadata":{"name":"x-%d"},"data":{"a":"b"}}`, s.made)
	}
	if request == "dry-run create" {
		url += "?dryRun=All"
	}
	began := time.Now()
	err := send(ctx, client, method, url, body)
	return time.Since(began), err
}

func send(ctx context.Context, client *http.Client, method, url, body string) error {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, text.String())
	}
	return nil
}

func (s *stack) stop() {
	for _, cmd := range slices.Backward(s.servers) {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}
