package sidecar

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
	apiregistrationclient "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"proviso.dev/proviso/internal/platform/pki"
)

const (
	statePath = "/proviso/state"
	// maxSkew is how far the clocks of the API server and of the sidecar may be apart.
	maxSkew = 10 * time.Second
	// checkTimeout bounds each question.
	checkTimeout = 10 * time.Second
)

// oldest is the first version whose static manifests the webhook can rely on.
var oldest = version.MustParseGeneric("1.37.0")

// state is what a sidecar reports about itself.
type state struct {
	// Policy and Conditions say why policy is not known, and why conditions are not honoured; empty if all is well.
	Policy     string `json:"policy,omitempty"`
	Conditions string `json:"conditions,omitempty"`
	// Clock says why the clock is in doubt.
	Clock string `json:"clock,omitempty"`
	advice
}

func (s *sidecar) serveState(w http.ResponseWriter, _ *http.Request) {
	now := state{Clock: s.clock.Doubt()}
	if err := s.kernel.Store.Ready(); err != nil {
		now.Policy = err.Error()
	}
	if err := s.proof.Ready(); err != nil {
		now.Conditions = err.Error()
	}
	var err error
	if now.advice, err = adviceOf(s.settings.exempt(), s.remote); err != nil {
		klog.ErrorS(err, "Cannot tell what does not hold beside a stock server")
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(now)
}

// checker looks at a pair of a sidecar and its API server.
type checker struct {
	dir      string
	settings *settings
	files    *pki.Beside
	now      func() time.Time
	// said is what the sidecar says about its policy, and doubt what it says against its clock, once it was asked.
	said  advice
	doubt []string
}

// check lists what is missing or wrong, one line each. Conditions are honoured despite warnings.
func check(ctx context.Context, dir string) (problems, warnings []string) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return []string{err.Error()}, nil
	}
	set, err := readSettings(dir)
	if err != nil {
		return []string{err.Error()}, nil
	}
	c := &checker{dir: dir, settings: set, files: pki.BesideFiles(dir), now: time.Now}
	// Each of them relies on the previous ones: a finding of one is the cause of later findings.
	for _, one := range []func(context.Context) []string{c.written, c.certificates, c.reached, c.running, c.apiServer, c.registered, c.peers} {
		if problems = one(ctx); len(problems) > 0 {
			break
		}
	}
	if len(problems) == 0 {
		warnings = c.reviews(ctx)
	}
	warnings = slices.Concat(warnings, c.doubt, c.said.Exempt, c.said.Shown, c.audited())
	return problems, warnings
}

// written compares the files with what init would write.
func (c *checker) written(context.Context) (problems []string) {
	want, err := c.settings.render(c.files)
	if err != nil {
		return []string{err.Error()}
	}
	for _, name := range []string{filepath.Join(staticDir, staticFile), "authorization.yaml", "authorization.kubeconfig", "admission.yaml", "admission.kubeconfig", "audit.kubeconfig"} {
		is, err := os.ReadFile(filepath.Join(c.dir, name))
		switch {
		case err != nil:
			problems = append(problems, fmt.Sprintf("%s is missing: run `proviso sidecar init --out %s` again", filepath.Join(c.dir, name), c.dir))
		case !bytes.Equal(is, want[name]):
			problems = append(problems, fmt.Sprintf("%s is not as init wrote it: run `proviso sidecar init --out %s` again", filepath.Join(c.dir, name), c.dir))
		}
	}
	return problems
}

// certificates looks at those on disk.
func (c *checker) certificates(context.Context) (problems []string) {
	for _, pair := range []struct{ cert, ca string }{
		{c.files.ServerCert, c.files.CACert}, {c.files.AskingCert, c.files.CACert}, {c.files.ServiceCert, c.files.ClusterCACert}, {c.files.SidecarCert, c.files.ClusterCACert}, {c.files.CanaryCert, c.files.ClusterCACert},
	} {
		certs, err := certutil.CertsFromFile(pair.cert)
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		cas, err := certutil.CertsFromFile(pair.ca)
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		now := c.now()
		switch {
		case !slices.ContainsFunc(cas, func(ca *x509.Certificate) bool { return certs[0].CheckSignatureFrom(ca) == nil }):
			problems = append(problems, fmt.Sprintf("%s is not signed by %s: run `proviso sidecar init` again with the --pki-dir of this cluster", pair.cert, pair.ca))
		case now.After(certs[0].NotAfter):
			problems = append(problems, fmt.Sprintf("%s expired on %s: run `proviso sidecar init` again", pair.cert, certs[0].NotAfter.Format(time.RFC3339)))
		case now.Before(certs[0].NotBefore):
			problems = append(problems, fmt.Sprintf("%s is not valid before %s: check the clock of this machine", pair.cert, certs[0].NotBefore.Format(time.RFC3339)))
		}
	}
	return problems
}

func (c *checker) config(cert, key string) *rest.Config {
	s := &sidecar{settings: c.settings, files: c.files}
	config := s.config(cert, key)
	config.Timeout = checkTimeout
	return config
}

// reached connects to the API server.
func (c *checker) reached(ctx context.Context) []string {
	if err := reach(ctx, c.settings.Server, c.files.ClusterCACert); err != nil {
		return []string{fmt.Sprintf("the API server at %s cannot be asked: %s", c.settings.Server, explain(err))}
	}
	return nil
}

// reach is an error if a server does not answer, or has a certificate of another authority or for another name.
func reach(ctx context.Context, server, caFile string) error {
	u, err := url.Parse(server)
	if err != nil {
		return err
	}
	roots, err := certutil.NewPool(caFile)
	if err != nil {
		return err
	}
	address := u.Host
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), "443")
	}
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: checkTimeout}, Config: &tls.Config{RootCAs: roots, ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return connection.Close()
}

// apiServer looks at the API server itself.
func (c *checker) apiServer(ctx context.Context) []string {
	client, err := rest.HTTPClientFor(c.config(c.files.SidecarCert, c.files.SidecarKey))
	if err != nil {
		return []string{err.Error()}
	}
	body, header, err := get(ctx, client, c.settings.Server+"/version")
	if err != nil {
		return []string{fmt.Sprintf("the API server at %s cannot be asked: %s", c.settings.Server, explain(err))}
	}
	var said struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.Unmarshal(body, &said); err != nil {
		return []string{fmt.Sprintf("the API server at %s does not say its version: %v", c.settings.Server, err)}
	}
	return append(tooOld(said.GitVersion), skewed(header.Get("Date"), c.now())...)
}

func tooOld(said string) []string {
	v, err := version.ParseGeneric(said)
	if err != nil {
		return []string{fmt.Sprintf("the API server is of version %q, which cannot be read", said)}
	}
	if v.LessThan(oldest) {
		return []string{fmt.Sprintf("the API server is of version %s: static manifests of admission webhooks need %s", said, oldest)}
	}
	return nil
}

func skewed(date string, now time.Time) []string {
	then, err := http.ParseTime(date)
	if err != nil {
		return nil // it does not say
	}
	if skew := now.Sub(then).Abs(); skew > maxSkew {
		return []string{fmt.Sprintf("the clocks of the API server and of this machine are %s apart", skew.Round(time.Second))}
	}
	return nil
}

// registered looks at what cluster.yaml has.
func (c *checker) registered(ctx context.Context) (problems []string) {
	apply := fmt.Sprintf("run `kubectl apply -f %s`", filepath.Join(c.dir, "cluster.yaml"))
	client, err := apiregistrationclient.NewForConfig(c.config(c.files.SidecarCert, c.files.SidecarKey))
	if err != nil {
		return []string{err.Error()}
	}
	ca, err := os.ReadFile(c.files.ClusterCACert)
	if err != nil {
		return []string{err.Error()}
	}
	for _, gv := range groupVersions() {
		name := gv.Version + "." + gv.Group
		s, err := client.ApiregistrationV1().APIServices().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			problems = append(problems, fmt.Sprintf("APIService %s: %s; %s", name, explain(err), apply))
			continue
		}
		if s.Spec.Service == nil || s.Spec.Service.Namespace != c.settings.Namespace || s.Spec.Service.Name != serviceName || !bytes.Equal(s.Spec.CABundle, ca) {
			problems = append(problems, fmt.Sprintf("APIService %s leads to another server, or has another certificate; %s", name, apply))
			continue
		}
		for _, condition := range s.Status.Conditions {
			if condition.Type == "Available" && condition.Status != "True" {
				problems = append(problems, fmt.Sprintf("APIService %s is not available: %s%s", name, condition.Message, c.routing()))
			}
		}
	}
	return problems
}

// routing says why a Service that is a name may lead nowhere.
func (c *checker) routing() string {
	if c.settings.Service == byAddress {
		return ""
	}
	return "; an API server with --enable-aggregator-routing or an egress selector for the cluster needs `proviso sidecar init --service=clusterip --advertise-address=ADDRESS`"
}

// running asks the sidecar.
func (c *checker) running(ctx context.Context) []string {
	client, err := rest.HTTPClientFor(&rest.Config{Host: "https://" + c.settings.Listen, Timeout: checkTimeout,
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.files.CACert, CertFile: c.files.AskingCert, KeyFile: c.files.AskingKey}})
	if err != nil {
		return []string{err.Error()}
	}
	body, _, err := get(ctx, client, "https://"+c.settings.Listen+statePath)
	if err != nil {
		return []string{fmt.Sprintf("the sidecar at %s cannot be asked: %s", c.settings.Listen, explain(err))}
	}
	var now state
	if err := json.Unmarshal(body, &now); err != nil {
		return []string{fmt.Sprintf("what listens on %s is not a sidecar: %v", c.settings.Listen, err)}
	}
	if c.said = now.advice; now.Clock != "" {
		c.doubt = []string{now.Clock}
	}
	var problems []string
	if now.Policy != "" {
		problems = append(problems, "the sidecar does not know its policy: "+now.Policy)
	}
	if now.Conditions != "" {
		problems = append(problems, "conditions are not honoured: "+now.Conditions)
	}
	return problems
}

// reviews finds out whether access reviews reach the admission webhook, by one that the sidecar always refuses.
func (c *checker) reviews(ctx context.Context) []string {
	client, err := kubernetes.NewForConfig(c.config(c.files.CanaryCert, c.files.CanaryKey))
	if err != nil {
		return []string{err.Error()}
	}
	question := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"}}}
	_, err = client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, question, metav1.CreateOptions{})
	if err != nil && strings.Contains(err.Error(), refusal("")) {
		return nil
	}
	return []string{"access reviews do not reach the sidecar: set --feature-gates=ExcludeAdmissionWebhookVirtualResources=false, or a review may answer yes where the object decides"}
}

func get(ctx context.Context, client *http.Client, url string) ([]byte, http.Header, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, strings.TrimSpace(string(body)))
	}
	return body, response.Header, err
}

// explain says what to do about the commonest failures.
func explain(err error) string {
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var verification *tls.CertificateVerificationError
	switch {
	case errors.As(err, &unknown):
		return "another authority than that of --pki-dir has signed its certificate: it is another cluster's, or its authority was replaced; run `proviso sidecar init` again"
	case errors.As(err, &host):
		return "its certificate is for another name: " + host.Error()
	case errors.As(err, &verification):
		return "its certificate cannot be verified: " + verification.Err.Error()
	}
	return err.Error()
}
