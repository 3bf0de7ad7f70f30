package apiserver

import (
	"context"
	"net/http"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/union"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"

	"proviso.dev/proviso/internal/engine/links"
	"proviso.dev/proviso/internal/hosts/apiserver/replicas"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/state/policycodec"
)

// embeddedID is the identity of the one server that an embedded etcd has, whichever process that is: it is its own
// successor, after kill -9 too, and need not wait for itself.
const embeddedID = "embedded-etcd"

// identity identifies this server among its replicas.
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
	files := replicas.Files{ClientCA: opts.Authentication.ClientCert.ClientCA}
	if opts.ServiceAccountSigningEndpoint == "" {
		files.SigningKey, files.AcceptedKeys = opts.ServiceAccountSigningKeyFile, opts.Authentication.ServiceAccounts.KeyFiles
	}
	trust, err := files.Trust()
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	cfg := replicas.Config{ID: opts.own.identity(), Host: host, Settings: settings, Agree: opts.own.Agree, Trust: trust, Knows: replicas.Known(policycodec.KnownFields()...)}
	if !opts.stock() {
		cfg.Clock = opts.clock
	}
	return replicas.New(cfg), nil
}

// joinReplicas registers this server with its replicas and follows the record they agree on. The returned function ends
// the registration.
func joinReplicas(ctx context.Context, opts *completed, p *progress) (leave func(), err error) {
	if leave, err = opts.member.Attend(ctx, opts.Etcd.StorageConfig); err != nil {
		return nil, err
	}
	if changed := opts.member.Changed(); len(changed) > 0 {
		p.Done("replicas", "the record was changed: %s", strings.Join(changed, "; "))
	}
	if err := opts.member.Agreed(); err != nil {
		p.Done("replicas", "NOT READY: %s", err)
	} else if n := opts.member.Others(); n > 0 {
		p.Done("replicas", "%d beside this one, with the same settings", n)
	}
	return leave, nil
}

// guardStock lets a server whose systems are all off serve only system:masters while its replicas have agreed on
// something else: the others' denies would not hold here.
func guardStock(aggregator *genericapiserver.Config, replicas authorize.Agreement) error {
	guarded, err := union.New(
		union.NamedAuthorizer{AuthorizerName: links.SystemMasters, Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)},
		union.NamedAuthorizer{AuthorizerName: links.Replicas, Authorizer: authorize.Unready{Replicas: replicas}},
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

// replicaNeeds tells the replicas what they have to support: shadow rules (TR-6), and the fields of stored objects
// (PO-25).
type replicaNeeds struct{ member *replicas.Member }

func (n replicaNeeds) Need(ctx context.Context, dryRun bool) error {
	return n.member.Need(ctx, replicas.ShadowRules, dryRun)
}

func (n replicaNeeds) NoNeed(ctx context.Context) error {
	return n.member.NoNeed(ctx, replicas.ShadowRules)
}

func (n replicaNeeds) NeedFields(ctx context.Context, fields []string) error {
	for _, field := range fields {
		if err := n.member.Need(ctx, replicas.Field(field), false); err != nil {
			return err
		}
	}
	return nil
}

func (n replicaNeeds) NoNeedOfFields(ctx context.Context, fields []string) error {
	for _, field := range fields {
		if err := n.member.NoNeed(ctx, replicas.Field(field)); err != nil {
			return err
		}
	}
	return nil
}
