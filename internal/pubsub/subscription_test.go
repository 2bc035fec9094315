package pubsub

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/clock"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/signal"
	"github.com/quorumlock/go-redlock/internal/transport"
)

// diary records what a listener receives.
type diary chan string

func (d diary) Subscribed(channel string)       { d <- "subscribed " + channel }
func (d diary) Message(channel, payload string) { d <- channel + ": " + payload }
func (d diary) Down(error)                      { d <- "down" }

func subscribing(t *testing.T, f func(m *fakeredis.Master, s *Subscription, heard diary)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := fakeredis.New("n1")
		defer m.Close()
		settings := &transport.Settings{
			Address: m.Addr(), Connect: m.Dial, ClientName: "test", DialTimeout: 5 * time.Second,
			RedialMin: 10 * time.Millisecond, RedialMax: 500 * time.Millisecond, Clock: clock.Runtime(),
		}
		dial := func(ctx context.Context) (*transport.Conn, error) {
			c, err := settings.Dial(ctx)
			if err != nil {
				return nil, err
			}
			if _, err := c.Greet(ctx); err != nil {
				c.Close()
				return nil, err
			}
			return c, nil
		}
		heard := make(diary, 100)
		s := New(t.Context(), settings, dial, heard, func(string, error) {})
		defer s.Close()
		f(m, s, heard)
	})
}

// publish sends a message to a master on a connection of its own. It returns how many clients received it.
func publish(t *testing.T, m *fakeredis.Master, channel, payload string) int {
	t.Helper()
	raw, err := m.Dial(context.Background(), "", "")
	require.NoError(t, err)
	c := redis.NewConn(raw, 0, 0)
	heard, err := redis.Int(c.Do("PUBLISH", channel, payload))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	return heard
}

func TestASubscriptionHearsMessagesOfTheChannelsThatAreWanted(t *testing.T) {
	subscribing(t, func(m *fakeredis.Master, s *Subscription, heard diary) {
		s.Add("a")
		require.Equal(t, "subscribed a", <-heard)
		s.Add("b")
		require.Equal(t, "subscribed b", <-heard)
		publish(t, m, "a", "1")
		require.Equal(t, "a: 1", <-heard)
		s.Remove("a")
		synctest.Wait()
		publish(t, m, "a", "2")
		publish(t, m, "b", "3")
		require.Equal(t, "b: 3", <-heard)
	})
}

func TestASubscriptionIsDialledOnlyWhenSomethingIsWanted(t *testing.T) {
	subscribing(t, func(m *fakeredis.Master, s *Subscription, heard diary) {
		synctest.Wait()
		require.Zero(t, m.Connections())
		s.Add("a")
		<-heard
		require.Equal(t, 1, m.Connections())
	})
}

func TestASubscriptionThatIsKilledComesBackWithItsChannels(t *testing.T) {
	subscribing(t, func(m *fakeredis.Master, s *Subscription, heard diary) {
		s.Add("a")
		require.Equal(t, "subscribed a", <-heard)
		clients := m.Clients()
		clients[len(clients)-1].Drop()
		require.Equal(t, "down", <-heard)
		require.Equal(t, "subscribed a", <-heard)
		publish(t, m, "a", "1")
		require.Equal(t, "a: 1", <-heard)
	})
}

func TestASubscriptionOutlivesAStoppedMaster(t *testing.T) {
	subscribing(t, func(m *fakeredis.Master, s *Subscription, heard diary) {
		s.Add("a")
		<-heard
		m.Stop()
		require.Equal(t, "down", <-heard)
		synctest.Wait()
		require.NoError(t, m.Restart(false))
		for word := <-heard; word != "subscribed a"; word = <-heard {
			require.Equal(t, "down", word)
		}
	})
}

func TestASubscriptionOnASilentConnectionIsDialledAgainAfterTwoPings(t *testing.T) {
	subscribing(t, func(m *fakeredis.Master, s *Subscription, heard diary) {
		s.Add("a")
		<-heard
		began := time.Now()
		m.Freeze()
		require.Equal(t, "down", <-heard)
		require.LessOrEqual(t, time.Since(began), 3*pingEvery)
		m.Unfreeze()
		require.Equal(t, "subscribed a", <-heard)
	})
}

func TestAnIdleSubscriptionIsPingedAndStays(t *testing.T) {
	subscribing(t, func(m *fakeredis.Master, s *Subscription, heard diary) {
		s.Add("a")
		<-heard
		time.Sleep(time.Minute) // virtual
		synctest.Wait()
		require.Empty(t, heard)
		require.GreaterOrEqual(t, m.Commands()["PING"], 10)
	})
}

// A subscription without channels ends, with its connection and its goroutine. It is made again
// when a channel is added.
func TestASubscriptionThatIsNotWantedAnyMoreEnds(t *testing.T) {
	subscribing(t, func(m *fakeredis.Master, s *Subscription, heard diary) {
		for range 3 {
			s.Add("a")
			require.Equal(t, "subscribed a", <-heard)
			require.Equal(t, 1, m.Connections())
			s.Remove("a")
			time.Sleep(3 * time.Second)
			s.Add("b") // soon after: the same connection serves it
			require.Equal(t, "subscribed b", <-heard)
			s.Remove("b")
			time.Sleep(2 * pingEvery)
			synctest.Wait()
			require.Zero(t, m.Connections())
			require.False(t, s.running)
			require.Empty(t, heard)
		}
	})
}

// The connection is dead, and channels change all the time. The node must notice it all the same.
func TestASilentConnectionIsNoticedWhileChannelsChange(t *testing.T) {
	subscribing(t, func(m *fakeredis.Master, s *Subscription, heard diary) {
		s.Add("a")
		<-heard
		m.Freeze()
		began := time.Now()
		for len(heard) == 0 {
			time.Sleep(time.Second)
			s.Add(time.Since(began).String())
			require.LessOrEqual(t, time.Since(began), 3*pingEvery)
		}
		require.Equal(t, "down", <-heard)
		m.Unfreeze()
	})
}

// Waiters come and go while a node is down, for hours.
func TestChannelsThatComeAndGoWhileTheNodeIsDownAreNotKept(t *testing.T) {
	subscribing(t, func(m *fakeredis.Master, s *Subscription, _ diary) {
		m.Stop()
		s.Add("stays")
		for range 150 {
			s.Add("a")
			s.Remove("a")
			time.Sleep(100 * time.Millisecond)
		}
		s.mu.Lock()
		added := len(s.added)
		s.mu.Unlock()
		require.LessOrEqual(t, added, 10, "those since the last dial")
		s.Add("b")
		require.NoError(t, m.Restart(false))
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, []int{1, 1, 0}, []int{publish(t, m, "stays", ""), publish(t, m, "b", ""), publish(t, m, "a", "")})
	})
}

// The writer, which checks whether the server answers, is stuck in the write.
func TestAServerThatDoesNotTakeASubscriptionIsDialledAgain(t *testing.T) {
	subscribing(t, func(m *fakeredis.Master, s *Subscription, heard diary) {
		s.Add("a")
		require.Equal(t, "subscribed a", <-heard)
		m.Freeze()
		for i := range 20 { // more than the buffers take
			s.Add(strings.Repeat("x", 10_000) + strconv.Itoa(i))
		}
		time.Sleep(2 * pingEvery)
		synctest.Wait()
		require.NotEmpty(t, heard)
		m.Unfreeze()
	})
}

// A waiter for one more name takes no time for the names of all others.
func TestSubscribingTakesTimeForTheNewChannelsOnly(t *testing.T) {
	const many = 10_000
	// A connection without a writer.
	s := &Subscription{wanted: make(map[string]bool), wake: signal.New(), running: true}
	began := time.Now()
	channels := make([]string, many)
	for i := range channels {
		channels[i] = strconv.Itoa(i)
		s.Add(channels[i])
	}
	join, _ := s.pendingChanges()
	require.Len(t, join, many)
	all := time.Since(began)
	s.resetSent()
	join, _ = s.pendingChanges()
	require.Len(t, join, many, "on a new connection all of them")
	var took time.Duration
	most := time.Second/2 + 50*all
	for range 3 { // a busy machine stops the process during one of them
		began = time.Now()
		for _, channel := range channels {
			s.Remove(channel)
			s.Add(channel)
			join, leave := s.pendingChanges()
			require.Equal(t, []any{channel}, join)
			require.Empty(t, leave, "it is wanted again")
		}
		if took = time.Since(began); took < most {
			return
		}
	}
	require.Less(t, took, most)
}

// The server may soon execute what it refused now. A right that other commands lack does not keep
// it from subscribing.
func TestASubscriptionThatEndsForAnotherReasonIsMadeAgainAtOnce(t *testing.T) {
	for name, refuse := range map[string]func(m *fakeredis.Master, s *Subscription){
		"a script is running": func(m *fakeredis.Master, _ *Subscription) {
			m.FailWith("SUBSCRIBE", "BUSY Redis is busy running a script")
			m.Clients()[0].Drop()
		},
		"no right to unsubscribe": func(m *fakeredis.Master, s *Subscription) {
			m.Deny("UNSUBSCRIBE")
			s.Remove("b")
		},
	} {
		subscribing(t, func(m *fakeredis.Master, s *Subscription, heard diary) {
			s.Add("a")
			require.Equal(t, "subscribed a", <-heard)
			s.Add("b")
			require.Equal(t, "subscribed b", <-heard)
			refuse(m, s)
			require.Equal(t, "down", <-heard, name)
			time.Sleep(100 * time.Millisecond)
			m.Deny()
			m.FailWith("SUBSCRIBE", "")
			time.Sleep(time.Second)
			require.Equal(t, 1, m.Connections(), name)
		})
	}
}
