//go:build !linux

package main

// adopt is for Linux.
func adopt() {}
