package terminal

import "fmt"

// Count writes a number with its noun: "1 warning", "2 warnings".
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
