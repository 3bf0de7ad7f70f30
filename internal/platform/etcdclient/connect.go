package etcdclient

import (
	"context"
	"net"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

// Connect connects as the storage does.
func Connect(t storagebackend.TransportConfig) (*clientv3.Client, error) {
	cfg := clientv3.Config{
		Endpoints: t.ServerList, DialTimeout: 20 * time.Second, DialKeepAliveTime: 30 * time.Second, DialKeepAliveTimeout: 10 * time.Second,
		Logger: zap.NewNop(),
	}
	if t.CertFile != "" || t.KeyFile != "" || t.TrustedCAFile != "" {
		var err error
		if cfg.TLS, err = (transport.TLSInfo{CertFile: t.CertFile, KeyFile: t.KeyFile, TrustedCAFile: t.TrustedCAFile}).ClientConfig(); err != nil {
			return nil, err
		}
	}
	if t.EgressLookup != nil {
		dial, err := t.EgressLookup(egressselector.Etcd.AsNetworkContext())
		if err != nil {
			return nil, err
		}
		if dial != nil {
			cfg.DialOptions = append(cfg.DialOptions, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				return dial(ctx, "tcp", addr)
			}))
		}
	}
	return clientv3.New(cfg)
}
