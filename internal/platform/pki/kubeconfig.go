package pki

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
)

const (
	clusterName = "proviso"
	adminUser   = "kubernetes-admin"
	adminGroup  = "system:masters"
)

// credentials are what a kubeconfig embeds for one user.
type credentials struct {
	server    string
	ca        []byte
	user      string
	cert, key []byte
	// namespace is that of a new context.
	namespace string
}

// kubeconfig writes credentials into a configuration, leaving whatever else it holds alone.
func (c credentials) kubeconfig(into *clientcmdapi.Config) ([]byte, error) {
	name := c.user + "@" + clusterName
	into.Clusters[clusterName] = &clientcmdapi.Cluster{Server: c.server, CertificateAuthorityData: c.ca}
	into.AuthInfos[c.user] = &clientcmdapi.AuthInfo{ClientCertificateData: c.cert, ClientKeyData: c.key}
	if into.Contexts[name] == nil {
		into.Contexts[name] = &clientcmdapi.Context{Cluster: clusterName, AuthInfo: c.user, Namespace: c.namespace}
	}
	if into.CurrentContext == "" {
		into.CurrentContext = name
	}
	return clientcmd.Write(*into)
}

// adminKubeconfig keeps the kubeconfig of the administrator, whom no policy can lock out. Users may add clusters and
// contexts of their own to the file: only its own entries are renewed.
func (e *ensurer) adminKubeconfig(ca *signer) error {
	path, now := e.files.AdminKubeconfig, e.cfg.Clock.Now()
	want := subject{name: adminUser, groups: []string{adminGroup}, usages: clientOnly}
	config := clientcmdapi.NewConfig()
	creds := credentials{server: e.cfg.serverURL(), ca: ca.bundle, user: adminUser}
	var public crypto.PublicKey
	if exists(path) {
		existing, err := loadKubeconfig(path)
		if err != nil {
			return err
		}
		if err := existing.cert.CheckSignatureFrom(ca.cert); err != nil {
			return &FileError{path, "holds a certificate that is not signed by " + ca.certPath, remedyLeaf}
		}
		cluster := existing.config.Clusters[clusterName]
		if want.covers(existing.cert) && !due(existing.cert, ca.cert, now) && cluster.Server == creds.server &&
			bytes.Equal(cluster.CertificateAuthorityData, creds.ca) {
			return nil
		}
		config, public = existing.config, existing.cert.PublicKey
		creds.key = existing.config.AuthInfos[adminUser].ClientKeyData
	} else {
		key, encoded, err := newKey()
		if err != nil {
			return err
		}
		public, creds.key = key.Public(), encoded
	}
	var err error
	if creds.cert, err = ca.sign(want, public, now, e.cfg.LeafLife); err != nil {
		return fmt.Errorf("pki file %s cannot be made: %w", path, err)
	}
	data, err := creds.kubeconfig(config)
	if err != nil {
		return fmt.Errorf("pki file %s cannot be made: %w", path, err)
	}
	return e.write(path, data)
}

type loadedKubeconfig struct {
	config *clientcmdapi.Config
	cert   *x509.Certificate
}

// loadKubeconfig reads the administrator's kubeconfig. A file cut short can still be YAML, so that what must be in it
// is checked and not assumed.
func loadKubeconfig(path string) (*loadedKubeconfig, error) {
	data, err := read(path, true, remedyLeaf)
	if err != nil {
		return nil, err
	}
	corrupt := func(problem string) error { return &FileError{path, "is corrupt: " + problem, remedyLeaf} }
	config, err := clientcmd.Load(data)
	if err != nil {
		return nil, corrupt(err.Error())
	}
	cluster, user := config.Clusters[clusterName], config.AuthInfos[adminUser]
	if cluster == nil || cluster.Server == "" {
		return nil, corrupt("it has no cluster " + clusterName)
	}
	if user == nil || len(user.ClientCertificateData) == 0 || len(user.ClientKeyData) == 0 {
		return nil, corrupt("it has no user " + adminUser + " with a certificate and a key")
	}
	certs, err := certutil.ParseCertsPEM(user.ClientCertificateData)
	if err != nil {
		return nil, corrupt("the certificate of " + adminUser + ": " + err.Error())
	}
	key, err := parseKey(user.ClientKeyData)
	if err != nil {
		return nil, corrupt("the key of " + adminUser + ": " + err.Error())
	}
	if !samePublic(certs[0].PublicKey, key.Public()) {
		return nil, corrupt("the key of " + adminUser + " does not fit its certificate")
	}
	return &loadedKubeconfig{config, certs[0]}, nil
}

// Server returns the URL of the server that the administrator's kubeconfig points to.
func (f *Files) Server() (string, error) {
	existing, err := loadKubeconfig(f.AdminKubeconfig)
	if err != nil {
		return "", err
	}
	return existing.config.Clusters[clusterName].Server, nil
}
