package lint

// near finds the name that the author may have meant: the closest one within two slips of the keyboard,
// one for short names.
func near(wrote string, names []string) string {
	best, least := "", 3
	if len(wrote) < 5 {
		least = 2
	}
	for _, name := range names {
		if d := distance(wrote, name, least); d > 0 && d < least {
			best, least = name, d
		}
	}
	return best
}

// distance counts the letters that are wrong, missing, too much or swapped, up to most.
func distance(a, b string, most int) int {
	if d := len(a) - len(b); d >= most || -d >= most {
		return most
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return min(rows[len(a)][len(b)], most)
}
