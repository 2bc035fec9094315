package command

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each release that is announced says how long its holder had waited, also in one call with others. The usual call is
// shorter: nobody had waited.
func TestAMergedReleaseSaysHowLongEachHolderHadWaited(t *testing.T) {
	release := func(key string, age time.Duration) *Command {
		args, r := &LockArgs{}, &Request{}
		args.Set([]string{key}, "token of "+key)
		NewAnnouncingRelease(r, args, 0, age)
		return &Command{Request: r}
	}
	call := func(ages ...time.Duration) []any {
		_, args := MergedCall(nil, false, []*Command{release("a", ages[0]), release("b", ages[1])}, "all", nil)
		return args[1:] // behind the script's hash
	}
	short := []any{int64(2), "a", "b", "token of a", "token of b", "all"}
	require.Equal(t, short, call(0, 0))
	require.Equal(t, append(short, int64(0), int64(5000)), call(0, 5*time.Millisecond))
}
