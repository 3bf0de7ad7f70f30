package sidecar

import (
	"bytes"
	"context"
	"crypto/tls"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/platform/atomicfile"
	"proviso.dev/proviso/internal/platform/pki"
)

//go:embed files/*
var templates embed.FS

const (
	serviceName = "proviso"
	staticDir   = "static"
	patchDir    = "patches" // of kubeadm
	staticFile  = "proviso.yaml"
	auditLog    = "audit.log"
)

// whole is how files are written: after a crash at any moment the old text or the new one is there.
var whole = atomicfile.Options{Sync: true, SyncDir: true}

// written are the files of a sidecar's directory, by the template that makes them.
var written = map[string]string{
	"authorization.yaml": "authorization.yaml", "authorization.kubeconfig": "authorization.kubeconfig",
	"admission.yaml": "admission.yaml", "admission.kubeconfig": "admission.kubeconfig",
	filepath.Join(staticDir, staticFile): "static.yaml", "audit-policy.yaml": "audit-policy.yaml", "cluster.yaml": "cluster.yaml",
	"kubeadm.yaml": "kubeadm.yaml", filepath.Join(patchDir, "kube-apiserver0+strategic.yaml"): "patch-strategic.yaml", filepath.Join(patchDir, "kube-apiserver1+json.yaml"): "patch-json.yaml",
	"audit.kubeconfig": "audit.kubeconfig", "proviso-sidecar.service": "proviso-sidecar.service", "proviso-sidecar.pod.yaml": "pod.yaml",
}

// removedFlags exclude --authorization-config.
var removedFlags = []string{"--authorization-mode", "--authorization-policy-file", "--authorization-webhook-cache-authorized-ttl",
	"--authorization-webhook-cache-unauthorized-ttl", "--authorization-webhook-config-file", "--authorization-webhook-version"}

// data is what the templates see.
type data struct {
	*settings
	Dir, StaticDir, ServiceName, Program, Port, CABundle, ClusterCABundle, AccessPath, AdmissionPath, AuditPath, SidecarUser, CanaryUser string
	// AddressType and SliceName are those of the EndpointSlice with --advertise-address.
	AddressType, SliceName string
	Files                  *pki.Beside
	GroupVersions          []schema.GroupVersion
	FlagPairs              []flagPair
	// Mounts are files outside of Dir that the sidecar reads.
	Mounts []string
}

type flagPair struct{ Name, Value string }

// flags are those that kube-apiserver needs.
func (s *settings) flags(dir string) []flagPair {
	flags := []flagPair{
		{"authorization-config", filepath.Join(dir, "authorization.yaml")},
		{"admission-control-config-file", filepath.Join(dir, "admission.yaml")},
		// Without it, access reviews pass by the admission webhook.
		{"feature-gates", "ExcludeAdmissionWebhookVirtualResources=false"},
		{"audit-policy-file", filepath.Join(dir, "audit-policy.yaml")},
	}
	if s.Audit == auditByHook {
		flags = append(flags, flagPair{"audit-webhook-config-file", filepath.Join(dir, "audit.kubeconfig")}, flagPair{"audit-webhook-mode", "batch"}, flagPair{"audit-webhook-batch-max-wait", "1s"})
		return append(flags, truncation("audit-webhook-", maxEventBytes, maxEvents/2)...)
	}
	flags = append(flags, flagPair{"audit-log-path", filepath.Join(dir, auditLog)}, flagPair{"audit-log-mode", "blocking"}, flagPair{"audit-log-maxsize", "100"}, flagPair{"audit-log-maxbackup", "10"})
	return append(flags, truncation("audit-log-", maxEventBytes, maxEventBytes)...)
}

// maxEventBytes is the size beyond which the API server leaves the bodies out of an event. It drops events that are
// larger without them: no caller can make one, since a URI, which is in an event a few times, has at most a megabyte.
const maxEventBytes = 64 << 20

// truncation lets the API server leave bodies out of events that are too large.
func truncation(prefix string, event, batch int) []flagPair {
	return []flagPair{{prefix + "truncate-enabled", "true"}, {prefix + "truncate-max-event-size", strconv.Itoa(event)}, {prefix + "truncate-max-batch-size", strconv.Itoa(batch)}}
}

// render makes the content of every file.
func (s *settings) render(files *pki.Beside) (map[string][]byte, error) {
	dir := filepath.Dir(filepath.Dir(files.CACert))
	ca, err := os.ReadFile(files.CACert)
	if err != nil {
		return nil, err
	}
	cluster, err := os.ReadFile(files.ClusterCACert)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	d := data{settings: s, Dir: dir, StaticDir: staticDir, ServiceName: serviceName, Program: program, Port: s.port(), CABundle: base64.StdEncoding.EncodeToString(ca), ClusterCABundle: base64.StdEncoding.EncodeToString(cluster),
		AccessPath: accessPath, AdmissionPath: admissionPath, AuditPath: auditPath, SidecarUser: pki.SidecarUser, CanaryUser: pki.CanaryUser, Files: files,
		GroupVersions: groupVersions(), FlagPairs: s.flags(dir), Mounts: s.Etcd.files()}
	if ip, err := netip.ParseAddr(s.Advertise); err == nil {
		d.AddressType, d.SliceName = "IPv4", serviceName+"-"+strings.NewReplacer(".", "-", ":", "-").Replace(ip.StringExpanded())
		if ip.Is6() {
			d.AddressType = "IPv6"
		}
	}
	all, err := template.New("").Funcs(template.FuncMap{"quote": quote, "single": single}).ParseFS(templates, "files/*")
	if err != nil {
		return nil, err
	}
	content := map[string][]byte{}
	for path, name := range written {
		var out bytes.Buffer
		if err := all.ExecuteTemplate(&out, name, d); err != nil {
			return nil, err
		}
		content[path] = out.Bytes()
	}
	var flags []string
	for _, f := range d.FlagPairs {
		flags = append(flags, "--"+f.Name+"="+f.Value)
	}
	content["kube-apiserver.flags"] = []byte(strings.Join(flags, "\n") + "\n")
	content["kube-apiserver.remove"] = []byte(strings.Join(removedFlags, "\n") + "\n")
	if content["sidecar.kubeconfig"], err = s.kubeconfig(files); err != nil {
		return nil, err
	}
	content[settingsFile], err = yaml.Marshal(s)
	return content, err
}

// manifests are what the directory of static manifests has to hold.
func (s *settings) manifests(files *pki.Beside) (map[string][]byte, error) {
	all, err := s.render(files)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{staticFile: all[filepath.Join(staticDir, staticFile)]}, nil
}

// kubeconfig is the sidecar's own, for people who want to see what it may do.
func (s *settings) kubeconfig(files *pki.Beside) ([]byte, error) {
	c := clientcmdapi.NewConfig()
	c.Clusters["cluster"] = &clientcmdapi.Cluster{Server: s.Server, CertificateAuthority: files.ClusterCACert}
	c.AuthInfos["sidecar"] = &clientcmdapi.AuthInfo{ClientCertificate: files.SidecarCert, ClientKey: files.SidecarKey}
	c.Contexts["sidecar"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: "sidecar"}
	c.CurrentContext = "sidecar"
	return clientcmd.Write(*c)
}

// initialize writes a sidecar's directory. What exists is replaced by rename, and certificates are kept while they are
// good.
func initialize(dir, pkiDir string, s *settings) (failed error) {
	if err := s.validate(); err != nil {
		return err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if strings.ContainsAny(dir, " \t\n\"'") {
		return fmt.Errorf("--out %s: choose a path without spaces and quotes", dir)
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		defer func() {
			if failed != nil {
				_ = os.RemoveAll(dir) // nothing half-made stays behind
			}
		}()
	}
	for _, below := range []string{staticDir, patchDir} {
		if err := os.MkdirAll(filepath.Join(dir, below), 0o700); err != nil {
			return err
		}
	}
	host, _, _ := net.SplitHostPort(s.Listen)
	files, err := pki.EnsureBeside(dir, pkiDir, s.serviceHost(), net.ParseIP(host))
	if err != nil {
		return err
	}
	if err := s.probe(files); err != nil {
		return err
	}
	content, err := s.render(files)
	if err != nil {
		return err
	}
	for name, data := range content {
		if err := atomicfile.Replace(filepath.Join(dir, name), data, whole); err != nil {
			return err
		}
	}
	return nil
}

// probe is an error if another server than that of the cluster answers. One that does not run yet is none.
func (s *settings) probe(files *pki.Beside) error {
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	err := reach(ctx, s.Server, files.ClusterCACert)
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &verification):
		return fmt.Errorf("--server %s is not the API server of this cluster, or --pki-dir is another cluster's: %s", s.Server, explain(err))
	case errors.As(err, &record):
		return fmt.Errorf("--server %s does not speak TLS: name the API server of this machine", s.Server)
	}
	return nil
}

// quote is a string in YAML.
func quote(s string) (string, error) {
	out, err := json.Marshal(s)
	return string(out), err
}

// single is a string of CEL inside a string of YAML.
func single(s string) (string, error) {
	if strings.ContainsAny(s, "'\"\\\n") {
		return "", fmt.Errorf("--exempt: %q holds a quote", s)
	}
	return "'" + s + "'", nil
}
