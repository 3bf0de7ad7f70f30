package replicas

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apiserver/pkg/storage/storagebackend"

	"proviso.dev/proviso/internal/platform/etcdclient"
	"proviso.dev/proviso/internal/state/timekeeper"
)

// Attend registers this server with its replicas on the etcd of its storage, and follows what they agree on. The
// returned function ends that and gives the registration back.
func (m *Member) Attend(ctx context.Context, storage storagebackend.Config) (leave func(), err error) {
	client, err := etcdclient.Connect(storage.Transport)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	if err := m.Join(ctx, client, storage.Prefix); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	board := timekeeper.Board{Client: client, Prefix: storage.Prefix, ID: m.cfg.ID, Host: m.cfg.Host}
	if m.cfg.Agree && m.cfg.Clock != nil {
		if err := m.cfg.Clock.Agree(ctx, board); err != nil {
			m.Leave()
			return nil, errors.Join(fmt.Errorf("agreeing on the time in etcd: %w", err), client.Close())
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it serves until the last request is done
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	if m.cfg.Clock != nil {
		running.Go(func() { m.cfg.Clock.Follow(ctx, board) })
	}
	return func() {
		cancel()
		running.Wait()
		m.Leave()
		_ = client.Close()
	}, nil
}
