package cluster

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/internal/command"
	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/internal/nodetest"
	"github.com/quorumlock/go-redlock/pool"
)

// channelsAt returns the names whose channels some client subscribes to at a master.
func channelsAt(t *testing.T, m *fakeredis.Master, names ...string) (found []string) {
	t.Helper()
	for _, name := range names {
		if nodetest.Publish(t, m, command.FreePrefix+name, "") > 0 {
			found = append(found, name)
		}
	}
	return found
}

// killPubSub ends the subscriptions' connections to a master.
func killPubSub(t *testing.T, m *fakeredis.Master) {
	t.Helper()
	raw, err := m.Dial(t.Context(), "", "")
	require.NoError(t, err)
	c := redis.NewConn(raw, 0, 0)
	_, err = c.Do("CLIENT", "KILL", "TYPE", "pubsub")
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

// next returns the next events, in any order.
func next(heard nodetest.Diary, n int) (all []string) {
	for range n {
		all = append(all, <-heard)
	}
	slices.Sort(all)
	return all
}

var spread = []string{"foo", "bar", "hello", "a", "b"} // on several masters

func TestEachChannelIsSubscribedToAtTheMasterOfItsSlot(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		heard := make(nodetest.Diary, 100)
		s := command.FromPool(n).Subscribe(heard)
		for _, name := range spread {
			s.Add(command.FreePrefix + name)
			s.Add(command.FreePrefix + name)
			require.Equal(t, "subscribed redlock:free:"+name, <-heard)
		}
		masters := map[*fakeredis.Master]bool{}
		for _, name := range spread {
			m := cl.Owner(name)
			masters[m] = true
			for _, other := range cl.Masters {
				require.Equal(t, other == m, len(channelsAt(t, other, name)) == 1)
			}
			require.Equal(t, "redlock:free:"+name+": ", <-heard)
		}
		require.Greater(t, len(masters), 1)
		s.Remove(command.FreePrefix + "foo")
		synctest.Wait()
		require.Empty(t, channelsAt(t, cl.Owner("foo"), "foo"))
		s.Close()
		s.Add(command.FreePrefix + "foo")
		synctest.Wait()
		for _, m := range cl.Masters {
			require.Empty(t, channelsAt(t, m, spread...))
		}
		require.Empty(t, clusterOf(n).subscriptions)
	})
}

// Otherwise a waiter would rely on announcements that are made elsewhere.
func TestChannelsFollowTheirSlots(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		heard := make(nodetest.Diary, 100)
		s := command.FromPool(n).Subscribe(heard)
		defer s.Close()
		from := cl.Owner("foo")
		var stay string // on another master
		for _, name := range spread {
			if cl.Owner(name) != from {
				stay = name
			}
		}
		s.Add(command.FreePrefix + "foo")
		s.Add(command.FreePrefix + stay)
		next(heard, 2)
		cl.TakeSlot(from, cl.Add(), true)
		clusterOf(n).refresh.wake.Set()
		time.Sleep(2 * refreshSeldom)
		synctest.Wait()
		require.Equal(t, []string{"down", "subscribed redlock:free:" + stay, "subscribed redlock:free:foo"}, next(heard, 3)[:3], "what is still heard is said again")
		require.Equal(t, []string{"foo"}, channelsAt(t, cl.Owner("foo"), "foo"))
		require.Empty(t, channelsAt(t, from, "foo"))
		require.Equal(t, "redlock:free:foo: ", <-heard)
		synctest.Wait()
		require.Equal(t, 1, from.Connections(), "its pipelined connection")
	})
}

// The channels at other masters are heard all the time.
func TestTheEndOfAConnectionConcernsTheChannelsOfOneMaster(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		heard := make(nodetest.Diary, 100)
		s := command.FromPool(n).Subscribe(heard)
		defer s.Close()
		for _, name := range spread {
			s.Add(command.FreePrefix + name)
		}
		next(heard, len(spread))
		m := cl.Owner("foo")
		killPubSub(t, m)
		var again []string
		for _, name := range spread {
			again = append(again, "subscribed redlock:free:"+name)
		}
		slices.Sort(again)
		require.Equal(t, "down", <-heard)
		require.Equal(t, again, next(heard, len(spread)))
	})
}

// The waiters of all other masters would poll a few times a second.
func TestAMasterThatCannotBeReachedConcernsNoChannelOfAnother(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		heard := make(nodetest.Diary, 100)
		s := command.FromPool(n).Subscribe(heard)
		defer s.Close()
		m := cl.Owner("foo")
		s.Add(command.FreePrefix + keyOn(cl, nodetest.Others(cl, "foo")[0]))
		<-heard
		for range 2 {
			m.Stop()
			synctest.Wait()
			s.Add(command.FreePrefix + "foo")
			time.Sleep(10 * time.Second)
			synctest.Wait()
			require.Empty(t, heard)
			require.NoError(t, m.Restart(false))
			require.Equal(t, "subscribed redlock:free:foo", <-heard)
			m.Stop()
			require.Equal(t, []string{"down", "subscribed"}, []string{<-heard, strings.Fields(<-heard)[0]}, "it was heard, and the other still is")
			s.Remove(command.FreePrefix + "foo")
		}
	})
}

// Channels may be added before there is a slot map.
func TestChannelsWaitForTheFirstSlotMap(t *testing.T) {
	inCluster(t, nil, func(t *testing.T, cl *fakeredis.Cluster, n *pool.Node) {
		c := clusterOf(n)
		c.mu.Lock()
		c.slots.mapped(nil, "", nodetest.Now(n))
		c.mu.Unlock()
		heard := make(nodetest.Diary, 100)
		s := command.FromPool(n).Subscribe(heard)
		defer s.Close()
		s.Add(command.FreePrefix + "foo")
		s.Add(command.FreePrefix + "bar")
		s.Remove(command.FreePrefix + "bar")
		synctest.Wait()
		require.Empty(t, heard)
		c.refresh.wake.Set()
		require.Equal(t, []string{"down", "subscribed redlock:free:foo"}, next(heard, 2))
		require.Empty(t, channelsAt(t, cl.Owner("bar"), "bar"))
	})
}
