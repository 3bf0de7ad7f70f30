package auditlog

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"k8s.io/apimachinery/pkg/util/sets"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// read reads a log with one worker and returns copies of the requests.
func read(t *testing.T, log io.Reader, cfg Config) ([]Request, Tally, error) {
	t.Helper()
	var all []Request
	cfg.Workers = 1
	cfg.Each = func(_ int, r *Request) {
		one := *r
		one.Object, one.Answer = bytes.Clone(r.Object), bytes.Clone(r.Answer)
		all = append(all, one)
	}
	tally, err := Read(t.Context(), log, cfg)
	return all, tally, err
}

const complete = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"1","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/a/pods/b",` +
	`"verb":"get","user":{"username":"ann","groups":["dev"],"extra":{"k":["v"]}},"objectRef":{"resource":"pods","namespace":"a","name":"b","apiVersion":"v1"},` +
	`"responseStatus":{"metadata":{},"code":200},"requestReceivedTimestamp":"2026-01-02T03:04:05.000006Z","annotations":{"authorization.k8s.io/decision":"allow"}}`

// TR-4: a request is what the authorizers were asked.
func TestRequest(t *testing.T) {
	all, tally, err := read(t, strings.NewReader(complete), Config{})
	if err != nil || len(all) != 1 || tally.Requests != 1 || tally.Lines != 1 {
		t.Fatalf("%v %+v %v", all, tally, err)
	}
	r := all[0]
	if r.User.Name != "ann" || !slices.Equal(r.User.Groups, []string{"dev"}) || r.User.Extra["k"][0] != "v" || r.Code != 200 || r.Decision != "allow" || r.Received.Nanosecond() != 6000 || r.Line != 1 {
		t.Errorf("%+v %+v", r, r.User)
	}
	a := r.Attributes()
	if !a.ResourceRequest || a.Verb != "get" || a.Resource != "pods" || a.Namespace != "a" || a.Name != "b" || a.APIVersion != "v1" || a.Path != "/api/v1/namespaces/a/pods/b" {
		t.Errorf("%+v", a)
	}
	for name, test := range map[string]struct {
		from, to string
		check    func(*Request) bool
	}{
		"the name of a create is that of its object": {`"get"`, `"create"`, func(r *Request) bool { return r.Name == "" }},
		"impersonation":   {`"objectRef"`, `"impersonatedUser":{"username":"bob"},"objectRef"`, func(r *Request) bool { return r.User.Name == "bob" && r.By.Name == "ann" }},
		"a path":          {`"objectRef"`, `"other"`, func(r *Request) bool { a := r.Attributes(); return !a.ResourceRequest && a.Path != "" }},
		"escapes":         {`"ann"`, `"\u0061nn\n"`, func(r *Request) bool { return r.User.Name == "ann\n" }},
		"the last counts": {`"verb":"get"`, `"verb":"list","verb":"get"`, func(r *Request) bool { return r.Verb == "get" }},
		"bodies":          {`"objectRef"`, `"requestObject":{"a":[1]},"responseObject":null,"objectRef"`, func(r *Request) bool { return string(r.Object) == `{"a":[1]}` && r.Answer == nil }},
		"selectors": {`/pods/b","verb":"get"`, `/pods?labelSelector=a%3Db&fieldSelector=metadata.name%3Dx","verb":"list"`, func(r *Request) bool {
			a := r.Attributes()
			return len(a.LabelSelectorRequirements) == 1 && len(a.FieldSelectorRequirements) == 1 && a.Path == "/api/v1/namespaces/a/pods"
		}},
		"a selector that cannot be read": {`/pods/b","verb":"get"`, `/pods?labelSelector=%3D%3D","verb":"list"`, func(r *Request) bool { return r.Attributes().LabelSelectorParsingErr != nil }},
	} {
		if all, tally, err := read(t, strings.NewReader(strings.Replace(complete, test.from, test.to, 1)), Config{}); err != nil || len(all) != 1 || !test.check(&all[0]) {
			t.Errorf("%s: %+v %+v %v", name, all, tally, err)
		}
	}
}

// TR-4: what is no request is counted, with its place; nothing is guessed.
func TestBadLines(t *testing.T) {
	other := func(from, to string) string { return strings.Replace(complete, from, to, 1) }
	watch := func(stage, id string) string {
		return other(`"stage":"ResponseComplete"`, `"stage":"`+stage+`"`)[:0] + strings.NewReplacer(`"stage":"ResponseComplete"`, `"stage":"`+stage+`"`, `"auditID":"1"`, `"auditID":"`+id+`"`, `"verb":"get"`, `"verb":"watch"`).Replace(complete)
	}
	lines := []string{
		complete,
		"",
		complete[:len(complete)/2],
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}`,
		`[1,2]`,
		"\x00\xff",
		other("audit.k8s.io/v1", "audit.k8s.io/v9"),
		other(`"username":"ann","groups":["dev"],`, ""),
		other("ResponseComplete", "RequestReceived"),
		other("2026-01-02T", "yesterday "),
		other(`"ann"`, "5"),
		watch("ResponseStarted", "w1"), watch("ResponseComplete", "w1"), watch("RequestReceived", "w1"),
		watch("ResponseStarted", "w2"),
		watch("ResponseComplete", "w3"),
		`{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[` + complete + `,` + complete + `,{"a":1}]}`,
		complete + "trailing",
		complete,
	}
	log := strings.Join(lines, "\n")
	want := Tally{Bytes: int64(len(log)), Lines: int64(len(lines)), Requests: 7, Stages: 3, Anonymous: 1, Broken: 5, Foreign: 4}
	for name, reader := range map[string]io.Reader{
		"plain": strings.NewReader(log), "slowly": iotest.OneByteReader(strings.NewReader(log)), "gzip": bytes.NewReader(zipped(t, log)),
		"two gzip files one after the other": io.MultiReader(bytes.NewReader(zipped(t, log[:900])), bytes.NewReader(zipped(t, log[900:]))),
	} {
		_, tally, err := read(t, reader, Config{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var at []int
		for _, p := range tally.Problems {
			at = append(at, p.Line)
		}
		if !slices.Equal(at, []int{3, 4, 5, 6, 7, 10, 11, 17, 18}) {
			t.Errorf("%s: problems %v", name, tally.Problems)
		}
		tally.Problems = nil
		if fmt.Sprint(tally) != fmt.Sprint(want) {
			t.Errorf("%s: %+v, want %+v", name, tally, want)
		}
	}
}

// A log that cannot be read to its end is an error, and one line that is too long is not.
func TestEndsOfLogs(t *testing.T) {
	text := strings.Repeat(complete+"\n", 3000)
	whole := zipped(t, text)
	if _, tally, err := read(t, bytes.NewReader(whole[:len(whole)-20]), Config{}); err == nil || tally.Lines > 3000 {
		t.Errorf("a gzip file that is cut off: %+v %v", tally, err)
	}
	if _, _, err := read(t, iotest.ErrReader(errors.New("disk")), Config{}); err == nil {
		t.Error("no error of the disk")
	}
	if _, tally, err := read(t, strings.NewReader(""), Config{}); err != nil || tally.Lines != 0 {
		t.Errorf("an empty log: %+v %v", tally, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Read(ctx, strings.NewReader(text), Config{Each: func(int, *Request) {}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	long := complete[:len(complete)-1] + `,"requestObject":"` + strings.Repeat("x", 5<<20) + `"}`
	log := complete + "\n" + long + "\n" + complete + "\n" + complete
	if _, tally, err := read(t, strings.NewReader(log), Config{MaxLine: 3 << 20}); err != nil || tally.Broken != 1 || tally.Requests != 3 || tally.Lines != 4 || tally.Problems[0].Line != 2 {
		t.Errorf("a long line: %+v %v", tally, err)
	}
	if all, tally, err := read(t, strings.NewReader(log), Config{}); err != nil || tally.Requests != 4 || all[3].Line != 4 || len(all[1].Object) < 5<<20 {
		t.Errorf("the same line, read: %+v %v", tally, err)
	}
}

// Many workers hand out the same as one.
func TestWorkers(t *testing.T) {
	var b strings.Builder
	for i := range 20_000 {
		b.WriteString(strings.ReplaceAll(complete, `"name":"b"`, fmt.Sprintf(`"name":"b%d"`, i)) + "\n")
	}
	counts := make([]sets.Set[string], 4)
	for i := range counts {
		counts[i] = sets.New[string]()
	}
	tally, err := Read(t.Context(), strings.NewReader(b.String()), Config{Workers: 4, Each: func(w int, r *Request) {
		counts[w].Insert(r.Name)
		if r.Name != fmt.Sprintf("b%d", r.Line-1) {
			t.Errorf("%s in line %d", r.Name, r.Line)
		}
	}})
	if all := counts[0].Union(counts[1]).Union(counts[2]).Union(counts[3]); err != nil || tally.Requests != 20_000 || len(all) != 20_000 {
		t.Errorf("%d names, %+v %v", len(all), tally, err)
	}
}

func zipped(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// FuzzEvent: the scanner accepts what encoding/json accepts, and reads the same from it.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(complete))
	f.Add([]byte(strings.Replace(complete, `"ann"`, `"\ud83d\ude00\u00e9é"`, 1)))
	f.Add([]byte(`{"level":"Metadata","stage":"Panic","verb":"get","user":{"groups":[]},"a":[-0.5e+3,true,null,{}]}`))
	f.Add([]byte(`[1.,01,"` + "\x01" + `"]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p := newParser()
		var e event
		err := p.event(text, &e)
		if errors.Is(err, errJSON) != !json.Valid(text) {
			if strings.Contains(fmt.Sprint(err), ":") { // a part that is of another type
				return
			}
			t.Fatalf("%v, but valid: %t", err, json.Valid(text))
		}
		if err != nil || e.kind == "EventList" {
			return
		}
		var tree map[string]json.RawMessage
		if err := json.Unmarshal(text, &tree); err != nil {
			t.Fatal(err)
		}
		var want auditv1.Event
		for key, to := range map[string]any{"verb": &want.Verb, "level": &want.Level, "stage": &want.Stage, "requestURI": &want.RequestURI, "auditID": &want.AuditID} {
			if raw, ok := tree[key]; ok && json.Unmarshal(raw, to) != nil {
				t.Fatalf("%s is of another type, and was read", key)
			}
		}
		if e.Verb != want.Verb || e.Level != string(want.Level) || e.stage != string(want.Stage) || e.URI != want.RequestURI || e.id != string(want.AuditID) {
			t.Errorf("%+v, want %+v", e, want)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	text := strings.Repeat(complete+"\n", 10_000)
	for name, log := range map[string]string{"plain": text, "gzip": string(zipped(b, text))} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Read(b.Context(), strings.NewReader(log), Config{Each: func(int, *Request) {}}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*10_000/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
