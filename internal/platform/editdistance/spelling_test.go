package editdistance

import "testing"

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"pods", "pods", 0}, {"", "pods", 4}, {"pods", "", 4}, {"pod", "pods", 1}, {"pdos", "pods", 2}, {"pots", "pods", 1},
		{"replica", "replicas", 1}, {"kitten", "sitting", 3},
	} {
		if got := Distance(tt.a, tt.b); got != tt.want {
			t.Errorf("from %q to %q: %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
