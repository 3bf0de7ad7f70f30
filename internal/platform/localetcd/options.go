package localetcd

import (
	"cmp"
	"net/url"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"google.golang.org/grpc"
)

const (
	memberName = "proviso"
	// segmentBytes is preallocated twice. etcd's own 64 MB is for clusters that write all the time.
	segmentBytes = 8 << 20
	defaultQuota = 8 << 30
	defaultTick  = 20 * time.Millisecond
	// defragMegabytes of free space in the database are given back when starting.
	defragMegabytes = 64
)

// segments sets etcd's only knob for the size, which is a variable of the whole process.
var segments sync.Once

func (e *Etcd) options(cfg Config, where listener) *embed.Config {
	segments.Do(func() { wal.SegmentSizeBytes = segmentBytes })
	c := embed.NewConfig()
	c.Name, c.Dir = memberName, e.dir
	c.ListenClientUrls = []url.URL{where.url}
	c.AdvertiseClientUrls = []url.URL{where.url}
	if where.secure() {
		c.ClientTLSInfo = transport.TLSInfo{CertFile: cfg.TLS.ServerCert, KeyFile: cfg.TLS.ServerKey,
			TrustedCAFile: cfg.TLS.CACert, ClientCertAuth: true}
	}
	// A member has a peer address even when nobody listens there. It is recorded in the data, and must not depend on
	// where that lies, or a directory could not be moved.
	c.ListenPeerUrls = nil
	c.AdvertisePeerUrls = []url.URL{{Scheme: "unix", Host: "none"}}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	// There is nobody to wait for in an election: it takes as few ticks as etcd lets it.
	c.TickMs = uint(cmp.Or(cfg.Tick, defaultTick) / time.Millisecond)
	c.ElectionMs = 5 * c.TickMs
	// No follower ever catches up from the log in memory.
	c.SnapshotCatchUpEntries = 100
	c.QuotaBackendBytes = cfg.QuotaBytes
	if c.QuotaBackendBytes == 0 {
		c.QuotaBackendBytes = defaultQuota
	}
	// The API server compacts every few minutes; this is for when it is told not to.
	c.AutoCompactionMode, c.AutoCompactionRetention = embed.CompactorModePeriodic, "1h"
	c.BootstrapDefragThresholdMegabytes = defragMegabytes
	c.EnableGRPCGateway = false
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(e.log.logger())
	c.ServiceRegister = func(server *grpc.Server) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.servers = append(e.servers, server)
	}
	return c
}
