package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"

	"proviso.dev/proviso/internal/features/dynamicaudit"
	"proviso.dev/proviso/internal/hosts/apiserver/controllers"
	"proviso.dev/proviso/internal/platform/buildinfo"
	"proviso.dev/proviso/internal/platform/localetcd"
	"proviso.dev/proviso/internal/platform/pki"
)

// shutdownTimeout bounds how long requests in flight may take once the server was told to stop, so that Ctrl-C ends it
// within ten seconds. A drop-in keeps kube-apiserver's own.
const shutdownTimeout = 5 * time.Second

// Run serves until the context ends. What it starts it stops again, in reverse order.
func Run(ctx context.Context, o *Options, out io.Writer) error {
	if err := o.validateOwn(); err != nil {
		return err
	}
	if !o.logToFile() && o.Kube.Logs != nil && o.Kube.Logs.Format == "json" {
		out = logLines{} // a collector of JSON can use nothing else
	}
	p := newProgress(out)
	title := func() { p.Say("proviso %s on Kubernetes %s", buildinfo.Get().Version, buildinfo.Get().Kubernetes) }

	var files *pki.Files
	abandoned := false
	if !o.dropIn() {
		lock, err := pki.LockDataDir(o.DataDir)
		if err != nil {
			return err
		}
		defer func() { _ = lock.Release() }()
		o.DataDir = lock.Dir()
		o.defaultNetwork()
		if err := o.listen(ctx); err != nil {
			return err
		}
		// Upstream closes the listener once it serves; until then it is ours to close.
		defer func() {
			if !abandoned { // closing it under a server that still runs would be a panic there
				_ = o.Kube.SecureServing.Listener.Close()
			}
		}()
		title()
		if files, err = o.certificates(ctx, p); err != nil {
			return err
		}
	} else {
		title()
	}

	var etcd *localetcd.Etcd
	etcdFailed := make(<-chan error)
	if !o.external() {
		begin := time.Now()
		var err error
		if etcd, err = o.startEtcd(ctx, files); err != nil {
			return err
		}
		// Only after the API server has returned: its last writes must reach the store.
		defer etcd.Close()
		etcdFailed = etcd.Err()
		o.useEtcd(etcd)
		p.Done("etcd", "embedded, data in %s (%s)", o.path("etcd"), since(begin))
	} else {
		p.Done("etcd", "%s", strings.Join(o.Kube.Etcd.StorageConfig.Transport.ServerList, ", "))
	}

	opts, err := o.complete(ctx)
	if err != nil {
		return err
	}
	opts.sayWhatIsOff(p)
	for _, warning := range []string{opts.authz.ModesAssumed(), opts.authz.DeniesVoided()} {
		if warning != "" {
			p.Say("%s", warning)
			klog.Warning(warning)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	etcdGone := make(chan struct{})
	go func() {
		select {
		case err := <-etcdFailed:
			cancel(fmt.Errorf("embedded etcd stopped: %w", err))
			close(etcdGone)
		case <-ctx.Done():
		}
	}()
	served := make(chan error, 1)
	go func() { served <- serve(ctx, opts, files, p) }()
	if abandoned, err = awaitServer(ctx, served, etcdGone); err != nil {
		return err
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	p.Say("Stopped.")
	return nil
}

// sayWhatIsOff names the disabled systems, so operators do not rely on them (SV-13).
func (c *completed) sayWhatIsOff(p *progress) {
	var off []string
	for _, f := range c.own.lineup.Gates() {
		if !c.systems.Has(f) {
			off = append(off, string(f))
		}
	}
	if len(off) > 0 {
		p.Done("off", "%s (--feature-gates)", strings.Join(off, ", "))
	}
	if c.systems.Has(dynamicaudit.Gate) && c.own.spoolDir() == "" {
		p.Done("off", "dynamic audit: events need a place to wait for their sinks; name one with --audit-dynamic-spool-dir")
	}
}

// awaitServer waits for the server to end. Without its etcd it cannot finish what it has begun: it is then abandoned,
// for the process to end, if it takes long.
func awaitServer(ctx context.Context, served <-chan error, etcdGone <-chan struct{}) (abandoned bool, err error) {
	select {
	case err := <-served:
		return false, err
	case <-etcdGone:
	}
	select {
	case err := <-served:
		return false, errors.Join(context.Cause(ctx), err)
	case <-time.After(shutdownTimeout):
		return true, context.Cause(ctx)
	}
}

// certificates makes or reuses the PKI and keeps it fresh while the server runs.
func (o *Options) certificates(ctx context.Context, p *progress) (*pki.Files, error) {
	cfg, err := o.pkiConfig()
	if err != nil {
		return nil, err
	}
	files, err := pki.Ensure(o.DataDir, cfg)
	if err != nil {
		return nil, err
	}
	o.usePKI(files)
	state := "reused"
	switch n := len(files.Changed); {
	case n > 3:
		state = fmt.Sprintf("%d files written", n)
	case n > 0:
		state = "reused, updated " + baseNames(files.Changed)
	}
	p.Done("certificates", "%s (%s)", o.path("pki"), state)
	renewer, err := pki.NewRenewer(o.DataDir, cfg, func(changed []string, err error) {
		if err != nil {
			klog.ErrorS(err, "Renewing certificates")
			return
		}
		klog.InfoS("Renewed certificates", "files", changed)
	})
	if err != nil {
		return nil, err
	}
	go renewer.Run(ctx)
	return files, nil
}

// serve builds the servers and runs them.
func serve(ctx context.Context, opts *completed, files *pki.Files, p *progress) error {
	if opts.InformerName == nil {
		name, err := cache.NewInformerName("kube-apiserver")
		if err != nil {
			return err
		}
		opts.InformerName = name
	}
	c, err := newConfig(opts)
	if err != nil {
		return err
	}
	if c.stages != nil {
		defer c.stages.journal.Close()
	}
	leave, err := joinReplicas(ctx, opts, p)
	if err != nil {
		return err
	}
	defer leave()
	aggregator, err := c.assemble()
	if err != nil {
		return err
	}
	server := aggregator.GenericAPIServer
	if err := readyWhenAgreed(server, opts.member.Agreed); err != nil {
		return err
	}
	if !opts.own.dropIn() {
		server.ShutdownTimeout = shutdownTimeout
	}
	running, err := opts.own.startControllers(server, files)
	if err != nil {
		return err
	}
	go opts.announce(ctx, aggregator, running, files, p)
	prepared, err := aggregator.PrepareRun()
	if err != nil {
		return err
	}
	return prepared.Run(ctx)
}

// startControllers runs the selected controllers once the server is up. It returns nil when there are none.
func (o *Options) startControllers(server *genericapiserver.GenericAPIServer, files *pki.Files) (*controllers.Controllers, error) {
	if o.external() && !o.changed("controllers") {
		return nil, nil // a controller manager runs beside it
	}
	cfg := controllers.Config{
		RestConfig:  rest.CopyConfig(server.LoopbackClientConfig),
		Names:       o.Controllers,
		LeaderElect: true,
		Identity:    o.identity(),
	}
	if files != nil {
		cfg.ServiceAccountKeyFile = files.SAKey
		root, err := os.ReadFile(files.CACert)
		if err != nil {
			return nil, fmt.Errorf("root certificate for the controllers: %w", err)
		}
		cfg.RootCA = root
	}
	running, err := controllers.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("--controllers: %w", err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	err = server.AddPostStartHook("proviso-controllers", func(hook genericapiserver.PostStartHookContext) error {
		// The hook's own context ends when the server no longer listens, which is too late to give the lease back.
		ctx, cancel := context.WithCancel(hook)
		go func() {
			<-stop
			cancel()
		}()
		go func() {
			defer close(stopped)
			if err := running.Run(ctx); err != nil {
				klog.ErrorS(err, "Running the controllers")
			}
		}()
		return nil
	})
	if err != nil {
		return nil, err
	}
	// The server goes on serving until the controllers have stopped and given back their lease: the next one need not
	// wait for it.
	return running, server.AddPreShutdownHook("proviso-controllers", func() error {
		close(stop)
		select {
		case <-stopped:
		case <-time.After(shutdownTimeout / 2):
			klog.InfoS("The controllers did not stop in time; their lease ends by itself")
		}
		return nil
	})
}

// announce reports the steps of the start as they are reached, and then what to do next.
func (c *completed) announce(ctx context.Context, aggregator *aggregatorapiserver.APIAggregator, running *controllers.Controllers, files *pki.Files, p *progress) {
	server := aggregator.GenericAPIServer
	address := "https://" + server.SecureServingInfo.Listener.Addr().String()
	client, err := rest.HTTPClientFor(server.LoopbackClientConfig)
	if err != nil {
		klog.ErrorS(err, "Watching the start")
		return
	}
	notice := "" // what the last answer warned of
	reached := func(path string) error {
		return wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.LoopbackClientConfig.Host+path, nil)
			if err != nil {
				return false, err
			}
			resp, err := client.Do(req)
			if err != nil {
				return false, nil
			}
			defer func() { _ = resp.Body.Close() }()
			notice = strings.TrimPrefix(resp.Header.Get("Warning"), "299 - ")
			return resp.StatusCode == http.StatusOK, nil
		})
	}
	if reached("/livez/ping") != nil {
		return
	}
	p.Done("API server", "%s", address)
	if running != nil {
		select {
		case <-running.Started():
			p.Done("controllers", "%s", controllersLine(running))
		case <-ctx.Done():
			return
		}
	}
	if !c.stock() {
		if reached("/readyz/policy-snapshot") != nil {
			return
		}
		p.Done("policy", "snapshot synced")
		if notice != "" {
			p.Say("Warning: %s", strings.Trim(notice, `"`))
		}
	}
	if reached("/readyz") != nil {
		return
	}
	p.Say("Ready in %s.", p.Elapsed())
	if doubt := c.clock.Doubt(); doubt != "" && !c.stock() {
		p.Say("Warning: %s", doubt)
	}
	if files != nil {
		p.Say("\nTry it, in another terminal:\n\n  export KUBECONFIG=%s\n  proviso kubectl get namespaces\n", files.AdminKubeconfig)
	}
	// What the start took goes back to the machine at once, and not over minutes.
	debug.FreeOSMemory()
}

func controllersLine(running *controllers.Controllers) string {
	switch {
	case len(running.Names()) == 0:
		return "none"
	case !running.Running():
		return "run by another replica"
	}
	return strings.Join(running.Names(), ", ")
}

func baseNames(paths []string) string {
	names := make([]string, len(paths))
	for i, p := range paths {
		names[i] = filepath.Base(p)
	}
	return strings.Join(names, ", ")
}
