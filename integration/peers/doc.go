// Package peers runs other lock libraries beside this one. It tests clients of both libraries on
// the same servers, and the faults in which other libraries were seen to fail. Package adapters
// gives all libraries one interface. The program bench measures them side by side.
//
// It is a separate module, so neither the library's module graph nor that of integration/ contains
// six Redis clients. It is not in go.work, because redsync requires a newer Go than the library
// does (docs/dev/adr/0009-peers-are-a-module-of-their-own.md).
package peers
