package pool

// checksPerTimeout is how many times within the hard timeout a link is looked at.
const checksPerTimeout = 4

// armWatchdogLocked makes sure that the link is looked at while an answer is due.
// It costs nothing per command: the timer goes on until a look finds nothing owed.
func (pc *pipeConn) armWatchdogLocked() {
	if !pc.watching && len(pc.batch) > 0 {
		pc.startWatching()
	}
}

// watchUnfinished makes sure that the link is looked at while a reply is unfinished, also
// one that nobody asked for. The reader calls it before it waits for the rest.
func (pc *pipeConn) watchUnfinished() {
	pc.pipeline.mu.Lock()
	defer pc.pipeline.mu.Unlock()
	if !pc.watching && pc.pipeline.conn == pc {
		pc.startWatching()
	}
}

// startWatching is called under lane.mu.
func (pc *pipeConn) startWatching() {
	pc.watching, pc.silentChecks, pc.seen = true, 0, pc.answered.Load()
	every := pc.pipeline.node.cfg.HardTimeout / checksPerTimeout
	if pc.timer == nil {
		pc.timer = pc.pipeline.node.cfg.Clock.AfterFunc(every, pc.watch)
		return
	}
	pc.timer.Reset(every)
}

// watch ends a connection on which nothing was heard for the hard timeout (and
// up to a quarter more) while answers were owed.
func (pc *pipeConn) watch() {
	if pc.isSilent() {
		pc.fail(ErrSilent)
	}
}

func (pc *pipeConn) isSilent() (silent bool) {
	pc.pipeline.mu.Lock()
	defer pc.pipeline.mu.Unlock()
	answered := pc.answered.Load()
	if answered == pc.sent && !pc.raw.unfinished() || pc.pipeline.conn != pc {
		pc.watching = false
		return false
	}
	pc.silentChecks++
	if answered != pc.seen {
		pc.seen, pc.silentChecks = answered, 0
	}
	if pc.silentChecks >= checksPerTimeout {
		return true
	}
	pc.timer.Reset(pc.pipeline.node.cfg.HardTimeout / checksPerTimeout)
	return false
}
