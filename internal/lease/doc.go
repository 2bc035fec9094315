// Package lease keeps the validity of a lock, and says what the lock has to do next. It is pure: it
// reads no clock, sets no timer and sends nothing. Its methods get the present time and return what
// is due. Only the pauses between retries contain randomness.
//
// A lease is not safe for concurrent use.
package lease
