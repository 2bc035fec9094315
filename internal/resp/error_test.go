package resp_test

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/resp"
)

func TestTheCodeOfAServersErrorIsItsFirstWordInCapitalLetters(t *testing.T) {
	redis6 := func(text string) string {
		return "ERR Error running script (call to f_94e6bb77c78b737ff1fa5a138a1399afa019ed96): @user_script:3: -" + text
	}
	long := strings.Repeat("X", 32)
	for text, want := range map[string]struct {
		code       string
		unexecuted bool
	}{
		"LOADING Redis is loading the dataset in memory": {"LOADING", true},
		"OOM":                                 {"OOM", true},
		"NEWCODE of a later version":          {"NEWCODE", false},
		"BUSYGROUP Consumer Group name":       {"BUSYGROUP", false},
		"ERR something went wrong":            {"ERR", false},
		"readonly you can't":                  {"", false},
		"@user_script: 10: The user":          {"", false},
		"":                                    {"", false},
		"  ":                                  {"", false},
		redis6("READONLY You can't write"):    {"READONLY", true},
		redis6("WRONGTYPE Operation against"): {"WRONGTYPE", false},
		"ERR tried -NEWCODE and READONLY":     {"ERR", false},
		long + " x":                           {long, false},
		long + "X x":                          {"", false},
		strings.Repeat("X", 26) + "Y x":       {strings.Repeat("X", 26) + "Y", false},
	} {
		err := resp.Clean(fmt.Errorf("in a dial: %w", redis.Error(text)))
		var se *resp.ServerError
		require.ErrorAs(t, err, &se)
		require.Equal(t, want.code, se.Code, text)
		require.EqualError(t, err, text)
		require.Equal(t, want.code, resp.Code(redis.Error(text)), text)
		require.Equal(t, want.code, resp.Code(fmt.Errorf("a node: %w", err)), text)
		require.Equal(t, want.unexecuted, resp.Unexecuted(err), text)
		require.Equal(t, err, resp.Clean(err), "once more")
	}
}

func TestAnErrorThatNoServerSentHasNoCode(t *testing.T) {
	for _, err := range []error{io.EOF, redis.ErrNil, errors.New("OOM"), nil} {
		require.Equal(t, err, resp.Clean(err))
		require.Equal(t, err, resp.Withhold(err, "OOM"))
		require.Empty(t, resp.Code(err))
		require.False(t, resp.Unexecuted(err))
	}
}

// A server may show a client the token of another, in upper or lower case.
func TestNoErrorOfAServerShowsAToken(t *testing.T) {
	token := command.NewToken("owner")
	random := token[len("owner:"):]
	for _, said := range []string{token, random, strings.ToLower(random), "'" + token + "'", "k=" + random + ","} {
		shown := resp.Clean(redis.Error("ERR somebody set " + said)).Error()
		require.Contains(t, shown, "ERR somebody set ")
		require.NotContains(t, strings.ToUpper(shown), random)
	}
	first := redis.Error(random + " is not known")
	require.Empty(t, resp.Code(first))
	require.Empty(t, resp.Code(resp.Clean(first)))
	const words = "NOSCRIPT No matching script. 4F2A7BBD0F3C4D1E9A8B7C6D5E4F3A2B1C0D9E8F UNSUBSCRIBEUNSUBSCRIBEUNSUBSCRIBE"
	require.EqualError(t, resp.Clean(redis.Error(words)), words)
}

func TestWhatAServerSaysIsPrintableAndShort(t *testing.T) {
	for _, says := range []string{"ERR \x1b[2J", "\x1b]0;title\x07", "ERR " + strings.Repeat("x", 60<<10), strings.Repeat("X", 1000)} {
		shown := resp.Clean(redis.Error(says)).Error()
		require.Less(t, len(shown), 600)
		require.NotContains(t, shown, "\x1b")
	}
}

func TestTheTextOfAnErrorThatRepeatsThePasswordIsWithheld(t *testing.T) {
	const instead = " (the server's text is not shown: it repeats the password)"
	for _, c := range []struct{ text, password, want string }{
		{"WRONGPASS not hunter2", "hunter2", "WRONGPASS" + instead},
		{"hunter2", "hunter2", instead[1:]},
		{"WRONGPASS no", "PASS", "ERR" + instead},
		{"WRONGPASS no", "hunter2", "WRONGPASS no"},
		{"WRONGPASS no", "", "WRONGPASS no"},
		{"ERR unknown command 'AUTH', with args beginning with: 'hunter2'", "hunter2", "ERR unknown command 'AUTH'"},
	} {
		require.EqualError(t, resp.Clean(resp.Withhold(redis.Error(c.text), c.password)), c.want)
	}
}

// A lock keeps its votes. These must not keep the replies from which they were read.
func TestAnErrorDoesNotKeepItsReply(t *testing.T) {
	filler := strings.Repeat("x", 60<<10)
	errs := make([]error, 256)
	before := liveHeap()
	for i := range errs {
		errs[i] = resp.Clean(redis.Error("ERR unknown command 'X', with args beginning with: " + filler))
	}
	require.Less(t, liveHeap(), before+4<<20)
	require.EqualError(t, errs[len(errs)-1], "ERR unknown command 'X'")
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Every reply comes this way.
func TestAReplyWithoutAnErrorCostsNothing(t *testing.T) {
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_ = resp.Withhold(nil, "hunter2")
		_ = resp.Clean(nil)
	}))
}
