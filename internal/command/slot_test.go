package command

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// By the Redis Cluster specification, and CLUSTER KEYSLOT of Redis 7.
func TestAKeysSlotIsThatOfTheSpecification(t *testing.T) {
	require.Equal(t, uint16(0x31C3), crc16("123456789"))
	for key, want := range map[string]int{
		"": 0, "foo": 12182, "bar": 5061, "123456789": 12739,
		"{foo}": 12182, "a{foo}b": 12182, "a{foo}{bar}": 12182, "}{foo}": 12182,
		"{}foo": 9500, "foo{": 7673, "foo{}{bar}": 8363, "foo{{bar}}zap": 4015,
	} {
		require.Equal(t, want, Slot(key), key)
	}
	require.Equal(t, Slot("{bar"), Slot("foo{{bar}}zap"), "up to the first }")
	require.NotEqual(t, Slot("bar"), Slot("foo{}{bar}"), "an empty tag is none, and no other counts")
	require.True(t, SameSlot([]string{"{a}1", "2{a}", "a"}))
	require.False(t, SameSlot([]string{"a", "b"}))
}

// docs/dev/rules.md rule 30.
func TestACounterHasItsKeysSlotOrTheKeyIsSaidToHaveNone(t *testing.T) {
	parts := []string{"", "a", "{", "}", "ab"}
	var walk func(key string, more int)
	checked := 0
	walk = func(key string, more int) {
		if strings.Trim(key, "{}") != "" {
			same := Slot(FenceKey(key, true)) == Slot(key)
			require.Equal(t, same, CanHaveFenceKey(key), key)
			require.True(t, strings.Contains(key, "}") || CanHaveFenceKey(key), key)
			require.True(t, strings.HasPrefix(FenceKey(key, true), Reserved))
			checked++
		}
		for _, p := range parts[1:] {
			if more > 0 {
				walk(key+p, more-1)
			}
		}
	}
	walk("", 5)
	require.Greater(t, checked, 1000)
	require.Equal(t, "redlock:fence:{orders}", FenceKey("orders", true))
	require.Equal(t, "redlock:fence:{a}b", FenceKey("{a}b", true))
	require.Equal(t, "redlock:fence:orders", FenceKey("orders", false))
	require.False(t, CanHaveFenceKey("a}b"))
}
