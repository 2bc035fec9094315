// Package model checks the protocols of fencing and of the restart guard by
// visiting every state that they can reach. It holds tests only: nothing here
// is linked into a program.
//
//	go test ./internal/model               # seconds
//	go test ./internal/model -model.long   # make model: minutes, wider bounds
//
// A protocol is a plain comparable struct and a function that emits every state
// one step away; each step names the rule of docs/dev/rules.md that it is. explore
// visits the states in order of their distance. What it finds is a shortest
// run, which it prints step by step. The zero value of fenceRules and of
// guardRules is the protocol that is shipped; each field takes one safeguard
// away, and the tests demand that the same search then finds a violation.
// States that differ only in the names of nodes and attempts are one state, and
// a test compares that with the search without it.
//
// Both models are of three nodes and two attempts at a time: what is promised
// is promised of pairs, and what a third attempt does to a pair is that nodes
// refuse, as if messages were lost, and that counters rise, as by a hint.
//
// # Fences
//
// Modelled: rules 1, 2, 5, 12 and 13. Requests, replies and undos are late or
// lost in every way, also beyond the end of the attempt; any majority of the
// grants is the one whose maximum is taken; counters start anywhere; hints are
// arbitrary at every grant; a lock has one name or two. Faults, as many as the
// bounds say: a key that expires early, a node that loses its keys and keeps
// its counters. Time is not modelled: a key expires when it will once the lock
// has ended, so nothing here rests on clocks.
//
// Theorem: the tokens of two locks that have a name in common are distinct; if
// one was asked for when the other was had, its token is larger; and at a node
// that confirmed both, who had it first has the smaller one.
//
// Proof. Say that n confirms a when at one instant n's keys hold a's token, n's
// counters are at least a's fence t(a), and the number c(n, a) with which n
// granted a is at most t(a). Both ways in which a node counts are such instants:
// it granted with c = t, or it granted with c ≤ t and executed the confirmation
// while it held the token. Let a and b be done. Majorities meet, so some n
// confirms both. A token is set on a node once, so that one's time there is
// over when the other's begins, say a's. Then t(a) ≤ counter < c(n, b) ≤ t(b).
// So tokens differ, and at every common node the smaller one came first. If a
// was done before b started, a's instant at n came before b's grant. ∎
//
// The last inequality needs that a confirmation counts only where the node's
// own grant is not above the fence. A grant that came in after the fence was
// chosen can be: without that condition one early expiry gives two locks the
// same fence (fenceRules.confirmAbove).
//
// # The guard
//
// Modelled: rules 1 to 3, 5, 6, 8, 9 and 15 to 17, and Detach and Resume. Time
// is ticks, the same on all clocks; a node forgets everything, loses its marker
// alone, or comes back as another incarnation with any older key, as often as it
// likes and on all nodes at once; attempts follow one another without end, two
// at a time. A marker is missing or of another incarnation, quarantined until an
// instant, or ok.
//
// Theorem: with any number of amnesias on any nodes no two locks are valid at
// once, if every script that creates a key reads ok in that same script, every
// other marker becomes ok only through a full maxTTL (or by Admit before the
// first client), every client is guarded with the same maxTTL ≥ every PX,
// nothing brings older data back under a marker that is ok, and rules 5, 8 and 9
// hold. It holds with repairs, claims and logs together, also where an extension
// counts from a node that was repaired while its round was under way.
//
// Idea of a proof. Whatever a node voted for before it forgot is over, by
// the voter's clock, when it votes again: the vote was worth no more than maxTTL
// from before it was cast. So a valid lock rests on a majority of nodes that
// have not forgotten it, or will not vote while it is valid.
//
// Not modelled: clocks that differ or jump, and with them the drift allowance
// and the client's own timer of rule 16; what a connection knows of a node (a
// key is created wherever the marker is ok, whichever incarnation was expected,
// which is more than the rule allows); several names; two rounds of extensions
// at once; the order of two connections (rule 6 is taken as kept); Sentinel (rule 29); the fence under the
// guard, whose counters are forgotten too and rest on the hint.
//
// Wherever the code was found to do more than the model, or less, the model is
// to be changed first.
package model
