package validate

import (
	"crypto/x509"
	"encoding/pem"
	"net/netip"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	audit "proviso.dev/proviso/api/auditregistration/v1alpha1"
)

var levels = []audit.Level{audit.LevelNone, audit.LevelMetadata, audit.LevelRequest, audit.LevelRequestResponse}

// maxPolicyRules bounds the policy of a sink, and maxLocalPolicyRules that of one that belongs to a namespace. Every
// request is matched against the rules of all sinks.
const (
	maxPolicyRules      = 1024
	maxLocalPolicyRules = 64
)

// AuditSink checks a sink. insecure accepts addresses that are not https or that point to this machine.
func AuditSink(s *audit.AuditSink, insecure bool) field.ErrorList {
	return auditSink(s, insecure, maxPolicyRules)
}

func auditSink(s *audit.AuditSink, insecure bool, mostRules int) field.ErrorList {
	errs := subdomainName(s.Name)
	path := field.NewPath("spec", "policy")
	if n := len(s.Spec.Policy.Rules); n > mostRules {
		return append(errs, field.TooMany(path.Child("rules"), n, mostRules))
	}
	errs = append(errs, level(s.Spec.Policy.Level, path.Child("level"))...)
	for i, rule := range s.Spec.Policy.Rules {
		at := path.Child("rules").Index(i)
		errs = append(errs, level(rule.Level, at.Child("level"))...)
		if rule.WithAuditClass == "" {
			errs = append(errs, field.Required(at.Child("withAuditClass"), "name the audit class that selects the requests"))
		} else if msgs := validation.IsDNS1123Subdomain(rule.WithAuditClass); len(msgs) > 0 {
			errs = append(errs, field.Invalid(at.Child("withAuditClass"), rule.WithAuditClass, "no audit class can have this name: "+msgs[0]))
		}
	}
	if w := s.Spec.Webhook; w != nil {
		errs = append(errs, webhook(*w, insecure, field.NewPath("spec", "webhook"))...)
	}
	errs = append(errs, instant(s.Spec.NotAfter, field.NewPath("spec", "notAfter"))...)
	if r := s.Spec.Redact; r != nil {
		errs = append(errs, redaction(r, field.NewPath("spec", "redact"))...)
	}
	return append(errs, permissionNames(s.Spec.Reveal, field.NewPath("spec", "reveal"))...)
}

func level(l audit.Level, path *field.Path) field.ErrorList {
	for _, known := range levels {
		if l == known {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, l, levels)}
}

func webhook(w audit.Webhook, insecure bool, path *field.Path) (errs field.ErrorList) {
	if t := w.Throttle; t != nil {
		if t.QPS != nil && *t.QPS <= 0 {
			errs = append(errs, field.Invalid(path.Child("throttle", "qps"), *t.QPS, "must be positive"))
		}
		if t.Burst != nil && *t.Burst <= 0 {
			errs = append(errs, field.Invalid(path.Child("throttle", "burst"), *t.Burst, "must be positive"))
		}
	}
	path = path.Child("clientConfig")
	c := w.ClientConfig
	switch {
	case c.URL == nil && c.Service == nil:
		errs = append(errs, field.Required(path, "give url or service; leave webhook out for a sink that is not active yet"))
	case c.URL != nil && c.Service != nil:
		errs = append(errs, field.Forbidden(path.Child("service"), "give either url or service"))
	case c.URL != nil:
		errs = append(errs, sinkURL(*c.URL, insecure, path.Child("url"))...)
	default:
		errs = append(errs, sinkService(*c.Service, path.Child("service"))...)
	}
	return append(errs, caBundle(c.CABundle, path.Child("caBundle"))...)
}

// sinkURL refuses what can be seen to be wrong. Names are resolved, and the address checked again, at every dial.
func sinkURL(text string, insecure bool, path *field.Path) (errs field.ErrorList) {
	const form = "must be https://host:port/path"
	u, err := url.Parse(text)
	if err != nil {
		return field.ErrorList{field.Invalid(path, text, form+": "+err.Error())}
	}
	if u.Scheme != "https" && !(insecure && u.Scheme == "http") {
		errs = append(errs, field.Invalid(path, text, form+": the scheme is not https"))
	}
	if u.Hostname() == "" {
		errs = append(errs, field.Invalid(path, text, form+": it names no host"))
	}
	if u.User != nil {
		errs = append(errs, field.Invalid(path, "", "must not hold a user name or password"))
	}
	if u.Fragment != "" || u.RawFragment != "" {
		errs = append(errs, field.Invalid(path, text, "must not hold a fragment"))
	}
	if u.RawQuery != "" || u.ForceQuery {
		errs = append(errs, field.Invalid(path, text, "must not hold a query"))
	}
	if !insecure && pointsHere(u.Hostname()) {
		errs = append(errs, field.Invalid(path, text, "must not point to a loopback, link-local or unspecified address: a sink cannot be used to reach what its author cannot"))
	}
	return errs
}

func pointsHere(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	addr = addr.Unmap()
	return addr.IsLoopback() || addr.IsLinkLocalUnicast() || addr.IsLinkLocalMulticast() || addr.IsInterfaceLocalMulticast() || addr.IsUnspecified()
}

func sinkService(s audit.ServiceReference, path *field.Path) (errs field.ErrorList) {
	for _, part := range []struct{ name, value string }{{"namespace", s.Namespace}, {"name", s.Name}} {
		if part.value == "" {
			errs = append(errs, field.Required(path.Child(part.name), "name the service and its namespace"))
		} else if msgs := validation.IsDNS1123Label(part.value); len(msgs) > 0 {
			errs = append(errs, field.Invalid(path.Child(part.name), part.value, msgs[0]))
		}
	}
	if s.Path != nil && (!strings.HasPrefix(*s.Path, "/") || strings.ContainsAny(*s.Path, "?# \t\r\n") || strings.Contains(*s.Path, "//") || strings.Contains(*s.Path, "..")) {
		errs = append(errs, field.Invalid(path.Child("path"), *s.Path, `must be a plain path that begins with "/"`))
	}
	if s.Port != nil {
		for _, msg := range validation.IsValidPortNum(int(*s.Port)) {
			errs = append(errs, field.Invalid(path.Child("port"), *s.Port, msg))
		}
	}
	return errs
}

func caBundle(pemBytes []byte, path *field.Path) field.ErrorList {
	rest := pemBytes
	for found := 0; len(rest) > 0; found++ {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil {
			if found > 0 && strings.TrimSpace(string(rest)) == "" {
				return nil
			}
			return field.ErrorList{field.Invalid(path, "", "must hold PEM certificates and nothing else")}
		}
		if _, err := x509.ParseCertificate(block.Bytes); block.Type != "CERTIFICATE" || err != nil {
			return field.ErrorList{field.Invalid(path, "", "must hold PEM certificates and nothing else")}
		}
	}
	return nil
}
