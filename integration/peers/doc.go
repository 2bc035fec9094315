// Package peers runs other lock libraries beside this one: tests of a fleet that uses both, and of the faults in which others were seen to
// fail. Package adapters gives all of them one face; the program bench measures them side by side.
//
// It is a module of its own, so that neither the library's module graph nor that of integration/ holds six Redis clients, and it is not in
// go.work, because redsync asks for a newer Go than the library does (docs/dev/adr/0009-peers-are-a-module-of-their-own.md).
package peers
