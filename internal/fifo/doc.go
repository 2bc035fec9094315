// Package fifo lines up the contenders of one process for names, so that only
// one of them at a time contends for a name with other processes.
//
// Each name has a queue, first come first served. A contender for several
// names enters all their queues at once, and its turn has come when it is at
// the head of all of them.
//
// Two contenders never wait for each other. All entries are made under one
// mutex, so contenders have a total order, that of entering, and stand in that
// order in every queue that they share. Each waits only for earlier ones;
// going from waiting to waited-for always leads to an earlier one and so never
// round in a circle, and the earliest of all is at the head of all its queues.
// (Entering queue after queue gives no such order: of two contenders for the
// same two names each could be first in one, docs/hazards.md H110.)
package fifo
