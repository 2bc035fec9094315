// Package sim runs the library's real code against faulty servers in memory, in virtual time.
// Clients have clocks of their own, a seed selects the faults, and oracles check what the holders
// saw. Every assumption is also broken on purpose, to show that an oracle detects it. The package
// has tests only.
package sim
