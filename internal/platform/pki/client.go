package pki

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
)

// ClientRequest asks for a client certificate. It is not checked who asks: a user who can read the authority's key may
// issue anything.
type ClientRequest struct {
	// User becomes the user name, Groups the groups of the holder of the kubeconfig.
	User   string
	Groups []string
	// TTL is how long the certificate lasts. A certificate cannot be revoked, so that it must be chosen.
	TTL time.Duration
	// Server is the URL of the server. Default: the one in the administrator's kubeconfig.
	Server string
	// Namespace is the one of the context; optional.
	Namespace string
	// Clock is replaced by tests.
	Clock clock.PassiveClock
}

// IssueClient returns a kubeconfig with a new client certificate from the authority in files. Nothing is written.
func IssueClient(files *Files, req ClientRequest) ([]byte, error) {
	if req.Clock == nil {
		req.Clock = clock.RealClock{}
	}
	if err := req.validate(); err != nil {
		return nil, err
	}
	if req.Server == "" {
		server, err := files.Server()
		if err != nil {
			return nil, err
		}
		req.Server = server
	}
	ca, err := loadSigner(files.CACert, files.CAKey, remedyCA(filepath.Dir(files.AdminKubeconfig)))
	if err != nil {
		return nil, err
	}
	now := req.Clock.Now()
	if err := ca.check(now); err != nil {
		return nil, err
	}
	if now.Add(req.TTL).After(ca.cert.NotAfter) {
		return nil, fmt.Errorf("expiry %s is beyond the end of the authority (%s on %s); ask for a shorter one",
			req.TTL, ca.certPath, date(ca.cert.NotAfter))
	}
	key, encoded, err := newKey()
	if err != nil {
		return nil, err
	}
	groups := slices.Clone(req.Groups)
	slices.Sort(groups)
	s := subject{name: req.User, groups: slices.Compact(groups), usages: clientOnly}
	cert, err := ca.sign(s, key.Public(), now, req.TTL)
	if err != nil {
		return nil, fmt.Errorf("certificate for user %q cannot be made: %w", req.User, err)
	}
	creds := credentials{server: req.Server, ca: ca.bundle, user: req.User, cert: cert, key: encoded}
	creds.namespace = req.Namespace
	return creds.kubeconfig(clientcmdapi.NewConfig())
}

func (r ClientRequest) validate() error {
	if err := checkName("user", r.User); err != nil {
		return err
	}
	for _, group := range r.Groups {
		if err := checkName("group", group); err != nil {
			return err
		}
	}
	if r.TTL <= 0 {
		return fmt.Errorf("expiry %s is not positive; ask for one like 24h", r.TTL)
	}
	return nil
}

// checkName refuses names that policies could not name or that look like another one.
func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s is empty; name one", what)
	case len(name) > 1024:
		return fmt.Errorf("%s is %d bytes long; at most 1024 are possible", what, len(name))
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("%s %q holds characters that cannot be printed", what, name)
	case strings.TrimSpace(name) != name:
		return fmt.Errorf("%s %q begins or ends with a space", what, name)
	}
	return nil
}
