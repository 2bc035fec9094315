package pool

// checksPerTimeout is how often a connection is checked within the hard timeout.
const checksPerTimeout = 4

// armWatchdogLocked starts the checks of a connection on which a reply is due. It costs nothing
// per command: the timer continues until a check finds that no reply is due.
func (pc *pipeConn) armWatchdogLocked() {
	if !pc.watching && len(pc.batch) > 0 {
		pc.startWatchingLocked()
	}
}

// watchUnfinished starts the checks while a reply is unfinished, also a reply that no command
// waits for. The reader calls it before it waits for the rest.
func (pc *pipeConn) watchUnfinished() {
	pc.pipeline.mu.Lock()
	defer pc.pipeline.mu.Unlock()
	if !pc.watching && pc.pipeline.conn == pc {
		pc.startWatchingLocked()
	}
}

// startWatching is called under lane.mu.
func (pc *pipeConn) startWatchingLocked() {
	pc.watching, pc.silentChecks, pc.seen = true, 0, pc.answered.Load()
	every := pc.pipeline.node.cfg.HardTimeout / checksPerTimeout
	if pc.timer == nil {
		pc.timer = pc.pipeline.node.cfg.Clock.AfterFunc(every, pc.watch)
		return
	}
	pc.timer.Reset(every)
}

// watch ends a connection that received nothing for the hard timeout, and up to a quarter more,
// while replies were due. It calls fail after the mutex is released, because fail wakes
// goroutines that take it.
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
