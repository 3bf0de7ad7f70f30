package sidecar

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// SC-7: a proof takes the nonce in all three places, on a connection that is open, with the manifest as it was written,
// and lasts a second. While canaries come back, the sidecar is ready between them.
func TestProof(t *testing.T) {
	now := time.Unix(1000, 0)
	make := func() *proof {
		p := newProof(func() time.Time { return now })
		p.look(true, nil)
		p.opened("a")
		return p
	}
	sing := func(p *proof, asked, admitted, refused bool, meanwhile func()) {
		p.begin("n")
		if asked {
			p.Asked("a", "n")
		}
		if admitted {
			p.Admitted("n")
		}
		if meanwhile != nil {
			meanwhile()
		}
		p.end(refused, nil)
	}
	at, stop := context.WithCancel(t.Context())
	stop() // nobody waits
	p := make()
	if p.Proven(at, "a") == nil || p.Ready() == nil {
		t.Error("something is proven before anything has happened")
	}
	sing(p, true, true, true, nil)
	if err := p.Proven(at, "a"); err != nil || p.Ready() != nil {
		t.Errorf("nothing is proven: %v", err)
	}
	if p.Proven(at, "b") == nil {
		t.Error("another connection is proven by it")
	}
	for name, void := range map[string]func(p *proof){
		"time passes":                         func(*proof) { now = now.Add(readyLife) },
		"the connection ends":                 func(p *proof) { p.closed("a") },
		"and begins again":                    func(p *proof) { p.closed("a"); p.opened("a") },
		"the manifest is gone":                func(p *proof) { p.look(false, errors.New("gone")) },
		"the manifest was replaced meanwhile": func(p *proof) { p.look(true, nil) },
	} {
		p := make()
		sing(p, true, true, true, nil)
		if p.Proven(at, "a") != nil {
			t.Fatalf("%s: nothing is proven", name)
		}
		void(p)
		if p.Proven(at, "a") == nil || p.Ready() == nil {
			t.Errorf("%s, and the proof stands", name)
		}
	}
	p = make()
	sing(p, true, true, true, nil)
	if now = now.Add(proofLife); p.Proven(at, "a") == nil || p.Ready() != nil {
		t.Error("a second later the proof stands, or it is not ready")
	}
	if sing(p, true, false, true, nil); p.Ready() == nil {
		t.Error("it is ready, although the next canary failed")
	}
	for name, broken := range map[string]func(p *proof){
		"authorization is not asked": func(p *proof) { sing(p, false, true, true, nil) },
		"admission is not asked":     func(p *proof) { sing(p, true, false, true, nil) },
		"nobody refuses":             func(p *proof) { sing(p, true, true, false, nil) },
		"the manifest changes on the way": func(p *proof) {
			sing(p, true, true, true, func() { p.look(true, nil) })
		},
		"the connection ends on the way": func(p *proof) {
			sing(p, true, true, true, func() { p.closed("a"); p.opened("a"); p.closed("a") })
		},
		"another nonce": func(p *proof) {
			p.begin("n")
			p.Asked("a", "m")
			p.Admitted("m")
			p.end(true, nil)
		},
		"it cannot ask": func(p *proof) {
			p.begin("n")
			p.end(false, errors.New("refused"))
		},
	} {
		p := make()
		if broken(p); p.Proven(at, "a") == nil || p.Ready() == nil {
			t.Errorf("%s, and it is proven", name)
		}
	}
}

// SC-7: who comes between two proofs waits for the next one. It must come: what is not proven then is not honoured.
func TestProofIsAwaited(t *testing.T) {
	const long = time.Hour
	for name, one := range map[string]struct {
		wait   time.Duration
		then   func(p *proof)
		proven bool
	}{
		"the next canary comes back": {long, func(p *proof) {
			p.begin("m")
			p.Asked("a", "m")
			p.Admitted("m")
			p.end(true, nil)
		}, true},
		"a canary fails, and the next one comes back": {long, func(p *proof) {
			p.begin("l")
			p.end(false, errors.New("refused"))
			p.begin("m")
			p.Asked("a", "m")
			p.Admitted("m")
			p.end(true, nil)
		}, true},
		"the manifest goes":    {long, func(p *proof) { p.look(true, errors.New("gone")) }, false},
		"the manifest changes": {long, func(p *proof) { p.look(true, nil) }, false},
		"the connection ends":  {long, func(p *proof) { p.closed("a") }, false},
		"no canary comes":      {time.Millisecond, func(*proof) {}, false},
	} {
		now := time.Unix(1000, 0)
		p := newProof(func() time.Time { return now })
		p.wait = one.wait
		p.look(true, nil)
		p.opened("a")
		p.begin("n")
		p.Asked("a", "n")
		p.Admitted("n")
		p.end(true, nil)
		now = now.Add(proofLife)
		if news, err := p.proven("a"); news == nil || err == nil {
			t.Fatalf("%s: nobody waits: %v", name, err)
		}
		answer := make(chan error)
		go func() { answer <- p.Proven(t.Context(), "a") }()
		one.then(p)
		if err := <-answer; (err == nil) != one.proven {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Nobody waits for a proof on a connection that has never had one.
	p := newProof(time.Now)
	p.wait = long
	p.look(true, nil)
	p.opened("a")
	if p.Proven(t.Context(), "a") == nil {
		t.Error("nothing was proven")
	}
}

// SC-7: canaries come less often while nobody needs a proof. Whoever needs one then, a connection that is opened, and a
// manifest that is mended do not wait for the next.
func TestCanariesAreWanted(t *testing.T) {
	now := time.Unix(1000, 0)
	p := newProof(func() time.Time { return now })
	wanted := func() bool {
		select {
		case <-p.wanted:
			return true
		default:
			return false
		}
	}
	at, stop := context.WithCancel(t.Context())
	stop() // nobody waits
	p.look(false, errors.New("gone"))
	if wanted() {
		t.Error("a canary is wanted although the manifest is gone")
	}
	if p.look(true, nil); !wanted() {
		t.Error("the manifest is mended, and nobody wants a canary")
	}
	if p.opened("a"); !wanted() {
		t.Error("a connection is opened, and nobody wants a canary")
	}
	if p.pause() != idlePeriod {
		t.Errorf("nobody needs a proof, and the next canary comes after %s", p.pause())
	}
	prove := func() {
		p.begin("n")
		p.Asked("a", "n")
		p.Admitted("n")
		p.end(true, nil)
	}
	if prove(); p.Proven(at, "a") != nil || !wanted() || p.pause() != canaryPeriod {
		t.Error("a proof is needed, and the next canary is not sent for")
	}
	if now = now.Add(canaryPeriod); p.Proven(at, "a") != nil || wanted() {
		t.Error("a proof holds and is being renewed, and another canary is wanted")
	}
	if now = now.Add(proofLife - canaryPeriod); p.Proven(at, "a") == nil || !wanted() {
		t.Error("a proof has ended, and nobody wants a canary")
	}
	if now = now.Add(proofLife); p.pause() != idlePeriod {
		t.Error("nobody needs proofs any more, and canaries come as often")
	}
}

// SC-7: the manifest is what init wrote, and nothing else is beside it.
func TestManifestIsWatched(t *testing.T) {
	dir := t.TempDir()
	want := map[string][]byte{"proviso.yaml": []byte("a: b\n")}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if compareDir(dir, want) == nil {
		t.Error("a missing manifest passes")
	}
	write("proviso.yaml", "a: b\n")
	if err := compareDir(dir, want); err != nil {
		t.Error(err)
	}
	write("other.yaml", "")
	if compareDir(dir, want) == nil {
		t.Error("a second manifest passes")
	}
	if err := os.Remove(filepath.Join(dir, "other.yaml")); err != nil {
		t.Fatal(err)
	}
	write("proviso.yaml", "")
	if compareDir(dir, want) == nil {
		t.Error("an empty manifest passes")
	}
	write("proviso.yaml", "a: b\n")
}

// SC-7: every change of the manifest is heard of, without looking: of a file, of the directory, and of another
// directory that takes its name. A change that is undone voids proofs, too. Where nothing can be heard, it looks.
func TestChangesOfTheManifestAreHeard(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "static")
	want := map[string][]byte{"proviso.yaml": []byte("a: b\n")}
	file := filepath.Join(dir, "proviso.yaml")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	create := func() {
		t.Helper()
		must(os.Mkdir(dir, 0o700))
		must(os.WriteFile(file, want["proviso.yaml"], 0o600))
	}
	p := newProof(time.Now)
	await := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	state := func() (fine bool, epoch int) { p.mu.Lock(); defer p.mu.Unlock(); return p.manifest == nil, p.epoch }
	fine := func() bool { fine, _ := state(); return fine }
	not := func() bool { return !fine() }

	go p.watchManifest(t.Context(), dir, want, time.Hour) // the directory is not there yet: it looks until it is
	create()
	await("the manifest is not seen", fine)
	must(os.WriteFile(file, nil, 0o600))
	await("that it is empty is not heard", not)
	must(os.WriteFile(file, want["proviso.yaml"], 0o600))
	await("that it is back is not heard", fine)

	_, before := state()
	must(os.Rename(file, file+".new"))
	must(os.Rename(file+".new", file))
	await("a change that was undone is not heard", func() bool { fine, epoch := state(); return fine && epoch > before })

	must(os.Rename(dir, dir+"-old"))
	await("that the directory has another name is not heard", not)
	create()
	await("the new directory is not seen", fine)
	must(os.Remove(file))
	await("what happens in the new directory is not heard", not)
}
