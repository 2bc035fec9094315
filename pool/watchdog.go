package pool

// checksPerTimeout is how many times the watchdog checks a connection within the hard timeout.
const checksPerTimeout = 4

// watchdog is the state of the check for answers that do not come. pipeline.mu guards it.
type watchdog struct {
	watching     bool
	watchTimer   alarm // of watch
	seen         int64 // answered, at the last check
	silentChecks int   // checks in a row without a reply
}

// armWatchdogLocked makes sure that the connection is checked while an answer is due. It costs
// nothing per command: the timer is set again until a check finds no answer due.
func (pc *pipeConn) armWatchdogLocked() {
	if !pc.watching && len(pc.batch) > 0 {
		pc.startWatchingLocked()
	}
}

// watchUnfinished makes sure that the connection is checked while a reply is unfinished, also a
// reply to no command. The reader calls it before it waits for the rest of the reply.
func (pc *pipeConn) watchUnfinished() {
	pc.pipeline.mu.Lock()
	defer pc.pipeline.mu.Unlock()
	if !pc.watching && pc.pipeline.conn == pc {
		pc.startWatchingLocked()
	}
}

// startWatchingLocked sets the timer, and notes how many answers there were.
func (pc *pipeConn) startWatchingLocked() {
	pc.watching, pc.silentChecks, pc.seen = true, 0, pc.commandsAnswered.Load()
	pc.setWatchLocked()
}

// setWatchLocked sets the timer of the next check.
func (pc *pipeConn) setWatchLocked() {
	cfg := pc.pipeline.node.cfg
	pc.watchTimer.set(cfg.Clock, cfg.HardTimeout/checksPerTimeout, pc.watch)
}

// watch is the timer's function. It ends a connection on which no answer came for the hard
// timeout (and up to a quarter more) while answers were due. It calls fail outside mu.
func (pc *pipeConn) watch() {
	if pc.isSilent() {
		pc.raw.End(ErrSilent)
	}
}

// isSilent makes one check, and reports whether the connection is to be ended. It sets the timer
// again while answers are due.
func (pc *pipeConn) isSilent() (silent bool) {
	pc.pipeline.mu.Lock()
	defer pc.pipeline.mu.Unlock()
	// commandsSent counts commands under mu before they are written, and commandsAnswered those that
	// were answered. So both are equal only if no answer is due. watching is reset under the lock under which
	// armWatchdogLocked reads it: the next batch sets the timer again. A timer that fires after
	// run has stopped it ends here once the connection is detached.
	answered := pc.commandsAnswered.Load()
	if answered == pc.commandsSent && !pc.raw.Unfinished() || pc.pipeline.conn != pc {
		pc.watching = false
		return false
	}
	pc.silentChecks++
	// Any answer since the last check shows that the peer is alive: the count begins again.
	if answered != pc.seen {
		pc.seen, pc.silentChecks = answered, 0
	}
	if pc.silentChecks >= checksPerTimeout {
		return true
	}
	pc.setWatchLocked()
	return false
}
