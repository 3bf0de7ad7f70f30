package conformance

import (
	"context"
	"flag"
	"os"
	"testing"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/logs"
	conformancetestdata "k8s.io/kubernetes/test/conformance/testdata"
	commontest "k8s.io/kubernetes/test/e2e/common"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	manifests "k8s.io/kubernetes/test/e2e/testing-manifests"
	"k8s.io/kubernetes/test/fixtures"
	netutils "k8s.io/utils/net"

	// The labels that upstream's specs carry.
	_ "k8s.io/kubernetes/test/e2e/feature"

	// The packages of upstream that have a conformance test which needs no node; which specs run is said by the list.
	_ "k8s.io/kubernetes/test/e2e/apimachinery"
	_ "k8s.io/kubernetes/test/e2e/apps"
	_ "k8s.io/kubernetes/test/e2e/auth"
	_ "k8s.io/kubernetes/test/e2e/dra"
	_ "k8s.io/kubernetes/test/e2e/instrumentation"
	_ "k8s.io/kubernetes/test/e2e/kubectl"
	_ "k8s.io/kubernetes/test/e2e/network"
	_ "k8s.io/kubernetes/test/e2e/node"
	_ "k8s.io/kubernetes/test/e2e/scheduling"
	_ "k8s.io/kubernetes/test/e2e/storage"
)

func TestMain(m *testing.M) {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	testfiles.AddFileSource(manifests.GetE2ETestingManifestsFS())
	testfiles.AddFileSource(fixtures.GetTestFixturesFS())
	testfiles.AddFileSource(conformancetestdata.GetConformanceTestdataFS())
	if framework.TestContext.KubeConfig != "" {
		// There is no node to wait for, and no system pod.
		framework.TestContext.AllowedNotReadyNodes = -1
		framework.TestContext.MinStartupPods = -1
		framework.AfterReadingAllFlags(&framework.TestContext)
	}
	os.Exit(m.Run())
}

// TestConformance runs upstream's specs against the server of -kubeconfig. // SV-4
func TestConformance(t *testing.T) {
	if framework.TestContext.KubeConfig == "" {
		t.Fatal("no server: run `go run ./hack/prove conformance`, which starts one, or name a kubeconfig with -kubeconfig")
	}
	logs.InitLogs()
	defer logs.FlushLogs()
	gomega.RegisterFailHandler(framework.Fail)
	commontest.CurrentSuite = commontest.E2E
	suite, reporter := framework.CreateGinkgoConfig()
	if *specList != "" {
		names, err := listed()
		if err != nil {
			t.Fatal(err)
		}
		suite.FocusStrings = focus(names)
	}
	ginkgo.RunSpecs(t, "Kubernetes conformance without nodes", suite, reporter)
}

var _ = ginkgo.SynchronizedBeforeSuite(func(context.Context) []byte { return nil }, func(ctx context.Context, _ []byte) {
	client, err := framework.LoadClientset()
	framework.ExpectNoError(err, "load the kubeconfig")
	service, err := client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	framework.ExpectNoError(err, "get the kubernetes service")
	framework.TestContext.IPFamily = "ipv4"
	if netutils.IsIPv6String(service.Spec.ClusterIP) {
		framework.TestContext.IPFamily = "ipv6"
	}
})
