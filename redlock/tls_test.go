package redlock

import (
	"context"
	"crypto/tls"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/pool/sentinel"
)

func TestNodesOfOpenUseTheTLSConfigurationThatIsGiven(t *testing.T) {
	asked := 0
	errNone := errors.New("no certificate today")
	config := func(context.Context) (*tls.Config, error) {
		asked++
		return nil, errNone
	}
	set, err := settingsOf([]Option{WithTLSConfig(config)})
	require.NoError(t, err)
	configs, err := parseAll([]string{"rediss://a", "rediss+sentinel://b/m", "redis://c"}, set)
	require.NoError(t, err)
	for _, get := range []func(context.Context) (*tls.Config, error){configs[0].TLS, configs[1].TLS, configs[1].Kind.(*sentinel.Config).TLS} {
		before := asked
		_, err := get(bg)
		require.ErrorIs(t, err, errNone)
		require.Equal(t, before+1, asked)
	}
	require.Nil(t, configs[2].TLS)

	_, err = Open([]string{"redis://127.0.0.1:1"}, WithTLSConfig(config))
	refuses(t, err, "WithTLSConfig", "rediss")
}
