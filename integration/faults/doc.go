// Package faults contends for locks on real servers while these are given every fault that a server or its network can have, and looks
// at what came of it.
//
// One cell of the matrix is a fault, a number of nodes, a kind of work and a number of contenders, in two processes. The fault strikes
// a minority of the nodes, which must not keep anybody from the lock, and then a majority. In every cell: no two held the lock at
// once, the fences of the holders are in order, a register that looks at fences lost no write that it had accepted, a holder whose time was
// over was told so, work went on when the fault had ended, and no key and no goroutine was left.
//
// Nodes that forget what they acknowledged are guarded (WithRestartGuard): without the guard two may hold the lock, and a test shows
// that this would be noticed.
//
// REDLOCK_TEST_FAULTS=all runs the whole matrix (make faults). REDLOCK_TEST_FAULTS=part, the default, runs a part of it, in which every
// two values of two columns meet; 1/3, 2/3 or 3/3 runs a third of that part.
package faults
