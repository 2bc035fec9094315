// Package hostile shows what one hostile node of three costs: a server that answers with
// anything, in every phase of its connections. It holds tests only: nothing here is linked
// into a program.
//
// The tests measure the memory of the whole process, and have a package of their own so that
// no other test's memory hides what a reply costs. They run without the race detector, which needs
// more memory than the replies.
package hostile
