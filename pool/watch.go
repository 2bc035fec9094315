package pool

// watchParts is how many times within the hard timeout a link is looked at.
const watchParts = 4

// watchLocked makes sure that the link is looked at while an answer is due.
// It costs nothing per command: the timer goes on until a look finds nothing owed.
func (k *link) watchLocked() {
	if !k.watching && len(k.batch) > 0 {
		k.startWatching()
	}
}

// watchUnfinished makes sure that the link is looked at while a reply is unfinished, also
// one that nobody asked for. The reader calls it before it waits for the rest.
func (k *link) watchUnfinished() {
	k.lane.mu.Lock()
	defer k.lane.mu.Unlock()
	if !k.watching && k.lane.link == k {
		k.startWatching()
	}
}

// startWatching is called under lane.mu.
func (k *link) startWatching() {
	k.watching, k.strikes, k.seen = true, 0, k.answered.Load()
	every := k.lane.node.cfg.HardTimeout / watchParts
	if k.timer == nil {
		k.timer = k.lane.node.cfg.Clock.AfterFunc(every, k.watch)
		return
	}
	k.timer.Reset(every)
}

// watch ends a connection on which nothing was heard for the hard timeout (and
// up to a quarter more) while answers were owed.
func (k *link) watch() {
	if k.isSilent() {
		k.fail(ErrSilent)
	}
}

func (k *link) isSilent() (silent bool) {
	k.lane.mu.Lock()
	defer k.lane.mu.Unlock()
	answered := k.answered.Load()
	if answered == k.sent && !k.session.unfinished() || k.lane.link != k {
		k.watching = false
		return false
	}
	k.strikes++
	if answered != k.seen {
		k.seen, k.strikes = answered, 0
	}
	if k.strikes >= watchParts {
		return true
	}
	k.timer.Reset(k.lane.node.cfg.HardTimeout / watchParts)
	return false
}
