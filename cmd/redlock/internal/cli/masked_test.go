package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A quotation mark in a password does not end what is hidden.
func TestAPasswordWithAQuotationMarkIsHidden(t *testing.T) {
	for _, text := range []string{
		`no command redis://:pa"ssSECRET@h`, `invalid value "redis://:pa\"ssSECRET@h" for flag`, "redis://u:SECRET@h and redis://u:SECRET@g",
	} {
		require.NotContains(t, Masked(text), "SECRET")
	}
	const own = "must be redis://[[user]:password@]host[:port][/database]; in user and password / ? # @ must be percent-encoded"
	require.Equal(t, own, Masked(own))
}
