package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// printer prints what a person reads: short lines, aligned, with colours on a terminal.
type printer struct {
	w      io.Writer
	colors bool
}

// color is a colour of text, as ANSI terminals number them.
type color string

const (
	bold  color = "1"
	faint color = "2"
	red   color = "31"
	green color = "32"
	amber color = "33"
	blue  color = "36"
)

func (p *printer) in(i color, text string) string {
	if !p.colors || i == "" || text == "" {
		return text
	}
	return "\x1b[" + string(i) + "m" + text + "\x1b[0m"
}

func (p *printer) line(format string, args ...any) { _, _ = fmt.Fprintf(p.w, format+"\n", args...) }

func (p *printer) title(number int, text, point string) {
	p.line("\n %s  %s", p.in(blue, strconv.Itoa(number)), p.in(bold, text))
	p.line("    %s\n", p.in(faint, point))
}

// row prints a line of two columns: an event, and its result.
func (p *printer) row(what, format string, args ...any) {
	p.line("    %s%s", p.in(faint, pad(what, 11)), fmt.Sprintf(format, args...))
}

// good prints a property that was shown to hold; bad prints one that was not.
func (p *printer) good(format string, args ...any) {
	p.line("    %s %s", p.in(green, "✓"), fmt.Sprintf(format, args...))
}

func (p *printer) bad(format string, args ...any) {
	p.line("    %s %s", p.in(red, "✗"), fmt.Sprintf(format, args...))
}

// pad fills a text up to n columns. The widths of package fmt count runes, which include the
// escapes of colours.
func pad(s string, n int) string { return s + strings.Repeat(" ", max(0, n-len([]rune(s)))) }

// short formats a duration in about three digits.
func short(d time.Duration) string {
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

// folded breaks a text between words, so that no line is wider than width.
func folded(text string, width int, lineBreak string) string {
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

// columns is the width of the output.
const columns = 80
