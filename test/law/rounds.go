package law

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// The environment of a law. Without it, a law tries the seeds from 0 on, so that every run of the everyday tests is the
// same.
const (
	// EnvTime is how long to try, on seeds that nobody has tried before.
	EnvTime = "PROVISO_LAW_TIME"
	// EnvRuns is how many rounds to try instead of the everyday number.
	EnvRuns = "PROVISO_LAW_RUNS"
	// EnvSeed is the first seed, to see a failure again.
	EnvSeed = "PROVISO_SEED"
)

// Rounds tries a law round by round: the everyday number of rounds, or as the environment says. A round gets its seed
// and returns how many cases it tried; it fails the test itself and names the seed. Rounds says how many cases were
// tried, in a line that `make fuzz` reads, and fails if there were none: a law that nothing was tried on is not proven.
func Rounds(t testing.TB, everyday int, round func(seed int64) (cases int)) {
	t.Helper()
	budget, seed, runs := settings(t, everyday)
	first, begin, cases := seed, time.Now(), 0
	for done := 0; ; done++ {
		if budget > 0 && time.Since(begin) >= budget || budget == 0 && done >= runs {
			break
		}
		cases += round(seed)
		seed++
	}
	if cases == 0 {
		t.Fatalf("the law was tried on no case in %d rounds", seed-first)
	}
	fmt.Printf("law %s: %d cases, %d rounds from seed %d, %s\n", t.Name(), cases, seed-first, first, time.Since(begin).Round(time.Millisecond))
}

func settings(t testing.TB, everyday int) (budget time.Duration, seed int64, runs int) {
	t.Helper()
	var err error
	runs = everyday
	if s := os.Getenv(EnvTime); s != "" {
		if budget, err = time.ParseDuration(s); err != nil || budget <= 0 {
			t.Fatalf("%s=%s: want a duration such as 10s", EnvTime, s)
		}
		seed = time.Now().UnixNano()
	}
	if s := os.Getenv(EnvRuns); s != "" {
		if runs, err = strconv.Atoi(s); err != nil || runs <= 0 {
			t.Fatalf("%s=%s: want a positive number", EnvRuns, s)
		}
	}
	if s := os.Getenv(EnvSeed); s != "" {
		if seed, err = strconv.ParseInt(s, 10, 64); err != nil {
			t.Fatalf("%s=%s: want a number", EnvSeed, s)
		}
	}
	return budget, seed, runs
}

// TooFew fails a law whose everyday rounds saw too little of something to prove anything: then the generator is
// bad. For any other number of rounds it only says so, since how many a machine gets through in a time is not judged.
func TooFew(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv(EnvTime) == "" && os.Getenv(EnvRuns) == "" {
		t.Errorf(format, args...)
		return
	}
	t.Logf(format, args...)
}
