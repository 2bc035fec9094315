// Package timer wakes many things at their deadlines by one timer of the clock.
//
// A process may hold hundreds of thousands of locks. Each has to be ended at its deadline, and nearly
// all are released long before. A timer of the Go runtime for each would cost more than the lock.
// Here setting and clearing a timer is a few steps in a heap, and the clock's timer runs only while
// something is set. An Alarm is for what has few timers.
package timer
