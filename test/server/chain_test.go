package server

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/request/enforce"
	"proviso.dev/proviso/test/sixth"
)

// TestPictureOfTheChain: what chain.go draws is what a server is composed of, in that order. The same server has a
// sixth system in its list, which took one package and one line.
func TestPictureOfTheChain(t *testing.T) {
	t.Parallel()
	s := plugged.get(t)
	kernel := pluggedKernel
	systems, made := kernel.Systems.Get()
	if !made {
		t.Fatal("there are no systems")
	}
	t.Run("the sixth system is there", func(t *testing.T) { sixthIsThere(t, s) })

	picture := readPicture(t)
	composed := systems[:len(systems)-2] // without the sixth, and the part that TestNobodyMovesNames has
	ours := []string{"pinSnapshot", "Authorization"}
	for _, f := range feature.Filters(composed) {
		ours = append(ours, f.Name)
	}
	for _, system := range composed {
		for _, one := range system.MutateFirst {
			ours = append(ours, one.Name)
		}
	}
	for _, one := range feature.Mutators(composed) {
		ours = append(ours, one.Name)
	}
	ours = append(ours, enforce.Name)
	if !slices.Equal(picture.ours, ours) {
		t.Errorf("stages of ours\nin the picture: %v\ncomposed:       %v", picture.ours, ours)
	}
	var links []string
	for _, link := range kernel.Gate.Chain.Links() {
		if link.Name != "sixth" {
			links = append(links, link.Name)
		}
	}
	if !slices.Equal(picture.links, links) {
		t.Errorf("links of the chain\nin the picture: %v\ncomposed:       %v", picture.links, links)
	}
	if upstream := upstreamFilters(t, picture.filters); !slices.Equal(picture.filters, upstream) {
		t.Errorf("filters of upstream\nin the picture: %v\nin its code:    %v", picture.filters, upstream)
	}
}

func sixthIsThere(t *testing.T, s *instance) {
	client, err := rest.HTTPClientFor(s.admin)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Get(s.admin.Host + sixth.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "true" || resp.Header.Get(sixth.Header) != "six" {
		t.Errorf("%s: %q %q %v", sixth.Path, body, resp.Header.Get(sixth.Header), err)
	}
	admin := kubernetes.NewForConfigOrDie(s.admin)
	for name, want := range map[string]bool{"six": false, "seven": true} {
		_, err := admin.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(), "the sixth system keeps six") {
			t.Errorf("create %s: %v", name, err)
		}
	}
	if _, err := kubernetes.NewForConfigOrDie(s.as("edgar")).CoreV1().ConfigMaps("default").Get(t.Context(), "six", metav1.GetOptions{}); err == nil || !strings.Contains(err.Error(), "the sixth system keeps six") {
		t.Errorf("get: %v", err)
	}
}

// drawn is the picture of chain.go.
type drawn struct {
	// ours are the stages marked with », links those of the chain, filters upstream's around the handler with the
	// authorization filter.
	ours, links, filters []string
}

func readPicture(t *testing.T) (p drawn) {
	t.Helper()
	text, err := os.ReadFile("../../internal/hosts/apiserver/chain.go")
	if err != nil {
		t.Fatal(err)
	}
	behind := false
	for line := range strings.Lines(string(text)) {
		line, drawing := strings.CutPrefix(line, "//\t")
		if !drawing {
			continue
		}
		mark, isOurs := strings.CutPrefix(line, "» ")
		name := strings.Fields(mark)[0]
		switch {
		case isOurs:
			p.ours = append(p.ours, name)
		case strings.Contains(line, "system-masters →"):
			for _, link := range strings.Split(line, "→") {
				p.links = append(p.links, strings.TrimSpace(link))
			}
		}
		if !behind && strings.ToUpper(name[:1]) == name[:1] && name != "TLS" {
			p.filters = append(p.filters, name)
		}
		behind = behind || name == "Authorization"
	}
	return p
}

// upstreamFilters are those filters of upstream's default chain that the picture names, outermost first. Its code wraps
// from the inside out.
func upstreamFilters(t *testing.T, named []string) (order []string) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/apiserver").Output()
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "pkg", "server", "config.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		build, ok := decl.(*ast.FuncDecl)
		if !ok || build.Name.Name != "DefaultBuildHandlerChain" {
			continue
		}
		ast.Inspect(build, func(n ast.Node) bool {
			call, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			for _, name := range named {
				if call.Sel.Name == "With"+name || name == "Timeout" && call.Sel.Name == "WithTimeoutForNonLongRunningRequests" {
					order = append([]string{name}, order...)
				}
			}
			return true
		})
	}
	return order
}
