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
	require.Equal(t, `a: dial "redis://…@h:1/0": refused; b: redis://…@h:2/0: refused`,
		Masked(`a: dial "redis://u:p@x@h:1/0": refused; b: redis://u:p@h:2/0: refused`), "each node is named")
	const own = "must be redis://[[user]:password@]host[:port][/database]; in user and password / ? # @ must be percent-encoded"
	require.Equal(t, own, Masked(own))
}
