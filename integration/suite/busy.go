package main

import (
	"sync"
	"syscall"
	"time"
)

// busy reports whether other programs take a good part of the processors. One that ends within a second
// does not count.
func busy() bool {
	for range 4 {
		if free(300*time.Millisecond) >= 0.75 {
			return false
		}
	}
	return true
}

// free returns the part of the processors that this process can have, from 0 to 1. It computes on all of
// them for d to find out.
func free(d time.Duration) float64 {
	n := processors()
	before, began := cpuTime(), time.Now()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for time.Since(began) < d { //nolint:revive // it computes
			}
		})
	}
	all.Wait()
	return float64(cpuTime()-before) / float64(time.Since(began)) / float64(n)
}

// cpuTime returns the processor time that this process has had.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
