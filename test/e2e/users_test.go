package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
)

// issue writes a kubeconfig for a user and returns its path.
func (s *server) issue(user string, groups ...string) (string, error) {
	path := filepath.Join(tempDir(s.t), user+".kubeconfig")
	args := []string{"kubeconfig", "--data-dir", s.dir, "--user", user, "-o", path}
	for _, g := range groups {
		args = append(args, "--group", g)
	}
	if out, err := exec.Command(binary(s.t), args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
}
