//go:build !linux

package process

// Adopt does nothing: only Linux has child subreapers.
func Adopt() {}
