package localetcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"google.golang.org/grpc"
)

// grace is how long Close waits for open requests. Watches never end by themselves, and what was acknowledged is on
// disk, so that waiting longer gains nothing.
const grace = 500 * time.Millisecond

// Config says where etcd keeps its data.
type Config struct {
	// Dir holds the data and the socket. It is created if it is missing and made private. The caller makes sure that no
	// other process uses it.
	Dir string
	// TLS is used where a unix socket is impossible; without it that is an error.
	TLS TLS
	// QuotaBytes bounds the database; writes fail beyond it. Default: 8 GiB.
	QuotaBytes int64
	// Tick is how often it wakes up: it takes one to five of them to start. Default: 20 ms.
	Tick time.Duration
}

// TLS names the files for mutual TLS. The client's files are what ClientTLS hands to callers.
type TLS struct {
	CACert                string
	ServerCert, ServerKey string
	ClientCert, ClientKey string
}

func (t TLS) complete() bool {
	return t.CACert != "" && t.ServerCert != "" && t.ServerKey != "" && t.ClientCert != "" && t.ClientKey != ""
}

// Etcd is a running etcd.
type Etcd struct {
	dir       string
	embedded  *embed.Etcd
	endpoint  string
	clientTLS TLS
	log       *journal

	// servers are the gRPC servers, kept to cut off what does not end within the grace period.
	mu      sync.Mutex
	servers []*grpc.Server

	errs    chan error
	closing chan struct{}
	once    sync.Once
	// broken is set when etcd has given up while running. It then cannot be closed: it holds its own locks.
	broken atomic.Bool
}

// Start returns once etcd answers requests, or with an error that names the directory. If the context ends
// meanwhile, etcd is stopped again as soon as it has read its data; afterwards the context does not matter.
func Start(ctx context.Context, cfg Config) (*Etcd, error) {
	if cfg.Dir == "" {
		return nil, errors.New("etcd directory is empty; name one")
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("etcd directory %s is not usable: %w", cfg.Dir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("etcd directory %s cannot be created: %w", dir, err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("etcd directory %s cannot be made private: %w", dir, err)
	}
	e := &Etcd{dir: dir, errs: make(chan error, 1), closing: make(chan struct{}), log: newJournal()}
	if err := checkRestored(dir); err != nil {
		return nil, err
	}
	where, err := chooseListener(dir, cfg.TLS)
	if err != nil {
		return nil, err
	}
	if err := checkHistory(dir); err != nil {
		return nil, err
	}
	if err := e.startEmbedded(e.options(cfg, where)); err != nil {
		return nil, cannotStart(dir, err)
	}
	select {
	case <-e.embedded.Server.ReadyNotify():
	case text := <-e.log.failed:
		// Closing would wait for the goroutine that gave up.
		return nil, cannotStart(dir, errors.New(text))
	case err := <-e.embedded.Err():
		e.Close()
		return nil, fmt.Errorf("etcd in %s stopped while starting: %w", dir, err)
	case <-e.embedded.Server.StopNotify():
		e.Close()
		return nil, fmt.Errorf("etcd in %s stopped while starting", dir)
	case <-ctx.Done():
		e.Close()
		return nil, fmt.Errorf("etcd in %s did not become ready: %w", dir, context.Cause(ctx))
	}
	if err := where.protect(); err != nil {
		e.Close()
		return nil, fmt.Errorf("etcd socket in %s cannot be made private: %w", dir, err)
	}
	e.endpoint = where.endpoint(e.embedded.Clients[0].Addr())
	if where.secure() {
		e.clientTLS = TLS{CACert: cfg.TLS.CACert, ClientCert: cfg.TLS.ClientCert, ClientKey: cfg.TLS.ClientKey}
	}
	e.log.enter(running)
	go e.watch()
	return e, nil
}

func cannotStart(dir string, err error) error {
	return fmt.Errorf("etcd cannot start with the data in %s: %w; if the data is damaged, restore the directory from a backup or remove it to start with an empty store", dir, err)
}

// startEmbedded turns the ways in which etcd gives up over damaged files (it panics, also on goroutines of its own)
// into errors. What it leaves open then is closed by the end of the process, which a caller that gets an error heads
// for.
func (e *Etcd) startEmbedded(cfg *embed.Config) error {
	done := make(chan error, 1)
	go func() {
		err := errors.New("it gave up without a reason")
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("its files are damaged (%v)", p)
				// etcd stumbles over what it complained about before.
				if text := e.log.worst.Load(); text != nil {
					err = errors.New(*text)
				}
			}
			done <- err
		}()
		e.embedded, err = embed.StartEtcd(cfg)
	}()
	var err error
	select {
	case text := <-e.log.failed:
		return errors.New(text)
	case err = <-done:
	}
	select {
	case text := <-e.log.failed:
		return errors.New(text)
	default:
		return err
	}
}

// watch reports an end that nobody asked for.
func (e *Etcd) watch() {
	var err error
	select {
	case <-e.closing:
		return
	case text := <-e.log.failed:
		e.broken.Store(true)
		e.errs <- fmt.Errorf("etcd in %s cannot go on: %s; what was acknowledged is safe: fix the cause, such as a full disk, and start again", e.dir, text)
		return
	case err = <-e.embedded.Err():
	case <-e.embedded.Server.StopNotify():
	}
	select {
	case <-e.closing:
	default:
		if err == nil {
			err = errors.New("it gave no reason")
		}
		e.errs <- fmt.Errorf("etcd in %s stopped unexpectedly: %w", e.dir, err)
	}
}

// Endpoints are the values for --etcd-servers.
func (e *Etcd) Endpoints() []string { return []string{e.endpoint} }

// ClientTLS names the files for --etcd-cafile, --etcd-certfile and --etcd-keyfile; all empty on a unix socket.
func (e *Etcd) ClientTLS() TLS { return e.clientTLS }

// Err yields one error if etcd stops without Close.
func (e *Etcd) Err() <-chan error { return e.errs }

// Close stops etcd and returns when its files are closed. Call it after the clients are done: it cuts them off. It may
// be called more than once. One that has given up is left to the end of the process.
func (e *Etcd) Close() {
	if e.broken.Load() {
		return
	}
	e.once.Do(func() {
		close(e.closing)
		e.log.enter(closing)
		timer := time.AfterFunc(grace, func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			for _, server := range e.servers {
				server.Stop()
			}
		})
		defer timer.Stop()
		// One that never became ready must be stopped first: closing waits for listeners that wait for it to be ready.
		select {
		case <-e.embedded.Server.ReadyNotify():
		default:
			e.embedded.Server.Stop()
		}
		e.embedded.Close()
	})
}
