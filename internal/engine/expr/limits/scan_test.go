package limits

import "testing"

func TestMeasureText(t *testing.T) {
	for text, want := range map[string]measure{
		"":                              {},
		"a.b == 1 // (((":               {tokens: 5},
		"a && (b || [c])":               {tokens: 9, nesting: 2},
		`'((((' == "[[" && r'\(' != ''`: {tokens: 7},
		`'''a'b''' + b"x" + br'\'`:      {tokens: 5},
		"'(( \n((":                      {tokens: 5, nesting: 4},
		`'\q(('`:                        {tokens: 6, nesting: 2},
		"`a-b`.c":                       {tokens: 3},
		"))((":                          {tokens: 4, nesting: 2},
		`'é' + "\u00e9\x41\101"`:        {tokens: 3},
	} {
		if got := measureText(text); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}
