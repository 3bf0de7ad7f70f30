package main

import (
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// plugin is an archive of kubectl-proviso.
type plugin struct {
	platform
	archive string
}

type object = map[string]any

// krew writes the manifest with which kubectl krew installs the plugin.
func (o *options) krew(plugins []plugin) error {
	var platforms []object
	for _, p := range plugins {
		sum, err := checksum(p.archive)
		if err != nil {
			return err
		}
		program := p.file("kubectl-proviso")
		platforms = append(platforms, object{
			"selector": object{"matchLabels": object{"os": p.system, "arch": p.arch}},
			"uri":      strings.TrimSuffix(o.url, "/") + "/" + o.version + "/" + filepath.Base(p.archive),
			"sha256":   sum,
			"bin":      program,
			"files":    []object{{"from": program, "to": "."}, {"from": "LICENSE", "to": "."}},
		})
	}
	data, err := yaml.Marshal(object{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
		"kind":       "Plugin",
		"metadata":   object{"name": "proviso"},
		"spec": object{
			"version":          o.version,
			"homepage":         "https://proviso.dev",
			"shortDescription": "Who can do what, why, and what a change of policy changes",
			"description":      "Asks a Proviso server who can do something and why a subject cannot, and plans, tests and lints policy.\nIt works with files and with any cluster; conditions and field permissions need Proviso.\n",
			"platforms":        platforms,
		},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.out, "proviso.krew.yaml"), data, 0o644)
}
