package fakeredis_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
)

const oom = "OOM command not allowed when used memory > 'maxmemory'."

func TestAScriptedErrorTakesACommandsPlace(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		c := connect(t, m)
		m.FailWith("set", oom)
		_, err := c.Do("SET", "k", "v")
		require.Equal(t, redis.Error(oom), err)
		_, err = c.Do("EVAL", "\nreturn redis.call('SET', 'k', 'v')", 0)
		require.Equal(t, redis.Error(oom+" script: 581882e45c020ac78db92556fd8e7fb373375e83, on @user_script:2."), err)
		_, err = c.Do("EVAL", "return redis.pcall('SET', 'k', 'v')", 0)
		require.Equal(t, redis.Error(oom), err)
		require.Empty(t, m.Keys())

		m.FailWith("SET", ":7")
		require.Equal(t, int64(7), do(t, c, "SET", "k", "v"))
		m.FailWith("SET", "")
		require.Equal(t, "OK", do(t, c, "SET", "k", "v"))

		m.FailWith("*", "LOADING Redis is loading the dataset in memory")
		_, err = c.Do("PING")
		require.ErrorContains(t, err, "LOADING ")
	})
}

func TestErrorsOfScriptsHaveTheFormOfRedis7(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		c := connect(t, m)
		m.PushList("list")
		_, err := c.Do("EVAL", "return redis.call('GET', 'list')", 0)
		require.ErrorContains(t, err, "WRONGTYPE Operation against a key holding the wrong kind of value script: ")
		_, err = c.Do("EVAL", "error('no')", 0)
		require.ErrorContains(t, err, "ERR user_script:1: no script: ")
		_, err = c.Do("EVAL", "return redis.error_reply('CODE text')", 0)
		require.Equal(t, redis.Error("CODE text"), err)
		_, err = c.Do("EVAL", "rubbish(", 0)
		require.ErrorContains(t, err, "ERR Error compiling script")
	})
}

func TestADeniedCommandIsAnsweredNOPERM(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		c := connect(t, m)
		m.Deny("client|kill", "INFO")
		_, err := c.Do("CLIENT", "KILL", "ID", 1)
		require.Equal(t, redis.Error("NOPERM User default has no permissions to run the 'client|kill' command"), err)
		_, err = c.Do("INFO", "server")
		require.Equal(t, redis.Error("NOPERM User default has no permissions to run the 'info' command"), err)
		_, err = c.Do("EVAL", "return redis.call('INFO')", 0)
		require.ErrorContains(t, err, "ERR The user executing the script can't run this command or subcommand")
		do(t, c, "CLIENT", "ID")
		m.Deny("CLIENT")
		_, err = c.Do("CLIENT", "ID")
		require.ErrorContains(t, err, "NOPERM ")
		do(t, c, "INFO", "server")
		m.Deny()
		do(t, c, "CLIENT", "ID")
	})
}

func TestAHookSeesAndAnswersCommands(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		c := connect(t, m)
		var seen []string
		m.Hook(func(client int64, cmd string, args []string) (string, bool) {
			seen = append(seen, cmd)
			switch {
			case cmd == "SET" && args[0] == "bad":
				return oom, true
			case cmd == "SET" && args[0] == "nil":
				return "$-1", true
			case cmd == "SET" && args[0] == "mute":
				return "", true
			case cmd == "SET" && args[0] == "late":
				m.Client(client).HoldReplies()
			}
			return "", false
		})
		_, err := c.Do("SET", "bad", "v")
		require.Equal(t, redis.Error(oom), err)
		require.Nil(t, do(t, c, "SET", "nil", "v"))
		send(t, c, "SET mute v", "PING")
		reply, err := c.Receive()
		require.NoError(t, err)
		require.Equal(t, "PONG", reply, "the command before was not answered")
		require.Empty(t, m.Keys())
		require.Equal(t, []string{"SET", "SET", "SET", "PING"}, seen)

		send(t, c, "SET late v")
		_, err = redis.ReceiveWithTimeout(c, time.Minute)
		require.Error(t, err)
		require.Equal(t, []string{"late"}, m.Keys())

		m.Hook(nil)
		do(t, connect(t, m), "PING")
		require.Len(t, seen, 5)
	})
}

func TestAHookMayFreezeTheMasterForTheCommandThatItSees(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		c := connect(t, m)
		m.Hook(func(int64, string, []string) (string, bool) {
			m.Freeze()
			return "", false
		})
		send(t, c, "SET k v")
		synctest.Wait()
		require.Empty(t, m.Keys())
		m.Unfreeze()
		synctest.Wait()
		require.Equal(t, []string{"k"}, m.Keys())
	})
}

func TestAPasswordIsRequiredOfWhatTheHookAnswersToo(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		m.RequireAuth("u", "secret")
		c := connect(t, m)
		for _, words := range []string{"PING", "INFO server", "ROLE", "CLIENT ID"} {
			send(t, c, words)
			_, err := c.Receive()
			require.Equal(t, redis.Error("NOAUTH Authentication required."), err, words)
		}
		_, err := c.Do("AUTH", "u", "wrong")
		require.ErrorContains(t, err, "WRONGPASS ")
		do(t, c, "AUTH", "u", "secret")
		sha := do(t, c, "SCRIPT", "LOAD", "return 1")
		require.Equal(t, m.RunID(), info(t, c, "server", "run_id"))
		m.FlushScripts()
		_, err = c.Do("EVALSHA", sha, 0)
		require.ErrorContains(t, err, "NOSCRIPT ")
		m.RequireAuth("u", "")
		do(t, connect(t, m), "PING")
	})
}

func TestEveryClientHasAnIDAndALine(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		a, b := connect(t, m), connect(t, m)
		require.Equal(t, int64(1), do(t, a, "CLIENT", "ID"))
		require.Equal(t, int64(2), do(t, b, "CLIENT", "ID"))
		do(t, b, "CLIENT", "SETNAME", "me")
		do(t, b, "SELECT", 3)
		line := do(t, b, "CLIENT", "INFO").(string)
		require.Regexp(t, `^id=2 .* name=me .* db=3 .*\n$`, line)
		require.Contains(t, do(t, a, "CLIENT", "LIST"), line)
		require.Equal(t, "me", do(t, b, "CLIENT", "GETNAME"))
		_, err := a.Do("CLIENT", "KILL", "ID", "x")
		require.ErrorContains(t, err, "ERR client-id should be greater than 0")
		_, err = a.Do("CLIENT", "KILL", "COLOUR", "red")
		require.ErrorContains(t, err, "ERR syntax error")
		require.Equal(t, int64(0), do(t, a, "CLIENT", "KILL", "ID", 1), "the caller is not killed")
		require.Equal(t, int64(1), do(t, a, "CLIENT", "KILL", "ID", 1, "SKIPME", "no"))
		synctest.Wait()
		require.Equal(t, 1, m.Connections())
	})
}

func TestCommandsAreCountedAndLogged(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		c := connect(t, m)
		do(t, c, "set", "k", "v")
		do(t, c, "EVAL", "return redis.call('GET', KEYS[1])", 1, "k")
		require.Equal(t, map[string]int{"SET": 1, "EVAL": 1}, m.Commands())
		require.Equal(t, fakeredis.Entry{Client: 1, Name: "SET", Args: []string{"k", "v"}}, m.Log()[0])
		m.ForgetLog()
		require.Empty(t, m.Log())
		require.Empty(t, m.Commands())
		for range 40_000 {
			require.NoError(t, c.Send("PING"))
		}
		require.NoError(t, c.Flush())
		synctest.Wait()
		require.Equal(t, 40_000, m.Commands()["PING"])
		require.GreaterOrEqual(t, len(m.Log()), 1<<14)
		require.LessOrEqual(t, len(m.Log()), 2<<14)
	})
}

func TestTheDataIsReachedPastTheNetwork(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		m.Freeze()
		m.Set("a", "1", time.Second)
		m.Set("b", "2", 0)
		m.PushList("c")
		require.Equal(t, []string{"a", "b", "c"}, m.Keys())
		require.Equal(t, time.Second, m.TTL("a"))
		require.Zero(t, m.TTL("b"))
		_, ok := m.Get("c")
		require.False(t, ok)
		require.True(t, m.Del("c"))
		require.False(t, m.Del("c"))
		m.Set("a", "1", 0)
		require.Zero(t, m.TTL("a"))
		m.FlushAll()
		require.Empty(t, m.Keys())
	})
}

// A script that any master of the process has loaded is not compiled again. A client must not notice
// that.
func TestAScriptThatWasLoadedElsewhereIsKnownOnlyWhereItIsLoadedAndUntilItIsFlushed(t *testing.T) {
	for range 2 { // the first one compiles
		inBubble(t, func(t *testing.T, m *fakeredis.Master) {
			const text = "return redis.call('INCRBY', KEYS[1], ARGV[1])"
			const sha = "8cd00688c05c46bde4a2e60658ef20a2e5c0b248"
			c := connect(t, m)
			exists := func() any { return do(t, c, "SCRIPT", "EXISTS", sha, strings.Repeat("0", 40)) }
			require.Equal(t, []any{int64(0), int64(0)}, exists())
			require.Equal(t, sha, do(t, c, "SCRIPT", "LOAD", text))
			require.Equal(t, []any{int64(1), int64(0)}, exists())
			m.Deny("EVAL")
			for i := range 3 {
				require.Equal(t, int64(2*i+2), do(t, c, "EVALSHA", sha, 1, "k", 2), "EVALSHA does not need the right to EVAL")
			}
			_, err := c.Do("EVALSHA", sha, 1, "k", "x")
			require.ErrorContains(t, err, "ERR value is not an integer or out of range script: "+sha)
			m.FailWith("EVALSHA", "NOSCRIPT on demand")
			_, err = c.Do("EVALSHA", sha, 1, "k", 2)
			require.ErrorContains(t, err, "NOSCRIPT on demand")
			m.FailWith("EVALSHA", "")
			require.Equal(t, int64(8), do(t, c, "EVALSHA", sha, 1, "k", 2))

			do(t, c, "SCRIPT", "FLUSH")
			require.Equal(t, []any{int64(0), int64(0)}, exists())
			_, err = c.Do("EVALSHA", sha, 1, "k", 2)
			require.ErrorContains(t, err, "NOSCRIPT ")
			do(t, c, "SCRIPT", "LOAD", text)
			m.Deny("INCRBY")
			_, err = c.Do("EVALSHA", sha, 1, "k", 2)
			require.ErrorContains(t, err, "can't run this command")
			_, err = c.Do("SCRIPT", "LOAD", "this is no Lua")
			require.Error(t, err)
		})
	}
}

// Scripts of all masters run in the same Lua states.
func TestAScriptLeavesNothingToTheNext(t *testing.T) {
	inBubble(t, func(t *testing.T, m *fakeredis.Master) {
		c := connect(t, m)
		for _, text := range []string{
			"return redis.call('SUBSCRIBE', 'x')", "return redis.call('EVAL', 'return 1', 0)", "return redis.call('SELECT', 1)",
		} {
			_, err := c.Do("EVAL", text, 0)
			require.ErrorContains(t, err, "ERR This Redis command is not allowed from script")
		}
		_, err := c.Do("EVAL", "leak = ARGV[1]", 0, "1")
		require.ErrorContains(t, err, "Script attempted to create global variable 'leak'")
		_, err = c.Do("EVAL", "return leak", 0)
		require.ErrorContains(t, err, "Script attempted to access nonexistent global variable 'leak'")
		require.Empty(t, do(t, c, "EVAL", "return {ARGV[1], KEYS[1]}", 0))
		do(t, c, "SELECT", 1)
		do(t, c, "EVAL", "redis.call('SET', KEYS[1], ARGV[1])", 1, "k", "v")
		require.Empty(t, m.Keys(), "it runs in the client's database")
		require.Nil(t, do(t, connect(t, m), "EVAL", "return redis.call('GET', KEYS[1])", 1, "k"))
		require.Equal(t, []any{[]byte("v"), int64(3), nil, "OK", []any{[]byte("a")}}, do(t, c, "EVAL",
			"return {redis.call('GET', KEYS[1]), 3.9, false, redis.status_reply('OK'), {'a', nil, 'b'}}", 1, "k"))
	})
}
