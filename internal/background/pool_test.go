package background_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/background"
)

func TestAnItemThatTakesLongDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		open, ran := make(chan struct{}), make(chan int, n+1)
		p := background.NewPool(func(i int) {
			if i%1000 == 0 {
				<-open
			}
			ran <- i
		})
		for i := range n {
			p.Add(i)
		}
		synctest.Wait()
		require.Len(t, ran, n-n/1000)
		p.Add(1)
		synctest.Wait()
		require.Len(t, ran, n-n/1000+1)
		close(open)
		p.Join(clock.Runtime(), time.Hour)
		require.Len(t, ran, n+1)
	})
}

func TestJoiningAPoolIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		p := background.NewPool(func(int) { <-open })
		p.Join(clock.Runtime(), time.Hour)
		p.Add(1)
		began := time.Now()
		p.Join(clock.Runtime(), 3*time.Second)
		require.Equal(t, 3*time.Second, time.Since(began))
		close(open)
		p.Join(clock.Runtime(), time.Hour)
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}
