package terminal

import (
	"bytes"
	"io"
	"os"
	"unicode/utf8"

	"golang.org/x/term"
)

// Colour is how a line is shown on a terminal that can.
type Colour string

// The colours. None leaves a line as it is.
const (
	None  Colour = ""
	Green Colour = "\x1b[32m"
	Red   Colour = "\x1b[31m"

	plain = "\x1b[0m"
)

// Fitted writes the lines of a table to a terminal: what is wider is cut, and lines are coloured. To anything else it
// writes them as they are.
type Fitted struct {
	out    io.Writer
	width  int
	colour func(line string) Colour
	hint   string
	rest   []byte
	cut    bool
}

// Fit makes a writer for a table. The hint is said once, below the table, if lines were cut; without one nothing is
// cut. colour may be nil, and is not asked if NO_COLOR is set.
func Fit(out io.Writer, hint string, colour func(line string) Colour) *Fitted {
	f := &Fitted{out: out, hint: hint}
	file, ok := Underlying(out).(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return f
	}
	f.out = file // the lines are clean, and Clean would spell colours out
	if hint != "" {
		f.width = Width(out)
	}
	if os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" {
		f.colour = colour
	}
	return f
}

// Width is the width of a terminal, or 0 if the output is not a terminal.
func Width(out io.Writer) int {
	file, ok := Underlying(out).(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// Cut shortens a text to a width, with a mark where something is missing. A width of 0 cuts nothing.
func Cut(text string, width int) string {
	if width < 2 || utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

// Write takes whole lines and keeps the rest for the next time.
func (f *Fitted) Write(p []byte) (int, error) {
	f.rest = append(f.rest, p...)
	for {
		line, rest, whole := bytes.Cut(f.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		if err := f.line(string(line)); err != nil {
			return 0, err
		}
		f.rest = append([]byte(nil), rest...)
	}
}

func (f *Fitted) line(line string) error {
	painted := None
	if f.colour != nil {
		painted = f.colour(line)
	}
	if short := Cut(line, f.width); short != line {
		line, f.cut = short, true
	}
	if painted != None {
		line = string(painted) + line + plain
	}
	_, err := io.WriteString(f.out, line+"\n")
	return err
}

// Close writes what is left, and the hint.
func (f *Fitted) Close() error {
	if len(f.rest) > 0 {
		if err := f.line(string(f.rest)); err != nil {
			return err
		}
	}
	if !f.cut {
		return nil
	}
	_, err := io.WriteString(f.out, f.hint+"\n")
	return err
}
