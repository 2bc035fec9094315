package transport

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// closes counts how often it was closed.
type closes struct {
	redis.Conn
	n *int
}

func (c closes) Close() error {
	*c.n++
	return nil
}

func TestAConnectionThatAWrappedDialReturnsWithAnErrorIsClosed(t *testing.T) {
	n := 0
	w := NewWrapped(&Settings{}, &redis.Pool{Dial: func() (redis.Conn, error) { return closes{n: &n}, errors.New("x") }}, new(atomic.Int64))
	c, err := w.connect(t.Context())
	require.EqualError(t, err, "x")
	require.Nil(t, c)
	require.Equal(t, 1, n)
}
