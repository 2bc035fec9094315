package terminal

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Printer prints what a person reads: short lines, aligned, with colours on a terminal.
type Printer struct {
	W      io.Writer
	Colors bool
}

// Color is a colour of text, as ANSI terminals number them.
type Color string

// The colours that are used.
const (
	Bold  Color = "1"
	Faint Color = "2"
	Red   Color = "31"
	Green Color = "32"
	Amber Color = "33"
	Blue  Color = "36"
)

// In returns a text in a colour, unless there are none.
func (p *Printer) In(i Color, text string) string {
	if !p.Colors || i == "" || text == "" {
		return text
	}
	return "\x1b[" + string(i) + "m" + text + "\x1b[0m"
}

// Line prints a line.
func (p *Printer) Line(format string, args ...any) { _, _ = fmt.Fprintf(p.W, format+"\n", args...) }

// Title prints the head of a part: its number, what it shows, and the point of it.
func (p *Printer) Title(number int, text, point string) {
	p.Line("\n %s  %s", p.In(Blue, strconv.Itoa(number)), p.In(Bold, text))
	p.Line("    %s\n", p.In(Faint, point))
}

// Row prints a line of two columns: an event, and its result.
func (p *Printer) Row(what, format string, args ...any) {
	p.Line("    %s%s", p.In(Faint, Pad(what, 11)), fmt.Sprintf(format, args...))
}

// Good prints a property that was shown to hold.
func (p *Printer) Good(format string, args ...any) {
	p.Line("    %s %s", p.In(Green, "✓"), fmt.Sprintf(format, args...))
}

// Bad prints a property that was not.
func (p *Printer) Bad(format string, args ...any) {
	p.Line("    %s %s", p.In(Red, "✗"), fmt.Sprintf(format, args...))
}

// Pad fills a text up to n columns. The widths of package fmt count runes, which include the
// escapes of colours.
func Pad(s string, n int) string { return s + strings.Repeat(" ", max(0, n-len([]rune(s)))) }

// Short formats a duration in about three digits.
func Short(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2f ms", d.Seconds()*1000)
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1000)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1000)
	default:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
}

// Folded breaks a text between words, so that no line is wider than width.
func Folded(text string, width int, lineBreak string) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return strings.Join(append(lines, line), lineBreak)
}

// Columns is the width of the output.
const Columns = 80

// Thousands formats a number with commas.
func Thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Plural returns a number with a noun, in the plural unless it is 1.
func Plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%s %s", Thousands(int64(n)), noun)
}
