//go:build unix && !aix && !solaris && !linux

package process

// Adopt does nothing: only Linux has child subreapers. No orphan becomes a child of this process.
func Adopt() (onlyTheCommands bool) { return false }

func strays() []Group { return nil }
