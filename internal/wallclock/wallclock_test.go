package wallclock

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheWallClockIsThatOfTheMachineInMicroseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := Micros()
		require.Equal(t, time.Now().UnixMicro(), before)
		time.Sleep(1500 * time.Microsecond)
		require.Equal(t, int64(1500), Micros()-before)
	})
}
