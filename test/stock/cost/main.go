// Command cost measures what a side-car costs (SC-14): beside a stock kube-apiserver alone, and beside one whose
// webhooks answer without looking. All three run at the same time and take turns.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"proviso.dev/proviso/internal/pki"
	"proviso.dev/proviso/test/stock"
)

func main() {
	rounds, each := flag.Int("rounds", 20, "turns of each server"), flag.Int("each", 100, "requests of each kind in a turn")
	bindings := flag.Int("bindings", 20000, "role bindings for the memory of the side-car")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("PROVISO_BIN"), *rounds, *each, *bindings); err != nil {
		fmt.Fprintln(os.Stderr, "cost:", err)
		os.Exit(1)
	}
}

// callers are those whose requests are measured: one whom policy does not concern, and one whom the webhooks are not
// asked about.
var callers = []struct{ name, user string }{{"an RBAC user", "dev"}, {"an exempt caller", "system:kube-scheduler"}}

var requests = []string{"get", "create"}

// stack is an API server, with what answers its webhooks.
type stack struct {
	name    string
	pair    *stock.Pair
	servers []*exec.Cmd // etcd, API server, side-car
	admin   *rest.Config
	clients []*rest.Config
	// took is how long requests took, by caller and request; cpu is the processor time of the API server and of the
	// side-car.
	took map[string][]time.Duration
	cpu  map[string][2]time.Duration
	made int
}

func run(ctx context.Context, proviso string, rounds, each, bindings int) (err error) {
	if proviso == "" {
		return errors.New("PROVISO_BIN is needed: run `make bench-sidecar`")
	}
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
	for _, name := range []string{"alone", "idle webhooks", "side-car"} {
		s := &stack{name: name, took: map[string][]time.Duration{}, cpu: map[string][2]time.Duration{}}
		stacks = append(stacks, s)
		if err := s.start(ctx, proviso, filepath.Join(dir, strings.Fields(name)[0])); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for round := range rounds + 1 { // the first one warms up
		for i := range stacks {
			s := stacks[(i+round)%len(stacks)]
			if err := s.turn(ctx, each, round > 0); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	report(stacks)
	last := stacks[len(stacks)-1]
	began, before := time.Now(), memory(last.servers[2].Process.Pid)
	if err := last.bind(ctx, bindings); err != nil {
		return err
	}
	fmt.Printf("memory of the side-car: %d MB, and %d MB with %d role bindings, which were written in %s (goal: at most 250 MB)\n",
		before>>20, memory(last.servers[2].Process.Pid)>>20, bindings, time.Since(began).Round(time.Second))
	return nil
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
	case "alone":
		commands[1] = s.pair.Alone()
	case "side-car":
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
	if s.name == "side-car" {
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
		data, err := pki.IssueClient(s.pair.Files, pki.ClientRequest{User: c.user, TTL: time.Hour, Server: s.pair.URL()})
		if err != nil {
			return err
		}
		config, err := clientcmd.RESTConfigFromKubeConfig(data)
		if err != nil {
			return err
		}
		s.clients = append(s.clients, config)
	}
	deadline := time.Now().Add(time.Minute)
	client, err := rest.HTTPClientFor(s.clients[0])
	for err == nil {
		if err = send(ctx, client, http.MethodPost, s.configMaps(), `{"metadata":{"name":"x"},"data":{"a":"b"}}`); err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(100 * time.Millisecond) // until the binding is known
		err = ctx.Err()
	}
	return err
}

func (s *stack) configMaps() string { return s.pair.URL() + "/api/v1/namespaces/cost/configmaps" }

// turn sends requests one after the other.
func (s *stack) turn(ctx context.Context, each int, count bool) error {
	for i, c := range callers {
		client, err := rest.HTTPClientFor(s.clients[i])
		if err != nil {
			return err
		}
		for _, request := range requests {
			key, before := c.name+", "+request, s.used()
			for range each {
				method, url, body := http.MethodGet, s.configMaps()+"/x", ""
				if s.made++; request == "create" {
					method, url, body = http.MethodPost, s.configMaps(), fmt.Sprintf(`{"metadata":{"name":"x-%d"},"data":{"a":"b"}}`, s.made)
				}
				began := time.Now()
				if err := send(ctx, client, method, url, body); err != nil {
					return err
				}
				if took := time.Since(began); count {
					s.took[key] = append(s.took[key], took)
				}
			}
			if after := s.used(); count {
				sum := s.cpu[key]
				for n := range sum {
					sum[n] += after[n] - before[n]
				}
				s.cpu[key] = sum
			}
		}
	}
	return nil
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

func report(stacks []*stack) {
	alone, idle, car := stacks[0], stacks[1], stacks[2]
	for _, c := range callers {
		for _, request := range requests {
			key := c.name + ", " + request
			a, i, s := median(alone.took[key]), median(idle.took[key]), median(car.took[key])
			n := time.Duration(len(car.took[key]))
			fmt.Printf("%-26s alone %s, idle webhooks +%s, side-car +%s", key, short(a), short(i-a), short(s-a))
			if c.user == "dev" {
				fmt.Printf(", %.2f times the idle ones (goal: at most 1.5)", float64(s-a)/float64(i-a))
			} else {
				fmt.Print(" (goal: at most 50µs)")
			}
			fmt.Printf("; processor time of the API server %s alone, %s with idle webhooks, %s with the side-car, which itself takes %s\n",
				short(alone.cpu[key][0]/n), short(idle.cpu[key][0]/n), short(car.cpu[key][0]/n), short(car.cpu[key][1]/n))
		}
	}
}

func short(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

func median(all []time.Duration) time.Duration {
	all = slices.Clone(all)
	slices.Sort(all)
	return all[len(all)/2]
}
