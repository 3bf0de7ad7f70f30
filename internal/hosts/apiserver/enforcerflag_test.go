package apiserver

import (
	"slices"
	"strings"
	"testing"

	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"

	"proviso.dev/proviso/internal/features/tokens"
	"proviso.dev/proviso/internal/request/enforce"
)

// CA-7, CA-23: the flag of the design is accepted, and switching the enforcer off refuses to start.
func TestEnforcerFlag(t *testing.T) {
	if err := RegisterFeatures(); err != nil {
		t.Fatal(err)
	}
	options := func() *Options {
		o := NewOptions()
		o.Kube.Admission = kubeoptions.NewAdmissionOptions()
		return o
	}
	o := options()
	o.Kube.Admission.GenericAdmission.EnablePlugins = []string{"NodeRestriction", enforce.Name}
	if err := o.liftEnforcer(); err != nil || !slices.Equal(o.Kube.Admission.GenericAdmission.EnablePlugins, []string{"NodeRestriction"}) {
		t.Errorf("enabled: %v, upstream sees %v", err, o.Kube.Admission.GenericAdmission.EnablePlugins)
	}
	if errs := o.Kube.Admission.Validate(); len(errs) > 0 {
		t.Errorf("upstream refuses what is left: %v", errs)
	}
	o = options()
	o.Kube.Admission.GenericAdmission.DisablePlugins = []string{enforce.Name}
	if err := o.liftEnforcer(); err == nil || !strings.Contains(err.Error(), "cannot be disabled") {
		t.Errorf("disabled: %v", err)
	}
	o = options()
	o.Kube.Admission.GenericAdmission.DisablePlugins = []string{"NodeRestriction"}
	if err := o.liftEnforcer(); err != nil {
		t.Errorf("another plugin: %v", err)
	}
}

// TK-3: peers serve requests without the links of their narrowed token, so the server has either.
func TestPeersAndTokens(t *testing.T) {
	if err := RegisterFeatures(); err != nil {
		t.Fatal(err)
	}
	refused := func(on bool) bool {
		o := NewOptions()
		o.Kube.PeerCAFile = "ca.crt"
		if on {
			o.SwitchOn(tokens.Gate)
		}
		err := o.validateOwn()
		return err != nil && strings.Contains(err.Error(), "--peer-ca-file")
	}
	if !refused(true) || refused(false) {
		t.Errorf("with tokens: refused %v; without: refused %v", refused(true), refused(false))
	}
}
