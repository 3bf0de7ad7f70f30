package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// platform is what Go calls GOOS and GOARCH.
type platform struct{ system, arch string }

func (p platform) String() string { return p.system + "_" + p.arch }

// commands are what is built for it.
func (p platform) commands() []string {
	if p.system == "windows" { // the server needs unix sockets and file locks of a kind that windows does not have
		return []string{"kubectl-proviso", "proviso-mcp"}
	}
	return []string{"proviso", "kubectl-proviso", "proviso-mcp"}
}

func (p platform) file(command string) string {
	if p.system == "windows" {
		return command + ".exe"
	}
	return command
}

// build compiles a command. -trimpath keeps directories out of it, -buildid= and -buildvcs=false what else differs
// between two checkouts; without cgo it is static and needs no compiler of the target. Flags of the environment and
// workspaces are left out, because they are not part of the commit.
func (o *options) build(ctx context.Context, p platform, command, to string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", o.ldflags+" -buildid=", "-o", to, ".")
	cmd.Dir = filepath.Join(o.root, "cmd", command) // proviso-mcp is a module of its own
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.system, "GOARCH="+p.arch, "GOFLAGS=-mod=readonly", "GOWORK=off",
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s for %s: %w\n%s", command, p, err, text)
	}
	return nil
}

// nowhere is the environment of programs whose output is published: defaults of flags name the home directory.
var nowhere = []string{"HOME=/home/you"}

// extras are the files that go into the archives of each command beside it: completions, manual pages and the unit for
// systemd. The commands write the former themselves, so that they are built for this machine first, unless they are
// wanted for it anyway.
func (o *options) extras(ctx context.Context, work string) (map[string][]file, error) {
	here := platform{runtime.GOOS, runtime.GOARCH}
	found := map[string][]file{}
	for _, command := range here.commands() {
		if command == "proviso-mcp" { // clients start it
			continue
		}
		binary := filepath.Join(work, here.String(), here.file(command))
		if err := o.build(ctx, here, command, binary); err != nil {
			return nil, err
		}
		for shell, name := range map[string]string{"bash": command + ".bash", "zsh": "_" + command, "fish": command + ".fish", "powershell": command + ".ps1"} {
			completion := exec.CommandContext(ctx, binary, "completion", shell)
			completion.Env = nowhere
			text, err := completion.Output()
			if err != nil {
				return nil, fmt.Errorf("completions of %s for %s: %w", command, shell, err)
			}
			found[command] = append(found[command], file{name: "completions/" + name, data: text})
		}
		if command != "proviso" {
			continue
		}
		unit, err := os.ReadFile(filepath.Join(o.root, "deploy", "systemd", "proviso.service"))
		if err != nil {
			return nil, err
		}
		found[command] = append(found[command], file{name: "systemd/proviso.service", data: unit})
		dir := filepath.Join(work, "man")
		man := exec.CommandContext(ctx, binary, "docs", "--man", dir)
		man.Env = nowhere
		if text, err := man.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("manual pages: %w\n%s", err, text)
		}
		pages, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, page := range pages {
			data, err := os.ReadFile(filepath.Join(dir, page.Name()))
			if err != nil {
				return nil, err
			}
			found[command] = append(found[command], file{name: "man/man1/" + page.Name(), data: data})
		}
	}
	return found, nil
}
