package resp

import (
	"bytes"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

var small = Limits{Line: 16, Bulk: 32, Array: 4, Elements: 10, Depth: 3, Total: 200}

// scanned passes a stream to a scanner in pieces of one size, and returns what the scanner passed
// on.
func scanned(stream string, piece int) (passed string, s *Scanner, err error) {
	s = &Scanner{Limits: small}
	var all strings.Builder
	for rest := []byte(stream); len(rest) > 0 && err == nil; {
		p := rest[:min(piece, len(rest))]
		rest = rest[len(p):]
		var n int
		n, err = s.Scan(p)
		all.Write(p[:n])
	}
	return all.String(), s, err
}

func TestRepliesWithinTheLimitsPassWhole(t *testing.T) {
	for _, stream := range []string{
		"+OK\r\n", ":1\r\n", "-ERR no\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "$0\r\n\r\n", "$3\r\na\nb\r\n",
		"+1234567890123\r\n", "$32\r\n" + strings.Repeat("x", 32) + "\r\n",
		"*4\r\n:1\r\n$1\r\na\r\n+b\r\n$-1\r\n", "*1\r\n*1\r\n*1\r\n:1\r\n", "*2\r\n*2\r\n:1\r\n*0\r\n*-1\r\n",
		"*4\r\n*3\r\n:1\r\n:2\r\n:3\r\n*3\r\n:1\r\n:2\r\n:3\r\n:1\r\n:1\r\n",
		strings.Repeat("+OK\r\n*2\r\n:1\r\n$2\r\nab\r\n", 100), // each reply is limited by itself
	} {
		for _, piece := range []int{1, 2, 3, 7, 1000} {
			passed, s, err := scanned(stream, piece)
			require.NoError(t, err, "%q", stream)
			require.Equal(t, stream, passed)
			require.False(t, s.InReply(), "%q", stream)
		}
	}
}

func TestWhatBreaksALimitNeverPasses(t *testing.T) {
	for stream, why := range map[string]string{
		"$33\r\n":                                    "a bulk string of 33 bytes",
		"$281474976710656\r\n":                       "a bulk string of 281474976710656 bytes",
		"$9223372036854775807\r\n":                   "a bulk string",
		"$18446744073709551621\r\n":                  "a line of more than 20", // 5 in 64 bits
		"*18446744073709551617\r\n":                  "a line of more than 20",
		"*35184372088832\r\n":                        "an array of 35184372088832 elements",
		"*5\r\n":                                     "an array of 5 elements, at most 4",
		"*4\r\n*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n*3\r\n": "more than 10 elements",
		"*1\r\n*1\r\n*1\r\n*1\r\n":                   "nested more than 3 deep",
		"+" + strings.Repeat("x", 20):                "a line of more than 16 bytes",
		"$" + strings.Repeat("0", 30):                "a line of more than 20 bytes",
		"$-2\r\n":                                    "the length",
		"*x\r\n":                                     "the length",
		"$\r\n":                                      "the length",
		"$1\r\nab\r\n":                               "longer than announced",
		"*4\r\n" + strings.Repeat("*2\r\n$32\r\n"+strings.Repeat("x", 32)+"\r\n$30\r\n"+strings.Repeat("x", 30)+"\r\n", 4): "more than 200 bytes",
	} {
		for _, piece := range []int{1, 2, 3, 7, 1000} {
			passed, _, err := scanned(stream, piece)
			require.ErrorIs(t, err, ErrLimit, "%q", stream)
			require.ErrorContains(t, err, why, "%q", stream)
			require.Less(t, len(passed), len(stream))
		}
	}
}

// What a parser receives of a refused reply never ends with the offending header.
func TestAParserNeverSeesTheEndOfAnOffendingHeader(t *testing.T) {
	for _, piece := range []int{1, 3, 1000} {
		passed, _, err := scanned("+OK\r\n$99\r\n", piece)
		require.ErrorIs(t, err, ErrLimit)
		require.NotContains(t, passed[5:], "\n")
	}
}

func TestAReplyThatHasBegunIsKnown(t *testing.T) {
	for _, begun := range []string{"+", "+OK\r", "$3\r\n", "$3\r\nabc", "$3\r\nabc\r", "*1\r\n", "*2\r\n:1\r\n"} {
		_, s, err := scanned(begun, 1)
		require.NoError(t, err)
		require.True(t, s.InReply(), "%q", begun)
	}
}

func TestALengthIsReadAsWritten(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "7": 7, "-1": -1, "0012": 12} {
		n, ok := length([]byte(text))
		require.True(t, ok)
		require.Equal(t, want, n)
	}
	n, ok := length([]byte(strconv.FormatUint(math.MaxUint64, 10)))
	require.True(t, ok)
	require.Greater(t, n, 1<<30, "no overflow makes it small")
}

// FuzzScan compares the scanner with redigo: it passes what redigo reads, as long as that is within
// the limits. It never lets redigo allocate more.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{"+OK\r\n:1\r\n", "*2\r\n$1\r\na\r\n*-1\r\n", "$281474976710656\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", "$16777216\r\n", "*1048576\r\n"} {
		f.Add([]byte(seed), uint8(3))
	}
	f.Fuzz(func(t *testing.T, stream []byte, piece uint8) {
		passed, s, err := scanned(string(stream), int(piece)+1)
		whole, _, wholeErr := scanned(string(stream), len(stream)+1)
		if (err == nil) != (wholeErr == nil) {
			t.Fatalf("in pieces: %v, at once: %v", err, wholeErr)
		}
		if err == nil && (passed != whole || passed != string(stream)) {
			t.Fatalf("passed %q of %q", passed, stream)
		}
		if s.size > small.Total+1 || s.depth > small.Depth {
			t.Fatalf("size %d, depth %d", s.size, s.depth)
		}
		c := redis.NewConn(replay{bytes.NewReader([]byte(passed))}, 0, 0)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for c.Err() == nil { // a header that passed would make it allocate
			_, _ = c.Receive()
		}
		runtime.ReadMemStats(&after)
		if spent := after.TotalAlloc - before.TotalAlloc; spent > 8<<20 {
			t.Fatalf("%d bytes allocated for %d", spent, len(stream))
		}
	})
}

func TestAReplyMayHaveAsManyBytesAsTheLimit(t *testing.T) {
	limits := small
	for total, within := range map[int]bool{6: true, 5: false} {
		limits.Total = total
		_, err := (&Scanner{Limits: limits}).Scan([]byte("+abc\r\n"))
		require.Equal(t, within, err == nil, "%d bytes: %v", total, err)
	}
}
