package terminal

import (
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Lines is text of our own, whose line breaks and tabs stay. Whatever it quotes has been through Text.
type Lines string

// Text is a text in one line, in which everything can be seen: control characters, line breaks and marks that change
// the direction of writing are spelled as JSON spells them.
func Text(s string) string {
	if strings.IndexFunc(s, hides) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		spell(&b, r)
	}
	return b.String()
}

func spell(b *strings.Builder, r rune) {
	switch {
	case r == '\n':
		b.WriteString(`\n`)
	case r == '\t':
		b.WriteString(`\t`)
	case r == '\r':
		b.WriteString(`\r`)
	case r > 0xffff && hides(r):
		hi, lo := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
		fmt.Fprintf(b, `\u%04x\u%04x`, hi, lo)
	case hides(r):
		fmt.Fprintf(b, `\u%04x`, r)
	default:
		b.WriteRune(r)
	}
}

// hides reports whether a terminal, or a reader, could take a character for something else than itself.
func hides(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Fprintf is fmt.Fprintf for text that others have chosen: every argument that is a text is one line.
func Fprintf(w io.Writer, format string, args ...any) (int, error) {
	return fmt.Fprintf(w, format, safe(args)...)
}

// Fprintln is fmt.Fprintln for such text.
func Fprintln(w io.Writer, args ...any) (int, error) { return fmt.Fprintln(w, safe(args)...) }

// Fprint is fmt.Fprint for such text.
func Fprint(w io.Writer, args ...any) (int, error) { return fmt.Fprint(w, safe(args)...) }

// Sprintf is fmt.Sprintf for such text.
func Sprintf(format string, args ...any) Lines { return Lines(fmt.Sprintf(format, safe(args)...)) }

func safe(args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		if _, ours := arg.(Lines); ours || isNumber(arg) {
			out[i] = arg
			continue
		}
		out[i] = foreign{arg}
	}
	return out
}

// isNumber reports whether an argument cannot be text. A width must stay what it is.
func isNumber(arg any) bool {
	switch reflect.ValueOf(arg).Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		_, text := arg.(fmt.Stringer)
		return !text
	}
	return false
}

// foreign is an argument that is formatted first and made safe then.
type foreign struct{ value any }

// Format implements fmt.Formatter.
func (f foreign) Format(s fmt.State, verb rune) {
	text := fmt.Sprintf(fmt.FormatString(s, verb), f.value)
	_, _ = io.WriteString(s, Text(text))
}

// Clean is a writer that lets no control characters through but line breaks, tabs and colours. It stands in front of
// the terminal, whatever a command prints.
func Clean(w io.Writer) io.Writer { return &clean{w: w} }

// Underlying is the writer that a clean one writes to.
func Underlying(w io.Writer) io.Writer {
	if c, ok := w.(*clean); ok {
		return c.w
	}
	return w
}

type clean struct {
	w io.Writer
	// rest is the beginning of a character that came in two pieces.
	rest []byte
}

// colour is how a colour begins or ends: names cannot hold one, since Text spells the escape character.
var colour = regexp.MustCompile(`^\x1b\[[0-9]{1,2}m`)

// Write implements io.Writer.
func (c *clean) Write(p []byte) (int, error) {
	text := append(c.rest, p...)
	c.rest = nil
	var b strings.Builder
	for len(text) > 0 {
		if found := colour.Find(text); found != nil {
			b.Write(found)
			text = text[len(found):]
			continue
		}
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 && !utf8.FullRune(text) {
			c.rest = append([]byte(nil), text...)
			break
		}
		if r == '\n' || r == '\t' {
			b.WriteRune(r)
		} else {
			spell(&b, r)
		}
		text = text[size:]
	}
	if _, err := io.WriteString(c.w, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}
