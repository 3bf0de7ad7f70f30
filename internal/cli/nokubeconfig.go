package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
)

const (
	// defaultServer is where the client libraries look for a server if nothing names one.
	defaultServer = "http://localhost:8080"
	// adminKubeconfig is the file that `proviso serve` writes into its working directory.
	adminKubeconfig = "proviso-data/admin.kubeconfig"
)

// noKubeconfig says which kubeconfig is missing, and what to do about it; it is empty if there is one.
func noKubeconfig() string {
	files, what := []string{clientcmd.RecommendedHomeFile}, clientcmd.RecommendedHomeFile+" does not exist, and KUBECONFIG is not set"
	if named := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); named != "" {
		files = filepath.SplitList(named)
		what = fmt.Sprintf("KUBECONFIG is %s, which does not exist", strings.Join(files, ", "))
	}
	for _, file := range files {
		if _, err := os.Stat(file); err == nil {
			return ""
		}
	}
	if path, err := filepath.Abs(adminKubeconfig); err == nil {
		if _, err := os.Stat(path); err == nil {
			return what + "; try: export KUBECONFIG=" + path
		}
	}
	return what + "; name one with --kubeconfig, or set KUBECONFIG"
}
