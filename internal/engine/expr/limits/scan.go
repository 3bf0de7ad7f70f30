package limits

import (
	"strings"
	"unicode/utf8"
)

// The parser is generous: it takes seconds for ten kilobytes of minus signs, and recurses with every bracket. So its
// input is measured first, by reading the text once.

// measure is the shape of a text, before it is parsed.
type measure struct {
	tokens  int
	nesting int // of brackets
}

// measureText counts tokens and brackets as CEL's lexer would see them. Where
// the text is not CEL, it counts more rather than less.
func measureText(s string) measure {
	var m measure
	open := 0
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f':
			i++
			continue
		case strings.HasPrefix(s[i:], "//"):
			end := strings.IndexByte(s[i:], '\n')
			if end < 0 {
				return m
			}
			i += end
			continue
		case isWord(c):
			end := i
			for end < len(s) && isWord(s[end]) {
				end++
			}
			if n := prefixedString(s[i:end], s[end:]); n > 0 {
				end += n
			}
			i = end
		case c == '"' || c == '\'':
			n := stringEnd(s[i:], false)
			if n == 0 {
				n = 1
			}
			i += n
		case c == '`':
			end := strings.IndexAny(s[i+1:], "`\n")
			if end < 0 || s[i+1+end] != '`' {
				end = -1
			}
			i += 2 + end
		case c >= utf8.RuneSelf:
			_, n := utf8.DecodeRuneInString(s[i:])
			i += n
		default:
			switch c {
			case '(', '[', '{':
				open++
				m.nesting = max(m.nesting, open)
			case ')', ']', '}':
				open = max(0, open-1)
			}
			i++
			if i < len(s) && isPair(c, s[i]) {
				i++
			}
		}
		m.tokens++
	}
	return m
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func isPair(a, b byte) bool {
	switch string([]byte{a, b}) {
	case "&&", "||", "==", "!=", "<=", ">=":
		return true
	}
	return false
}

// prefixedString returns the length of the string literal that follows the word, if the word is its prefix: r'…', b"…",
// br'…'.
func prefixedString(word, rest string) int {
	raw := strings.TrimLeft(word, "bB")
	if len(word)-len(raw) > 1 {
		return 0
	}
	switch raw {
	case "r", "R":
		return stringEnd(rest, true)
	case "":
		return stringEnd(rest, false)
	}
	return 0
}

// stringEnd returns the length of the string literal at the beginning of s; 0 if there is none.
func stringEnd(s string, raw bool) int {
	if s == "" || s[0] != '\'' && s[0] != '"' {
		return 0
	}
	quote := s[:1]
	if long := strings.Repeat(quote, 3); strings.HasPrefix(s, long) {
		if n := closing(s, long, raw); n > 0 {
			return n
		}
	}
	return closing(s, quote, raw)
}

func closing(s, quote string, raw bool) int {
	for i := len(quote); i < len(s); i++ {
		switch {
		case strings.HasPrefix(s[i:], quote):
			return i + len(quote)
		case s[i] == '\\' && !raw:
			n := escapeLen(s[i+1:])
			if n == 0 {
				return 0
			}
			i += n
		case (s[i] == '\n' || s[i] == '\r') && len(quote) == 1:
			return 0
		}
	}
	return 0
}

// escapeLen returns the length of an escape sequence without its backslash; 0 if it is invalid.
func escapeLen(s string) int {
	if s == "" {
		return 0
	}
	digits := func(n int, isDigit func(byte) bool) int {
		if len(s) <= n {
			return 0
		}
		for i := 1; i <= n; i++ {
			if !isDigit(s[i]) {
				return 0
			}
		}
		return 1 + n
	}
	hex := func(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }
	switch s[0] {
	case 'a', 'b', 'f', 'n', 'r', 't', 'v', '"', '\'', '\\', '?', '`':
		return 1
	case 'x', 'X':
		return digits(2, hex)
	case 'u':
		return digits(4, hex)
	case 'U':
		return digits(8, hex)
	case '0', '1', '2', '3':
		return digits(2, func(c byte) bool { return c >= '0' && c <= '7' })
	}
	return 0
}
