package apiserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	serviceaccountcontroller "k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"proviso.dev/proviso/internal/engine/narrowedtoken"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/features/tokens"
	"proviso.dev/proviso/internal/platform/atomicfile"
	"proviso.dev/proviso/internal/state/selfclient"
)

// tokenKeyFile is where the key of narrowed tokens is, unless flags name others. It is as powerful as the key of the CA
// beside it.
func (o *Options) tokenKeyFile() string { return o.path("pki", "narrowed-token.key") }

// tokenConfig reads the keys of narrowed tokens. A server with a data directory makes one if there is none.
func (o *Options) tokenConfig() (cfg tokens.Config, err error) {
	files := o.NarrowedTokenKeyFiles
	if len(files) == 0 && !o.dropIn() {
		files = []string{o.tokenKeyFile()}
		if err := o.ensureTokenKey(); err != nil {
			return cfg, err
		}
	}
	for _, name := range files {
		if info, err := os.Stat(name); err == nil && info.Mode().Perm()&0o077 != 0 {
			klog.InfoS("Others can read the key of narrowed tokens: a user who has it can act as every user", "file", name, "mode", info.Mode().Perm().String())
		}
	}
	keys, err := tokens.KeysOf(files, os.ReadFile)
	return tokens.Config{Keys: keys, Longest: o.NarrowedTokenMax, Everybody: !o.external()}, err
}

// ensureTokenKey makes the key of a server of its own.
func (o *Options) ensureTokenKey() error {
	_, err := os.Stat(o.tokenKeyFile())
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	secret := make([]byte, narrowedtoken.KeySize)
	if _, err := rand.Read(secret); err != nil {
		return err
	}
	if err := os.MkdirAll(o.path("pki"), 0o700); err != nil {
		return err
	}
	return atomicfile.Replace(o.tokenKeyFile(), narrowedtoken.KeyText(secret), atomicfile.Options{Sync: true, SyncDir: true})
}

// wrapAuthentication lets systems recognise their own credentials, ahead of all others. The first one is outermost.
func (s *stages) wrapAuthentication(generic *genericapiserver.Config) {
	for i := len(s.systems) - 1; i >= 0; i-- {
		if own := s.systems[i].Credentials; own != nil {
			generic.Authentication.Authenticator = own.Authenticator(generic.Authentication.Authenticator)
		}
	}
}

// quietAudit keeps bodies out of audit events if a system says that they contain a secret.
type quietAudit struct {
	audit.PolicyRuleEvaluator
	systems []feature.System
}

// EvaluatePolicyRule implements audit.PolicyRuleEvaluator.
func (q quietAudit) EvaluatePolicyRule(attrs authorizer.Attributes) audit.RequestAuditConfig {
	cfg := q.PolicyRuleEvaluator.EvaluatePolicyRule(attrs)
	for i := range q.systems {
		if own := q.systems[i].Credentials; own != nil && cfg.Level.GreaterOrEqual(auditinternal.LevelRequest) && own.Secret(attrs) {
			cfg.Level = auditinternal.LevelMetadata
		}
	}
	return cfg
}

// leeway is for how long something that is being deleted still counts, as for service account tokens.
const leeway = 60 * time.Second

// boundObjects knows the objects that service account tokens are bound to, as upstream looks them up.
type boundObjects struct {
	get serviceaccount.ServiceAccountTokenGetter
}

func newBoundObjects(informers informers.SharedInformerFactory, clients *selfclient.Clients) (boundObjects, error) {
	client, err := clients.Kubernetes()
	if err != nil {
		return boundObjects{}, err
	}
	core, admission := informers.Core().V1(), informers.Admissionregistration().V1()
	return boundObjects{serviceaccountcontroller.NewGetterFromClient(client, core.Secrets().Lister(), core.ServiceAccounts().Lister(), core.Pods().Lister(), core.Nodes().Lister(),
		admission.ValidatingWebhookConfigurations().Lister(), admission.MutatingWebhookConfigurations().Lister())}, nil
}

// Check implements authorize.Bound.
func (b boundObjects) Check(ctx context.Context, bound *narrowedtoken.Bound) error {
	account, err := b.get.GetServiceAccount(ctx, bound.Namespace, bound.ServiceAccount.Name)
	if err := exists("service account", bound.ServiceAccount, account, err); err != nil {
		return err
	}
	if bound.Secret.Name != "" {
		secret, err := b.get.GetSecret(ctx, bound.Namespace, bound.Secret.Name)
		if err := exists("secret", bound.Secret, secret, err); err != nil {
			return err
		}
	}
	if bound.Pod.Name != "" {
		var pod *corev1.Pod
		pod, err = b.get.GetPod(ctx, bound.Namespace, bound.Pod.Name)
		if err := exists("pod", bound.Pod, pod, err); err != nil {
			return err
		}
	}
	if bound.Node.Name != "" && bound.Pod.Name == "" { // of a pod's, the node says where it ran
		node, err := b.get.GetNode(ctx, bound.Node.Name)
		return exists("node", bound.Node, node, err)
	}
	return nil
}

// exists is an error unless it is the object, and not deleted for longer than a while.
func exists(what string, want narrowedtoken.Object, found metav1.Object, err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the %s that it is bound to is gone", what)
	case err != nil:
		return fmt.Errorf("the %s that it is bound to cannot be looked up", what)
	case want.UID != "" && want.UID != string(found.GetUID()):
		return fmt.Errorf("the %s that it is bound to is gone: another one has its name", what)
	case found.GetDeletionTimestamp() != nil && time.Now().After(found.GetDeletionTimestamp().Add(leeway)):
		return fmt.Errorf("the %s that it is bound to is being deleted", what)
	}
	return nil
}
