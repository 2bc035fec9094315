// Package faults has processes contend for locks on real servers under every fault that a server or
// its network can have, and checks the results.
//
// One cell of the matrix is a fault, a number of nodes, a kind of work and a number of contenders,
// in two processes. The fault strikes a minority of the nodes, which must not prevent acquisitions,
// and then a majority. Every cell checks that
//
//   - no two contenders held the lock at once, and the fences are in the order of the holders;
//   - a register that checks fences lost no write that it had accepted;
//   - a holder whose validity was over was told so;
//   - contenders acquired the lock again after the fault;
//   - no key and no goroutine is left.
//
// Nodes that forget what they acknowledged are guarded (WithRestartGuard). Without the guard two
// contenders may hold the lock, and a test shows that the checks detect it.
//
// REDLOCK_TEST_FAULTS=all runs the whole matrix (make faults). REDLOCK_TEST_FAULTS=part, the
// default, runs a part of it in which every two values of two columns meet. 1/3, 2/3 or 3/3 runs a
// third of that part. cell:17 runs one cell of the whole matrix.
package faults
