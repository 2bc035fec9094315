package otelredlock

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	"github.com/quorumlock/go-redlock/pool"
)

// A server may answer by any word.
func TestOnlyKnownCodesOfServersAreValuesOfAnAttribute(t *testing.T) {
	for given, want := range map[string]string{"LOADING": "LOADING", "ERR": "ERR", "": "_OTHER", "SOMETHINGELSE": "_OTHER"} {
		word, some := code(&pool.ServerError{Code: given, Text: given + " text"})
		require.True(t, some)
		require.Equal(t, want, word)
	}
}

// The default name of a node behind Sentinels has the address of a Sentinel.
func TestOnlyTheAddressOfAServerIsAnAttribute(t *testing.T) {
	name := attribute.String("redlock.node", "10.0.0.1:6379/0")
	address := []attribute.KeyValue{attribute.String("server.address", "10.0.0.1"), attribute.Int("server.port", 6379)}
	require.Equal(t, append([]attribute.KeyValue{name}, address...), server("10.0.0.1:6379/0"))
	for _, node := range []string{"mymaster@10.0.0.1:26379/0", "cluster@10.0.0.1:6379", "n1", "/run/redis.sock/0"} {
		require.Equal(t, []attribute.KeyValue{attribute.String("redlock.node", node)}, server(node))
	}
}

func TestANilOptionIsSkipped(t *testing.T) {
	trace, err := New(nil, WithoutNames(), nil)
	require.NoError(t, err)
	require.NotNil(t, trace)
}
