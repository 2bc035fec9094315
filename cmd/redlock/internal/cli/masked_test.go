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
	for _, text := range []string{`no command "redis://app:SECRET x://SECRET@h"`, `"redis://app:SECRET; b: SECRET@h"`, "redis://u:SECRET@x@h"} {
		require.NotContains(t, Masked(text), "SECRET")
	}
	require.Equal(t, "[a: failed: no connection to redis://…@h:1/0: refused; m@h:2/0: unknown: redis://…@h:2/0; c: granted]",
		Masked("[a: failed: no connection to redis://app@h:1/0: refused; m@h:2/0: unknown: redis://app@h:2/0; c: granted]"), "each node is named")
	const two = "URL 1 of 2: write redis://:password@host for a password alone; URL 2 of 2: @ after the host"
	require.Equal(t, two, Masked(two))
	const own = "must be redis://[[user]:password@]host[:port][/database]; in user and password / ? # @ must be percent-encoded"
	require.Equal(t, own, Masked(own))
}
