// Package fifo queues the contenders of one process by name, so that only one of them at a time
// contends for a name with other processes.
//
// Each name has a queue in order of arrival. A contender for several names enters all their queues
// in one step. It may proceed when it is at the head of all of them.
//
// Two contenders never wait for each other. All contenders enter under one mutex, which gives them
// a total order, and every queue keeps that order. Each contender waits only for earlier ones, so
// there is no cycle, and the earliest of all is at the head of all its queues. If contenders
// entered one queue after another there would be no such order. Two contenders for the same two
// names could each be first in one queue (docs/dev/hazards.md H110).
package fifo
