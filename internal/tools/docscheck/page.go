package main

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// page holds the parts of a Markdown file that can be checked.
type page struct {
	path    string
	anchors map[string]bool
	links   []text
	spans   []text // of code, in a line
	commits []text // at which the page says that something was measured
	blocks  []block
	long    []int // lines of prose that are too long
}

type text struct {
	line int
	text string
}

// block is a block of code, fenced or (without a language) indented.
type block struct {
	line     int // of its first line
	language string
	text     string
	with     string // what the comment in front of it declares
	left     string // why it is not compiled
}

var (
	fence     = regexp.MustCompile("^\\s*(```+|~~~+)\\s*([A-Za-z]*)")
	heading   = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*\s*$`)
	listItem  = regexp.MustCompile(`^\s*([-*+]|\d+[.)])\s`)
	span      = regexp.MustCompile("(`+)(.+?)(`+)")
	inline    = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)`)
	attribute = regexp.MustCompile(`\b(?:src|srcset|href)="([^"]+)"`)
	reference = regexp.MustCompile(`^\s{0,3}\[[^\]]+\]:\s+(\S+)`)
	named     = regexp.MustCompile(`\b(?:id|name)="([^"]+)"`)
	// "commit 1bfe5c8": figures were measured there.
	measuredAt = regexp.MustCompile(`\bcommit ([0-9a-f]{7,40})\b`)
	comment    = regexp.MustCompile(`(?s)<!--\s*(with|not compiled):\s*(.*?)\s*-->`)
)

// reader reads a page line by line.
type reader struct {
	page  *page
	slugs map[string]int

	fence string // what closes the block that is open
	open  *block // fenced or indented
	lines []string
	note  string // a comment that is open, or that stands before the next block
	blank bool   // the line before was blank
	list  bool   // what is indented belongs to a list
}

func read(path, source string) *page {
	r := reader{page: &page{path: path, anchors: map[string]bool{}}, slugs: map[string]int{}, blank: true}
	for i, line := range strings.Split(source, "\n") {
		r.take(i+1, strings.TrimSuffix(line, "\r"))
	}
	r.close()
	return r.page
}

func (r *reader) take(number int, line string) {
	switch {
	case r.fence != "":
		if strings.HasPrefix(strings.TrimSpace(line), r.fence) {
			r.close()
			return
		}
		r.lines = append(r.lines, line)
	case strings.HasPrefix(r.note, "<!--") && !strings.Contains(r.note, "-->"):
		r.note += "\n" + line
	case strings.HasPrefix(line, "<!--"):
		r.close()
		r.note = line
	case fence.MatchString(line):
		r.close()
		m := fence.FindStringSubmatch(line)
		r.fence = m[1]
		r.start(number+1, strings.ToLower(m[2]))
	case strings.HasPrefix(line, "    ") && (r.blank && !r.list || r.open != nil):
		if r.open == nil {
			r.start(number, "")
		}
		r.lines = append(r.lines, line)
	case strings.TrimSpace(line) == "":
		if r.open != nil {
			r.lines = append(r.lines, "")
		}
		r.blank = true
	default:
		r.close()
		r.prose(number, line)
		r.note, r.blank = "", false
	}
}

// start begins a block. The comment before it belongs to the block.
func (r *reader) start(number int, language string) {
	r.open, r.lines = &block{line: number, language: language}, nil
	if m := comment.FindStringSubmatch(r.note); m != nil {
		if m[1] == "with" {
			r.open.with = m[2]
		} else {
			r.open.left = m[2]
		}
	}
	r.note = ""
}

func (r *reader) close() {
	if r.open != nil {
		r.open.text = strings.TrimRight(strings.Join(r.lines, "\n"), "\n") + "\n"
		r.page.blocks = append(r.page.blocks, *r.open)
	}
	r.open, r.fence, r.lines, r.blank = nil, "", nil, true
}

func (r *reader) prose(number int, line string) {
	if tooLong(line) {
		r.page.long = append(r.page.long, number)
	}
	r.list = listItem.MatchString(line) || r.list && strings.HasPrefix(line, " ")
	if m := heading.FindStringSubmatch(line); m != nil {
		r.anchor(slug(m[1]))
	}
	for _, m := range span.FindAllStringSubmatch(line, -1) {
		r.page.spans = append(r.page.spans, text{number, m[2]})
	}
	bare := span.ReplaceAllString(line, "")
	for _, m := range measuredAt.FindAllStringSubmatch(bare, -1) {
		r.page.commits = append(r.page.commits, text{number, m[1]})
	}
	for _, m := range named.FindAllStringSubmatch(bare, -1) {
		r.page.anchors[m[1]] = true
	}
	for _, pattern := range []*regexp.Regexp{inline, attribute, reference} {
		for _, m := range pattern.FindAllStringSubmatch(bare, -1) {
			r.page.links = append(r.page.links, text{number, m[1]})
		}
	}
}

// tooLong reports whether a line of prose has too many characters. A link can't be broken, nor a row of a table.
func tooLong(line string) bool {
	trimmed := strings.TrimSpace(line)
	return !strings.HasPrefix(trimmed, "|") && !heading.MatchString(line) && !strings.HasPrefix(trimmed, "<") && !strings.HasPrefix(trimmed, "![") &&
		utf8.RuneCountInString(linked.ReplaceAllString(line, "$1")) > maxLine
}

func (r *reader) anchor(s string) {
	n := r.slugs[s]
	r.slugs[s]++
	if n > 0 {
		s = fmt.Sprintf("%s-%d", s, n)
	}
	r.page.anchors[s] = true
}

var linked = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

// slug returns a heading's anchor, as GitHub makes it.
func slug(heading string) string {
	heading = linked.ReplaceAllString(heading, "$1")
	return strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case c == '-', c == '_', unicode.IsLetter(c), unicode.IsDigit(c):
			return unicode.ToLower(c)
		}
		return -1
	}, heading)
}
