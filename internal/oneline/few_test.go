package oneline

import (
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func numbered(n int) (all []string) {
	for i := range n {
		all = append(all, strconv.Itoa(i+1))
	}
	return all
}

func TestOfManyATextNamesFive(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{
		0: "", 1: "1", 2: "1, 2", 5: "1, 2, 3, 4, 5", 6: "1, 2, 3, 4, 5 and 1 more", 10_000: "1, 2, 3, 4, 5 and 9995 more",
	} {
		require.Equal(t, want, List(numbered(n), ", "))
	}
	for n, want := range map[int]string{
		0: `[]`, 1: `"1"`, 2: `["1" "2"]`, 6: `["1" "2" "3" "4" "5"] and 1 more`,
	} {
		require.Equal(t, want, Quoted(numbered(n)))
	}
}

func TestOfManyJoinedErrorsTheTextHasFiveAndAllAreFound(t *testing.T) {
	t.Parallel()
	var all []error
	for _, text := range numbered(9) {
		all = append(all, errors.New(text))
	}
	err := Join(all...)
	require.EqualError(t, err, "1; 2; 3; 4; 5 and 4 more")
	for _, one := range all {
		require.ErrorIs(t, err, one)
	}
}
