package sidecar

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/features/base"
	"proviso.dev/proviso/internal/hosts/sidecar/webhooks"
	"proviso.dev/proviso/internal/platform/pki"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/state/discovery"
	"proviso.dev/proviso/internal/state/source"
	"proviso.dev/proviso/internal/state/timekeeper"
)

// settings are what init was told, kept in the sidecar's directory for run and check.
type settings struct {
	// Server is the API server, and Listen where the sidecar listens.
	Server string `json:"server"`
	Listen string `json:"listen"`
	// Namespace is that of the sidecar's Service, and MasterNamespace the one whose policy holds everywhere.
	Namespace       string `json:"namespace"`
	MasterNamespace string `json:"masterNamespace"`
	// PKIDir has the authorities of the cluster.
	PKIDir string `json:"pkiDir,omitempty"`
	// Etcd is where policy is stored; an embedded one below the directory if it is empty.
	Etcd etcdSettings `json:"etcd,omitzero"`
	// ExemptUsers and ExemptGroups pass by the webhooks.
	ExemptUsers  []string `json:"exemptUsers,omitempty"`
	ExemptGroups []string `json:"exemptGroups,omitempty"`
	// ConditionsFor are the resources for which conditions are honoured; all if it is empty.
	ConditionsFor []string `json:"conditionsFor,omitempty"`
	// Service is how API servers find the sidecar: externalname, on their own machine, or clusterip, at Advertise.
	Service   string `json:"service,omitempty"`
	Advertise string `json:"advertise,omitempty"`
	// Audit is where events come from: the API server's log, or its webhook.
	Audit string `json:"audit,omitempty"`
	// MaxStaleness is how long the policy may not have heard from where it comes from; 0 is any time.
	MaxStaleness metav1.Duration `json:"policyMaxStaleness,omitzero"`
	// MaxClockSkew is how far the clocks of two sidecars may be apart; 0 is the default.
	MaxClockSkew metav1.Duration `json:"maxClockSkew,omitzero"`
	// AuditLevel is how much of each request the API server's audit log holds.
	AuditLevel string `json:"auditLevel"`
	// ReadObjects lets the sidecar read every object of the cluster, to check the consequences of a request.
	ReadObjects bool `json:"readObjects,omitempty"`
	// AllowInsecureSinks lets audit sinks use http and be on this machine.
	AllowInsecureSinks bool `json:"allowInsecureSinks,omitempty"`
}

type etcdSettings struct {
	Servers  []string `json:"servers,omitempty"`
	Prefix   string   `json:"prefix,omitempty"`
	CAFile   string   `json:"caFile,omitempty"`
	CertFile string   `json:"certFile,omitempty"`
	KeyFile  string   `json:"keyFile,omitempty"`
}

// files are those that the sidecar reads to reach its etcd.
func (e etcdSettings) files() (all []string) {
	for _, path := range []string{e.CAFile, e.CertFile, e.KeyFile} {
		if path != "" {
			all = append(all, path)
		}
	}
	return all
}

const (
	settingsFile = "sidecar.yaml"

	byName, byAddress       = "externalname", "clusterip"
	auditByLog, auditByHook = "log", "webhook"

	// masters bypass every authorizer of a stock server, and admission, so the cluster can be repaired.
	masters = "system:masters"
)

// readSettings reads what init wrote.
func readSettings(dir string) (*settings, error) {
	data, err := os.ReadFile(filepath.Join(dir, settingsFile))
	if err != nil {
		return nil, fmt.Errorf("%s is not the directory of a sidecar: %w; run `proviso sidecar init --out %s`", dir, err, dir)
	}
	s := &settings{}
	if err := yaml.UnmarshalStrict(data, s); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, settingsFile), err)
	}
	return s, s.validate()
}

func (s *settings) validate() error {
	host, port, err := net.SplitHostPort(s.Listen)
	if err != nil {
		return fmt.Errorf("--listen=%s: want an address and a port", s.Listen)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("--listen=%s: the sidecar listens on loopback only", s.Listen)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("--listen=%s: the port is not between 1 and 65535", s.Listen)
	}
	switch {
	case s.Server == "" || s.Namespace == "" || s.MasterNamespace == "":
		return errors.New("--server, --namespace and --policy-master-namespace must not be empty")
	case !slices.Contains([]string{"None", "Metadata", "Request", "RequestResponse"}, s.AuditLevel):
		return fmt.Errorf("--audit-level=%s: want None, Metadata, Request or RequestResponse", s.AuditLevel)
	case slices.Contains(s.ExemptUsers, pki.CanaryUser) || slices.Contains(s.ExemptUsers, pki.SidecarUser):
		return errors.New("--exempt: the sidecar itself is treated as it must be")
	}
	if limit := s.MaxStaleness.Duration; limit != 0 && limit < source.MinStaleness {
		return fmt.Errorf("--policy-max-staleness=%s: want at least %s, or 0 for no limit", limit, source.MinStaleness)
	}
	if skew := s.MaxClockSkew.Duration; skew != 0 && (skew < timekeeper.MinSkew || skew > timekeeper.Behind) {
		return fmt.Errorf("--max-clock-skew=%s: want %s to %s", skew, timekeeper.MinSkew, timekeeper.Behind)
	}
	for _, r := range s.ConditionsFor {
		if r == "" {
			return errors.New("--conditions-for: name resources as RESOURCE or RESOURCE.GROUP")
		}
	}
	if s.Audit != "" && s.Audit != auditByLog && s.Audit != auditByHook {
		return fmt.Errorf("--audit=%s: want %s or %s", s.Audit, auditByLog, auditByHook)
	}
	return s.validateService()
}

func (s *settings) validateService() error {
	switch ip := net.ParseIP(s.Advertise); {
	case s.Service == "" || s.Service == byName:
		if s.Advertise != "" {
			return fmt.Errorf("--advertise-address goes with --service=%s: otherwise API servers find the sidecar on their own machine", byAddress)
		}
	case s.Service != byAddress:
		return fmt.Errorf("--service=%s: want %s or %s", s.Service, byName, byAddress)
	case ip == nil || ip.IsLoopback() || ip.IsUnspecified() || ip.IsLinkLocalUnicast() || ip.IsMulticast():
		return fmt.Errorf("--advertise-address=%s: --service=%s needs an address of this machine that API servers reach; a Service has none on loopback", s.Advertise, byAddress)
	}
	return nil
}

// outside is where the sidecar listens beyond loopback; empty if it does not.
func (s *settings) outside() string {
	if s.Service != byAddress {
		return ""
	}
	return net.JoinHostPort(s.Advertise, s.port())
}

// serviceHost is how API servers name the sidecar where they pass requests on.
func (s *settings) serviceHost() string { return serviceName + "." + s.Namespace + ".svc" }

// port is where the sidecar listens.
func (s *settings) port() string {
	_, port, _ := net.SplitHostPort(s.Listen)
	return port
}

// exempt are who passes by the webhooks.
func (s *settings) exempt() webhooks.Exempt {
	return webhooks.Exempt{Users: s.ExemptUsers, Groups: append([]string{masters}, s.ExemptGroups...)}
}

// reach is where conditions are honoured. Requests to our own groups are enforced where they are served, which is here.
func (s *settings) reach(ours []string, directory *discovery.Directory) base.Reach {
	limits := s.limits(ours)
	limits.Discovery = directory
	return base.Reach{Limit: limits, Local: authorize.LocalFunc(func(group, version string) bool {
		return slices.Contains(ours, group) || directory.Local(group, version)
	})}
}

// limits say where conditions are honoured.
func (s *settings) limits(ours []string) webhooks.Limits {
	l := webhooks.Limits{Exempt: s.exempt(), Ours: ours}
	for _, r := range s.ConditionsFor {
		l.Only = append(l.Only, schema.ParseGroupResource(r))
	}
	return l
}
