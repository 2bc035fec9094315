package redlock

import (
	"github.com/quorumlock/go-redlock/internal/door"
	"github.com/quorumlock/go-redlock/internal/vote"
)

func init() {
	door.SettingsOf = settingsOfLocker
	door.ForReads = option(func(s *settings) { s.onlyReads = true })
	door.Observe = func(locker any, o vote.Observer) { locker.(*Locker).group.Observer = o }
}

func settingsOfLocker(locker any) (door.Settings, error) {
	l, ok := locker.(*Locker)
	if !ok || l.isClosed() {
		return door.Settings{}, ErrClosed
	}
	s := door.Settings{
		Guard: l.guard, Exempts: l.set.votesUnfit, Prefix: l.set.prefix, Fencing: l.set.fencing,
		Clustered: l.set.clustered, Timeout: l.set.readTimeout(), Clock: l.set.clock,
	}
	for _, n := range l.nodes {
		s.Nodes = append(s.Nodes, n)
	}
	return s, nil
}
