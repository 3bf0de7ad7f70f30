package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	netutils "k8s.io/utils/net"

	"proviso.dev/proviso/internal/platform/localetcd"
	"proviso.dev/proviso/internal/platform/pki"
)

// listen takes the port before anything else is touched, so that a port in use costs one clear line and nothing more.
func (o *Options) listen(ctx context.Context) error {
	serving := o.Kube.SecureServing
	if serving.Listener != nil {
		return nil
	}
	address := net.JoinHostPort(serving.BindAddress.String(), strconv.Itoa(serving.BindPort))
	config := net.ListenConfig{}
	listener, err := config.Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s is in use by another process; choose another --secure-port or --bind-address", address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("--bind-address=%s is not an address of this machine", serving.BindAddress)
	case err != nil:
		return fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	serving.Listener = listener
	return nil
}

// pkiConfig says for whom certificates are made.
func (o *Options) pkiConfig() (pki.Config, error) {
	cfg := pki.Config{
		BindAddress:      o.Kube.SecureServing.BindAddress,
		AdvertiseAddress: o.Kube.GenericServerRunOptions.AdvertiseAddress,
		Port:             o.Kube.SecureServing.BindPort,
	}
	for _, cidr := range splitList(o.Kube.ServiceClusterIPRanges) {
		_, block, err := netutils.ParseCIDRSloppy(cidr)
		if err != nil {
			return cfg, fmt.Errorf("--service-cluster-ip-range: %q is not a CIDR", cidr)
		}
		first, err := netutils.GetIndexedIP(block, 1)
		if err != nil {
			return cfg, fmt.Errorf("--service-cluster-ip-range: %w", err)
		}
		cfg.ServiceIPs = append(cfg.ServiceIPs, first)
	}
	return cfg, nil
}

// usePKI points every flag that the user left open to the generated files.
func (o *Options) usePKI(f *pki.Files) {
	k := o.Kube
	set := func(flag string, target *string, value string) {
		if !o.changed(flag) {
			*target = value
		}
	}
	if !o.changed("tls-cert-file") && !o.changed("tls-private-key-file") {
		k.SecureServing.ServerCert.CertKey.CertFile, k.SecureServing.ServerCert.CertKey.KeyFile = f.ServingCert, f.ServingKey
	}
	set("client-ca-file", &k.Authentication.ClientCert.ClientCA, f.CACert)
	set("kubelet-client-certificate", &k.KubeletConfig.TLSClientConfig.CertFile, f.KubeletClientCert)
	set("kubelet-client-key", &k.KubeletConfig.TLSClientConfig.KeyFile, f.KubeletClientKey)
	set("proxy-client-cert-file", &k.ProxyClientCertFile, f.ProxyClientCert)
	set("proxy-client-key-file", &k.ProxyClientKeyFile, f.ProxyClientKey)

	header := k.Authentication.RequestHeader
	if !o.changed("requestheader-client-ca-file") {
		header.ClientCAFile = f.FrontProxyCACert
		header.AllowedNames = []string{pki.ProxyClientName}
		header.UsernameHeaders, header.GroupHeaders = []string{"X-Remote-User"}, []string{"X-Remote-Group"}
		header.ExtraHeaderPrefixes = []string{"X-Remote-Extra-"}
	}
	accounts := k.Authentication.ServiceAccounts
	if !o.changed("service-account-issuer") {
		accounts.Issuers = []string{"https://kubernetes.default.svc.cluster.local"}
	}
	if !o.changed("service-account-signing-endpoint") {
		set("service-account-signing-key-file", &k.ServiceAccountSigningKeyFile, f.SAKey)
		if !o.changed("service-account-key-file") {
			accounts.KeyFiles = []string{f.SAPub}
		}
	}
	if !o.changed("enable-admission-plugins") {
		k.Admission.GenericAdmission.EnablePlugins = []string{"NodeRestriction"}
	}
}

// useEtcd points the storage to the embedded etcd.
func (o *Options) useEtcd(e *localetcd.Etcd) {
	transport := &o.Kube.Etcd.StorageConfig.Transport
	transport.ServerList = e.Endpoints()
	tls := e.ClientTLS() // empty on a unix socket
	transport.TrustedCAFile, transport.CertFile, transport.KeyFile = tls.CACert, tls.ClientCert, tls.ClientKey
}

// startEtcd starts the embedded etcd under the data directory.
func (o *Options) startEtcd(ctx context.Context, f *pki.Files) (*localetcd.Etcd, error) {
	return localetcd.Start(ctx, localetcd.Config{
		Dir: o.path("etcd"),
		TLS: localetcd.TLS{CACert: f.EtcdCACert, ServerCert: f.EtcdServerCert, ServerKey: f.EtcdServerKey, ClientCert: f.EtcdClientCert, ClientKey: f.EtcdClientKey},
	})
}
