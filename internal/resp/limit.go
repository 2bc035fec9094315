// Package resp bounds the replies of Redis servers before a client parses them, and cleans their
// errors before anybody sees them.
//
// A RESP2 header announces how much follows, and parsers allocate what it says: one reply
// of a few bytes, as `$1099511627776`, ends a process. A [Scanner] reads the bytes on their
// way to the parser and stops in front of the first header that breaks a [Limits].
//
// The protocol: https://redis.io/docs/latest/develop/reference/protocol-spec/
package resp

import (
	"bytes"
	"errors"
	"fmt"
	"math"
)

// ErrLimit is matched by all errors of a Scanner: the peer sent what no server that we talk
// to needs to send, or what is no RESP2. The connection must be closed.
var ErrLimit = errors.New("reply out of bounds")

// Limits bound one reply. All are at least 1.
type Limits struct {
	Line     int // bytes of a status, an error or an integer
	Bulk     int // bytes of a bulk string
	Array    int // elements of one array
	Elements int // elements of all arrays of a reply together
	Depth    int // arrays within arrays
	Total    int // bytes of the whole reply, headers included
}

// crlf is what ends a line, and a bulk string.
const crlf = "\r\n"

// maxHeader is the longest header that announces a length: a type and up to 19 digits.
const maxHeader = 20

// Scanner follows the replies of one connection. The zero value with Limits set is ready to
// use. It is not safe for concurrent use.
type Scanner struct {
	Limits Limits

	size     int // bytes of the present reply so far
	elements int // that its arrays announced
	depth    int
	left     [maxDepth]int // elements that each open array still misses

	line   int // bytes of the present line so far
	kind   byte
	header [maxHeader]byte
	bulk   int // bytes of the present bulk string and of its CRLF that are missing
}

// maxDepth is the largest Limits.Depth.
const maxDepth = 8

// InReply reports whether a reply has begun and is not complete.
func (s *Scanner) InReply() bool { return s.size > 0 }

// Scan reads the next bytes of the stream. It returns how many of them, from the first on,
// may be handed to a parser. With an error that is the number in front of the end of the
// offending line, so that no parser ever acts on it; nothing may be scanned afterwards.
func (s *Scanner) Scan(p []byte) (n int, err error) {
	for n < len(p) {
		took, err := s.step(p[n:])
		if err != nil {
			return n, err
		}
		n += took
	}
	return n, nil
}

// step takes part of a line, of a bulk string, or of what ends it.
func (s *Scanner) step(p []byte) (took int, err error) {
	switch {
	case s.bulk > len(crlf):
		took = min(s.bulk-len(crlf), len(p))
		s.bulk -= took
		return took, s.grow(took)
	case s.bulk > 0:
		if p[0] != crlf[len(crlf)-s.bulk] {
			return 0, fmt.Errorf("%w: a bulk string is longer than announced", ErrLimit)
		}
		if s.bulk--; s.bulk == 0 {
			s.complete()
			return 1, nil
		}
		return 1, s.grow(1)
	}
	return s.lineOf(p)
}

// lineOf takes a line, or what has arrived of one.
func (s *Scanner) lineOf(p []byte) (took int, err error) {
	end := bytes.IndexByte(p, '\n')
	took = len(p)
	if end >= 0 {
		took = end + 1
	}
	if s.line == 0 {
		s.kind = p[0]
	}
	most := s.Limits.Line
	if s.announces() {
		most = maxHeader
		copy(s.header[min(s.line, maxHeader):], p[:took])
	}
	if s.line += took; s.line > most+len(crlf) {
		return 0, fmt.Errorf("%w: a line of more than %d bytes", ErrLimit, most)
	}
	if err := s.grow(took); err != nil || end < 0 {
		return took, err
	}
	length := s.line
	s.line = 0
	if !s.announces() {
		s.complete()
		return took, nil
	}
	return took, s.announced(s.header[1:min(length, maxHeader)])
}

// announces reports whether the present line announces a length.
func (s *Scanner) announces() bool { return s.kind == '$' || s.kind == '*' }

// grow counts bytes of the present reply.
func (s *Scanner) grow(n int) error {
	if s.size += n; s.size > s.Limits.Total {
		return fmt.Errorf("%w: more than %d bytes", ErrLimit, s.Limits.Total)
	}
	return nil
}

// announced acts on a length.
func (s *Scanner) announced(header []byte) error {
	digits, _, _ := bytes.Cut(header, []byte(crlf))
	n, ok := length(digits)
	switch {
	case !ok:
		return fmt.Errorf("%w: the length %q", ErrLimit, digits)
	case s.kind == '$' && n > s.Limits.Bulk:
		return fmt.Errorf("%w: a bulk string of %s bytes, at most %d", ErrLimit, digits, s.Limits.Bulk)
	case s.kind == '$' && n > s.Limits.Total-s.size:
		return fmt.Errorf("%w: more than %d bytes", ErrLimit, s.Limits.Total)
	case s.kind == '*' && n > s.Limits.Array:
		return fmt.Errorf("%w: an array of %s elements, at most %d", ErrLimit, digits, s.Limits.Array)
	case s.kind == '*' && n > s.Limits.Elements-s.elements:
		return fmt.Errorf("%w: more than %d elements", ErrLimit, s.Limits.Elements)
	case s.kind == '*' && n > 0 && s.depth == min(s.Limits.Depth, maxDepth):
		return fmt.Errorf("%w: arrays nested more than %d deep", ErrLimit, s.depth)
	case n < 0 || s.kind == '*' && n == 0: // null, or an empty array
		s.complete()
	case s.kind == '$':
		s.bulk = n + len(crlf)
	default:
		s.left[s.depth] = n
		s.depth++
		s.elements += n
	}
	return nil
}

// length reads a length, or -1 for null. A larger number than an int32 is the largest int32.
func length(digits []byte) (n int, ok bool) {
	if string(digits) == "-1" {
		return -1, true
	}
	read := int64(0)
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, false
		}
		read = min(read*10+int64(d-'0'), math.MaxInt32)
	}
	return int(read), len(digits) > 0
}

// complete ends an element, the arrays that it was the last one of, and perhaps the reply.
func (s *Scanner) complete() {
	for ; s.depth > 0; s.depth-- {
		if s.left[s.depth-1]--; s.left[s.depth-1] > 0 {
			return
		}
	}
	s.size, s.elements = 0, 0
}
