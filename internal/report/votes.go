package report

import "sync/atomic"

// Votes logs lasting states when they begin and when they end, and not at every attempt: whether a quorum votes, and
// which nodes do not vote. Its methods are safe for concurrent use.
type Votes struct {
	log       *Reporter
	noQuorum  atomic.Bool   // the latest attempt found no quorum
	notVoting []atomic.Bool // by node: it does not vote
}

// NewVotes returns the states of so many nodes, which all vote.
func NewVotes(log *Reporter, nodes int) *Votes {
	return &Votes{log: log, notVoting: make([]atomic.Bool, nodes)}
}

// NoQuorum records that an attempt for the names found no quorum that votes.
func (v *Votes) NoQuorum(names []string, err error) {
	if !v.noQuorum.Swap(true) {
		v.log.Warn("no quorum votes: nothing can be acquired", "names", names, "error", err)
	}
}

// Quorum records that a quorum has voted.
func (v *Votes) Quorum() {
	if v.noQuorum.Load() && v.noQuorum.Swap(false) {
		v.log.Info("a quorum votes again")
	}
}

// Voted records that a node has voted.
func (v *Votes) Voted(node int, name string) {
	if out := &v.notVoting[node]; out.Load() && out.Swap(false) {
		v.log.Info("a node votes again", "node", name)
	}
}

// NotVoting records that a node does not vote, and why.
func (v *Votes) NotVoting(node int, name string, why error) {
	if !v.notVoting[node].Swap(true) {
		v.log.Warn("a node does not vote", "node", name, "error", why)
	}
}
