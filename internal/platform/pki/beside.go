package pki

import (
	"net"
	"path/filepath"
)

// The users for whom EnsureBeside makes client certificates.
const (
	SidecarUser = "proviso:sidecar"
	CanaryUser  = "proviso:canary"
	// AskingServer is as whom the API server calls the sidecar.
	AskingServer = "proviso:kube-apiserver"
)

// Beside are the files of a sidecar.
type Beside struct {
	// CACert is the sidecar's own authority. It signs what the sidecar and its API server use between them, and
	// nothing else.
	CACert string
	// ServerCert and AskingCert are theirs.
	ServerCert, ServerKey string
	AskingCert, AskingKey string
	// ServiceCert is for clients that reach our groups through the Service. The cluster's authority has signed it: an
	// APIService names one authority, and each machine has a sidecar of its own.
	ServiceCert, ServiceKey string
	// SidecarCert and CanaryCert log in to the API server: its own authority has signed them.
	SidecarCert, SidecarKey string
	CanaryCert, CanaryKey   string
	// ClusterCACert and FrontProxyCACert are copies of the API server's.
	ClusterCACert, FrontProxyCACert string
}

// BesideFiles is where EnsureBeside keeps its files below a directory.
func BesideFiles(dir string) *Beside {
	at := func(name string) string { return filepath.Join(dir, "pki", name) }
	return &Beside{CACert: at("sidecar-ca.crt"), ServerCert: at("server.crt"), ServerKey: at("server.key"), AskingCert: at("kube-apiserver.crt"), AskingKey: at("kube-apiserver.key"),
		ServiceCert: at("service.crt"), ServiceKey: at("service.key"),
		SidecarCert: at("sidecar.crt"), SidecarKey: at("sidecar.key"), CanaryCert: at("canary.crt"), CanaryKey: at("canary.key"),
		ClusterCACert: at("cluster-ca.crt"), FrontProxyCACert: at("front-proxy-ca.crt")}
}

// EnsureBeside makes or renews the certificates of a sidecar below dir, with the authorities of a cluster in
// clusterPKI (ca.crt, ca.key, front-proxy-ca.crt). The sidecar is reached at an address, and as a Service.
func EnsureBeside(dir, clusterPKI, service string, address net.IP) (*Beside, error) {
	cfg, err := Config{Port: 1}.complete()
	if err != nil {
		return nil, err
	}
	e := &ensurer{dir: dir, cfg: cfg, files: &Files{}}
	if err := privateDir(e.path(".")); err != nil {
		return nil, err
	}
	remedy := "name the directory that has the authority of the cluster with --pki-dir"
	cluster, err := loadSigner(filepath.Join(clusterPKI, "ca.crt"), filepath.Join(clusterPKI, "ca.key"), remedy)
	if err != nil {
		return nil, err
	}
	if err := cluster.check(e.cfg.Clock.Now()); err != nil {
		return nil, err
	}
	front, err := read(filepath.Join(clusterPKI, "front-proxy-ca.crt"), false, remedy)
	if err != nil {
		return nil, err
	}
	own, err := e.authority(family{
		file: "sidecar-ca", commonName: "proviso-sidecar-ca", remedy: "remove the directory " + e.path(".") + " and run `proviso sidecar init` again",
	})
	if err != nil {
		return nil, err
	}
	for _, l := range []struct {
		ca *signer
		leaf
	}{
		{own, leaf{"server", subject{name: "proviso-sidecar", usages: serverOnly, hosts: []string{"localhost"}, ips: []net.IP{address}}}},
		{cluster, leaf{"service", subject{name: "proviso-sidecar", usages: serverOnly, hosts: []string{service}}}},
		{own, leaf{"kube-apiserver", subject{name: AskingServer, usages: clientOnly}}},
		{cluster, leaf{"sidecar", subject{name: SidecarUser, usages: clientOnly}}},
		{cluster, leaf{"canary", subject{name: CanaryUser, usages: clientOnly}}},
	} {
		if err := e.leaf(l.ca, l.leaf); err != nil {
			return nil, err
		}
	}
	files := BesideFiles(dir)
	if err := e.write(files.ClusterCACert, cluster.bundle); err != nil {
		return nil, err
	}
	return files, e.write(files.FrontProxyCACert, front)
}
