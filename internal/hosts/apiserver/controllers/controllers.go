package controllers

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
)

// quietness lowers the controllers' own messages: each announces its start, its end and its informers.
const quietness = 2

// Config says which controllers run, and as whom.
type Config struct {
	// RestConfig reaches the server, as a user who may do everything: the loopback client of the same process. Its
	// user agent is extended by the name of each controller.
	RestConfig *rest.Config
	// RootCA is the certificate of the server's authority in PEM form, published to every namespace.
	RootCA []byte
	// ServiceAccountKeyFile is the private key that signs service account tokens.
	ServiceAccountKeyFile string
	// Names chooses the controllers, in the language of --controllers. Default: all. One that "*" includes is left out
	// if what it needs (the key, the certificate) is not there; one that is named is an error then.
	Names []string
	// LeaderElect is for when several servers share one store.
	LeaderElect bool
	// Identity identifies the server. Default: the host name and a random part.
	Identity string

	// lease and discovery, in tests, are shorter.
	lease     timing
	discovery time.Duration
}

// discoveryPeriod is how soon a new resource is followed: that of a new CRD, say.
const discoveryPeriod = 10 * time.Second

// Controllers are the chosen controllers of one server.
type Controllers struct {
	cfg    Config
	key    crypto.Signer
	chosen []controller

	running   atomic.Bool
	startOnce sync.Once
	startedCh chan struct{}
}

// New checks everything that can be wrong without asking the server.
func New(cfg Config) (*Controllers, error) {
	if cfg.RestConfig == nil {
		return nil, errors.New("controllers need a client configuration")
	}
	if len(cfg.Names) == 0 {
		cfg.Names = []string{"*"}
	}
	choice, err := parseChoice(cfg.Names)
	if err != nil {
		return nil, err
	}
	c := &Controllers{startedCh: make(chan struct{})}
	for _, candidate := range all {
		if !choice.enabled(candidate.name) {
			continue
		}
		if candidate.lacks != nil {
			if err := candidate.lacks(cfg); err != nil && choice.explicit[candidate.name] {
				return nil, fmt.Errorf("controller %s cannot run: %w", candidate.name, err)
			} else if err != nil {
				continue
			}
		}
		c.chosen = append(c.chosen, candidate)
	}
	if len(cfg.RootCA) > 0 {
		if _, err := certutil.ParseCertsPEM(cfg.RootCA); err != nil {
			return nil, fmt.Errorf("root certificate for the controllers is not usable: %w", err)
		}
	}
	if cfg.ServiceAccountKeyFile != "" {
		key, err := keyutil.PrivateKeyFromFile(cfg.ServiceAccountKeyFile)
		if err != nil {
			return nil, fmt.Errorf("service account key %s is not usable: %w", cfg.ServiceAccountKeyFile, err)
		}
		var ok bool
		if c.key, ok = key.(crypto.Signer); !ok {
			return nil, fmt.Errorf("service account key %s is not usable: a %T cannot sign", cfg.ServiceAccountKeyFile, key)
		}
	}
	if cfg.Identity == "" {
		host, _ := os.Hostname()
		cfg.Identity = host + "_" + string(uuid.NewUUID())
	}
	if cfg.lease == (timing{}) {
		cfg.lease = defaultTiming
	}
	if cfg.discovery == 0 {
		cfg.discovery = discoveryPeriod
	}
	c.cfg = cfg
	return c, nil
}

// Names returns the controllers that were chosen.
func (c *Controllers) Names() []string {
	var out []string
	for _, controller := range c.chosen {
		out = append(out, controller.name)
	}
	return out
}

// Started is closed once the controllers run here, or another server is known to run them, or none was chosen.
func (c *Controllers) Started() <-chan struct{} { return c.startedCh }

// Running reports whether the controllers run in this process now.
func (c *Controllers) Running() bool { return c.running.Load() }

func (c *Controllers) started() { c.startOnce.Do(func() { close(c.startedCh) }) }

// Run runs the controllers until the context ends and all of them have stopped. What goes wrong meanwhile is logged and
// tried again: a server must not go down over its controllers.
func (c *Controllers) Run(ctx context.Context) error {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithName("controllers").V(quietness))
	if len(c.chosen) == 0 {
		c.started()
		<-ctx.Done()
		return nil
	}
	if c.cfg.LeaderElect {
		return c.campaign(ctx)
	}
	c.keepServing(ctx)
	return nil
}

// keepServing begins again when the controllers could not be started, which is normal while the server itself starts
// and worth a word in the log later.
func (c *Controllers) keepServing(ctx context.Context) {
	const first, last, normal = 100 * time.Millisecond, 5 * time.Second, 30 * time.Second
	logger, began, pause := klog.FromContext(ctx), time.Now(), first
	for ctx.Err() == nil {
		attempt := time.Now()
		err := c.serve(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if time.Since(began) > normal {
			logger.Error(err, "controllers begin again")
		} else {
			logger.Info("controllers begin again", "reason", err.Error())
		}
		if time.Since(attempt) > normal {
			pause = first
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
			pause = min(2*pause, last)
		}
	}
}
