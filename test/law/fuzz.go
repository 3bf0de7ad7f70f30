package law

import "testing"

// Fuzz lets Go's fuzzer choose what a law is tried on. pick draws a number from 0 to n-1.
func Fuzz(f *testing.F, try func(t *testing.T, pick func(n int) int)) {
	f.Helper()
	for _, seed := range []string{"", "policy", "\x00\x01\x02\x03\x04\x05\x06\x07", "deny everything but the first", "\xff\xfe\xfd\x80\x7f\x40\x20\x10\x08\x04\x02\x01"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) { try(t, Bytes(data)) })
}

// Bytes draws from the fuzzer's bytes, and from their number when they run out.
func Bytes(data []byte) func(n int) int {
	state, i := uint64(len(data)), 0
	return func(n int) int {
		b := byte(0)
		if i < len(data) {
			b = data[i]
			i++
		}
		state = state*6364136223846793005 + 1442695040888963407 + uint64(b)
		return int((state >> 33) % uint64(n))
	}
}
