//go:build unix && !aix && !solaris && !linux

package process

// Adopt does nothing: only Linux has child subreapers.
func Adopt() {}

// Strays returns nothing: no orphan becomes a child of this process.
func Strays() []Group { return nil }
