package guard

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/internal/oneline"
)

// Marker is the content of a marker (see [Key]).
type Marker struct {
	RunID, ReplID2 string
	MaxTTL, MaxAge time.Duration
	Fingerprint    string // of the list of nodes
	Node           string
	// Until is the instant of the node's TIME, in Unix milliseconds, until which the node is
	// quarantined; 0 if it is not.
	Until int64
}

// maxText is in bytes, and longer than any marker of this library: a node's name has up to 255
// bytes, which are escaped.
const maxText = 2 << 10

// Text returns a marker as a server sent it. One that is too long is truncated, which makes it invalid.
func Text(sent []byte) string { return string(sent[:min(len(sent), maxText)]) }

// ParseMarker parses a marker. Its error says what is wrong, without the text. No client of this
// version lets a node with such a marker vote.
func ParseMarker(text string) (Marker, error) {
	part := strings.Split(text, "|")
	if part[0] != Version {
		return Marker{}, fmt.Errorf("its version is not %s", Version)
	}
	const parts = 8
	if len(part) != parts {
		return Marker{}, fmt.Errorf("it has %d parts, not %d", len(part), parts)
	}
	m := Marker{RunID: part[1], ReplID2: part[2], Fingerprint: part[5]}
	var err1, err2, err3, err4 error
	m.MaxTTL, err1 = parseMS(part[3])
	m.MaxAge, err2 = parseMS(part[4])
	m.Node, err3 = url.QueryUnescape(part[6])
	m.Until, err4 = parseState(part[7])
	if err := cmp.Or(err1, err2, err3, err4); err != nil {
		return Marker{}, err
	}
	if m.RunID == "" || m.ReplID2 == "" || m.Fingerprint == "" {
		return Marker{}, errors.New("it has an empty part")
	}
	return m, nil
}

func parseMS(text string) (time.Duration, error) {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("invalid time in milliseconds %.20q", text)
	}
	return time.Duration(n) * time.Millisecond, nil
}

func parseState(text string) (until int64, err error) {
	if text == "ok" {
		return 0, nil
	}
	digits, quarantined := strings.CutPrefix(text, "q")
	until, err = strconv.ParseInt(digits, 10, 64)
	if !quarantined || err != nil || until <= 0 {
		return 0, fmt.Errorf("invalid state %.20q", text)
	}
	return until, nil
}

// Mismatches lists in which settings the clients that wrote m differ from s, for a node of this
// name. It is empty if they agree (docs/dev/hazards.md H40).
func (s *Settings) Mismatches(m Marker, node string) []string {
	var all []string
	if m.MaxTTL != s.MaxTTL {
		all = append(all, fmt.Sprintf("maxTTL is %v there and %v here", m.MaxTTL, s.MaxTTL))
	}
	if m.MaxAge != s.MaxAge[node] {
		all = append(all, fmt.Sprintf("the max_age of its Sentinels is %v there and %v here", m.MaxAge, s.MaxAge[node]))
	}
	if m.Node != node {
		all = append(all, fmt.Sprintf("the node is called %q there and %q here", oneline.Printable(m.Node), node))
	}
	if m.Fingerprint != s.Fingerprint {
		all = append(all, "the list of the nodes' names is another one")
	}
	return all
}
