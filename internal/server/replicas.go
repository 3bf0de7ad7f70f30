package server

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/util/keyutil"

	"proviso.dev/proviso/internal/authorize"
	"proviso.dev/proviso/internal/replicas"
)

// embeddedID is the identity of the one server that an embedded etcd has, whichever process that is: it is its own
// successor, after kill -9 too, and need not wait for itself.
const embeddedID = "embedded-etcd"

// identity tells this server from its replicas.
func (o *Options) identity() string {
	if !o.external() {
		return embeddedID
	}
	host, _ := os.Hostname()
	return host + "_" + string(uuid.NewUUID())
}

// newMember is this server among the replicas on its etcd (SV-14).
func newMember(opts *completed) (*replicas.Member, error) {
	settings := replicas.Settings{MasterNamespace: opts.own.PolicyMasterNamespace, Gates: map[string]bool{}}
	for f, on := range opts.gates {
		settings.Gates[string(f)] = on
	}
	keys, err := tokenKeys(opts)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	return replicas.New(replicas.Config{
		ID: opts.own.identity(), Host: host, Settings: settings, Agree: opts.own.Agree,
		Trust: func() (replicas.Trust, error) {
			trust := keys
			if file := opts.Authentication.ClientCert.ClientCA; file != "" {
				bundle, err := os.ReadFile(file)
				if err != nil {
					return trust, fmt.Errorf("--client-ca-file: %w", err)
				}
				if trust.ClientCAs, err = replicas.ClientCAs(bundle); err != nil {
					return trust, fmt.Errorf("--client-ca-file=%s: %w", file, err)
				}
			}
			return trust, nil
		},
	}), nil
}

// tokenKeys are the keys of service account tokens. They are read once, as upstream does.
func tokenKeys(opts *completed) (replicas.Trust, error) {
	var trust replicas.Trust
	if opts.ServiceAccountSigningEndpoint != "" || opts.ServiceAccountSigningKeyFile == "" {
		return trust, nil // somebody else signs, and says which keys are good
	}
	private, err := keyutil.PrivateKeyFromFile(opts.ServiceAccountSigningKeyFile)
	if err != nil {
		return trust, fmt.Errorf("--service-account-signing-key-file: %w", err)
	}
	signer, ok := private.(crypto.Signer)
	if !ok {
		return trust, fmt.Errorf("--service-account-signing-key-file=%s: a %T cannot sign", opts.ServiceAccountSigningKeyFile, private)
	}
	if trust.SigningKey, err = replicas.KeyFingerprint(signer.Public()); err != nil {
		return trust, fmt.Errorf("--service-account-signing-key-file: %w", err)
	}
	for _, file := range opts.Authentication.ServiceAccounts.KeyFiles {
		public, err := keyutil.PublicKeysFromFile(file)
		if err != nil {
			return trust, fmt.Errorf("--service-account-key-file: %w", err)
		}
		for _, key := range public {
			fingerprint, err := replicas.KeyFingerprint(key)
			if err != nil {
				return trust, fmt.Errorf("--service-account-key-file: %w", err)
			}
			trust.AcceptedKeys = append(trust.AcceptedKeys, fingerprint)
		}
	}
	return trust, nil
}

// joinReplicas registers this server with its replicas and follows what they agree on until the context ends. The
// returned function gives the registration back.
func joinReplicas(ctx context.Context, opts *completed, p *progress) (leave func(), err error) {
	storage := opts.Etcd.StorageConfig
	client, err := etcdClient(storage.Transport)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	if err := opts.member.Join(ctx, client, storage.Prefix); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	if changed := opts.member.Changed(); len(changed) > 0 {
		p.done("replicas", "the record was changed: %s", strings.Join(changed, "; "))
	}
	if err := opts.member.Agreed(); err != nil {
		p.done("replicas", "NOT READY: %s", err)
	} else if n := opts.member.Others(); n > 0 {
		p.done("replicas", "%d beside this one, with the same settings", n)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // it serves until the last request is done
	over := make(chan struct{})
	go func() {
		defer close(over)
		opts.member.Run(ctx)
	}()
	return func() {
		cancel()
		<-over
		opts.member.Leave()
		_ = client.Close()
	}, nil
}

// etcdClient connects as the storage does.
func etcdClient(t storagebackend.TransportConfig) (*clientv3.Client, error) {
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

// guardStock lets a server whose systems are all off serve nobody but system:masters while its replicas have agreed on
// something else: the others' denies would not hold here.
func guardStock(aggregator *genericapiserver.Config, agreed func() error) error {
	guarded, err := union.New(
		union.NamedAuthorizer{AuthorizerName: "system-masters", Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)},
		union.NamedAuthorizer{AuthorizerName: "replicas", Authorizer: authorize.Unready{Why: agreed}},
		union.NamedAuthorizer{AuthorizerName: "stock", Authorizer: aggregator.Authorization.Authorizer})
	if err != nil {
		return err
	}
	build := aggregator.BuildHandlerChainFunc
	aggregator.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
		filters := *c
		filters.Authorization.Authorizer = guarded
		return build(api, &filters)
	}
	return nil
}

// readyWhenAgreed makes readiness depend on what the replicas have agreed on.
func readyWhenAgreed(server *genericapiserver.GenericAPIServer, agreed func() error) error {
	return server.AddReadyzChecks(healthz.NamedCheck("replicas", func(*http.Request) error { return agreed() }))
}
