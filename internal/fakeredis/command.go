package fakeredis

import (
	"bufio"
	"errors"
	"io"
	"strconv"
	"strings"
)

// Bounds of what a client may send. They are lower than those of Redis, and larger than any test
// needs.
const (
	maxWords = 1 << 16
	maxBytes = 16 << 20
)

var errProtocol = errors.New("fakeredis: not a RESP array of bulk strings")

// readCommand reads one command: a RESP array of at least one bulk string.
func readCommand(r *bufio.Reader) ([]string, error) {
	n, err := readLength(r, '*', maxWords)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, errProtocol
	}
	words := make([]string, n)
	for i := range words {
		if words[i], err = readBulk(r); err != nil {
			return nil, err
		}
	}
	return words, nil
}

func readBulk(r *bufio.Reader) (string, error) {
	n, err := readLength(r, '$', maxBytes)
	if err != nil {
		return "", err
	}
	p := make([]byte, n+2)
	if _, err := io.ReadFull(r, p); err != nil {
		return "", err
	}
	return string(p[:n]), nil
}

func readLength(r *bufio.Reader, kind byte, most int) (int, error) {
	line, err := r.ReadSlice('\n') // no line is longer than the buffer
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, errProtocol
	}
	n, err := strconv.Atoi(strings.TrimRight(string(line[1:]), "\r\n"))
	if err != nil || n < 0 || n > most {
		return 0, errProtocol
	}
	return n, nil
}
