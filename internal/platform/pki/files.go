package pki

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ProxyClientName is the common name of the certificate with which the aggregator calls extension servers; it is the
// value of --requestheader-allowed-names.
const ProxyClientName = "front-proxy-client"

// Files are the paths of everything Ensure keeps. All are absolute if the data directory is.
type Files struct {
	CACert, CAKey                       string
	ServingCert, ServingKey             string
	KubeletClientCert, KubeletClientKey string
	// SAKey signs service account tokens, SAPub verifies them (it may list further, older keys).
	SAKey, SAPub                    string
	FrontProxyCACert                string
	ProxyClientCert, ProxyClientKey string
	// The etcd files serve an embedded etcd that cannot use a unix socket.
	EtcdCACert                    string
	EtcdServerCert, EtcdServerKey string
	EtcdClientCert, EtcdClientKey string
	AdminKubeconfig               string
	// Changed lists what this call of Ensure created or renewed, in order; empty when everything was reused.
	Changed []string
}

func layout(dataDir string) *Files {
	p := func(name string) string { return filepath.Join(dataDir, "pki", filepath.FromSlash(name)) }
	return &Files{
		CACert: p("ca.crt"), CAKey: p("ca.key"),
		ServingCert: p("apiserver.crt"), ServingKey: p("apiserver.key"),
		KubeletClientCert: p("apiserver-kubelet-client.crt"), KubeletClientKey: p("apiserver-kubelet-client.key"),
		SAKey: p("sa.key"), SAPub: p("sa.pub"),
		FrontProxyCACert: p("front-proxy-ca.crt"),
		ProxyClientCert:  p("front-proxy-client.crt"), ProxyClientKey: p("front-proxy-client.key"),
		EtcdCACert:     p("etcd/ca.crt"),
		EtcdServerCert: p("etcd/server.crt"), EtcdServerKey: p("etcd/server.key"),
		EtcdClientCert: p("etcd/client.crt"), EtcdClientKey: p("etcd/client.key"),
		AdminKubeconfig: filepath.Join(dataDir, "admin.kubeconfig"),
	}
}

// Open returns the files of a data directory that a server has prepared, for commands that only read them. It neither
// needs nor takes the directory's lock.
func Open(dataDir string) (*Files, error) {
	f := layout(dataDir)
	for _, path := range []string{f.CACert, f.CAKey} {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("data dir %s holds no certificate authority (%s is missing); start `proviso serve` with this data dir first", dataDir, path)
		} else if err != nil {
			return nil, fmt.Errorf("data dir %s cannot be read: %w", dataDir, err)
		}
	}
	return f, nil
}
