// Package sim runs the library's real code against masters in memory that misbehave, in
// virtual time: clients with clocks of their own, faults drawn from a seed, oracles over
// what the holders saw, and every assumption broken on purpose to show that an oracle
// notices. It holds tests only.
package sim
