package sidecar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	"proviso.dev/proviso/internal/platform/etcdclient"
	"proviso.dev/proviso/internal/state/timekeeper"
)

func newClock(s *settings) *timekeeper.Keeper {
	return timekeeper.New(timekeeper.Machine(), cmp.Or(s.MaxClockSkew.Duration, timekeeper.DefaultSkew))
}

// identity identifies this sidecar among those of other machines. The one on an embedded etcd is its own successor,
// after kill -9 too, and need not wait for itself.
func (s *settings) identity(host string) string {
	if len(s.Etcd.Servers) == 0 {
		return "embedded-etcd"
	}
	return host + "_" + string(uuid.NewUUID())
}

// keepTime compares the clock with the largest instant that was seen, and with the clocks of the other sidecars, in the
// etcd that holds the policy (TM-4, TM-16). What it returns ends that: once the last request is done.
func (s *sidecar) keepTime(ctx context.Context, storage *storagebackend.Config, agree bool) (leave func(), err error) {
	client, err := etcdclient.Connect(storage.Transport)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	host, _ := os.Hostname()
	board := timekeeper.Board{Client: client, Prefix: storage.Prefix, ID: s.settings.identity(host), Host: host}
	if agree {
		if err := s.clock.Agree(ctx, board); err != nil {
			return nil, errors.Join(fmt.Errorf("agreeing on the time in etcd: %w", err), client.Close())
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { s.clock.Follow(ctx, board) })
	running.Go(func() { s.clock.Report(ctx, s.settings.MasterNamespace, silent{}) })
	return func() {
		cancel()
		running.Wait()
		_ = client.Close()
	}, nil
}

// silent discards events: the sidecar writes none in the cluster, and the log already has the state of the clock.
type silent struct{}

// Warn implements timekeeper.Teller.
func (silent) Warn(runtime.Object, string, string) {}

// Inform implements timekeeper.Teller.
func (silent) Inform(runtime.Object, string, string) {}
