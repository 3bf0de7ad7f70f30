package pki

import (
	"fmt"
	"net"
	"path/filepath"
)

// family is an authority with what it signs.
type family struct {
	file, commonName string
	// remedy says how to start over when the authority is lost or damaged.
	remedy string
	leaves []leaf
	// issued are further files that hold something it signed.
	issued []string
}

type leaf struct {
	file string
	subject
}

// families lists every certificate. The authorities are separate so that no certificate of one kind can be used as
// another: who may call etcd or speak for other users is not who may log in.
func (e *ensurer) families() []family {
	hosts, ips := e.cfg.servingNames()
	local := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	return []family{{
		file: "ca", commonName: "proviso-ca", remedy: remedyCA(e.dir), issued: []string{e.files.AdminKubeconfig},
		leaves: []leaf{
			{"apiserver", subject{name: "kube-apiserver", usages: serverOnly, hosts: hosts, ips: ips}},
			{"apiserver-kubelet-client", subject{name: "kube-apiserver-kubelet-client", groups: []string{adminGroup}, usages: clientOnly}},
		},
	}, {
		file: "front-proxy-ca", commonName: "proviso-front-proxy-ca",
		remedy: "restore it from a backup, or remove front-proxy-ca.* and front-proxy-client.* to have them generated again",
		leaves: []leaf{{"front-proxy-client", subject{name: ProxyClientName, usages: clientOnly}}},
	}, {
		file: "etcd/ca", commonName: "proviso-etcd-ca",
		remedy: "restore it from a backup, or remove the directory " + e.path("etcd") + " to have it generated again",
		leaves: []leaf{
			// etcd's gateway calls the server with the server's own certificate.
			{"etcd/server", subject{name: "etcd", usages: clientServer, hosts: []string{"localhost"}, ips: local}},
			{"etcd/client", subject{name: "kube-apiserver-etcd-client", usages: clientOnly}},
		},
	}}
}

// remedyCA is for the authority on which every login rests.
func remedyCA(dataDir string) string {
	return fmt.Sprintf("restore it from a backup, or remove %s and admin.kubeconfig to start over with a new authority "+
		"(every kubeconfig and token issued so far stops working)", filepath.Join(dataDir, "pki"))
}
