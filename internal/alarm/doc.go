// Package alarm wakes many things at their deadlines by one timer.
//
// A process may hold hundreds of thousands of locks, each of which has to be
// ended at its deadline and nearly all of which are released long before. A
// runtime timer for each would cost more than the lock; here setting and
// clearing is a few steps in a heap, and the one timer runs only while
// something is set.
package alarm
