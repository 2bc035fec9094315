package command

import (
	"cmp"
	"os"
	"strconv"
	"strings"
	"unicode"
)

// MaxLabel is the length of the longest owner label in bytes.
const MaxLabel = 64

// ValidLabel reports whether an owner label is within its bounds: printable characters, without a colon or
// a space. No label is valid as well.
func ValidLabel(label string) bool {
	return len(label) <= MaxLabel && !strings.ContainsFunc(label, invalidInLabel)
}

func invalidInLabel(r rune) bool { return r == ':' || unicode.IsSpace(r) || !unicode.IsPrint(r) }

// ProcessLabel returns the label host/pid of a process of this machine.
func ProcessLabel(pid int) string {
	host, _ := os.Hostname()
	return processLabel(host, pid)
}

// processLabel replaces what a label must not contain, and cuts the host's name.
func processLabel(host string, pid int) string {
	host = strings.Map(func(r rune) rune {
		if invalidInLabel(r) {
			return '-'
		}
		return r
	}, strings.ToValidUTF8(cmp.Or(host, "unknown"), "-"))
	end := "/" + strconv.Itoa(pid)
	return strings.ToValidUTF8(host[:min(len(host), MaxLabel-len(end))], "") + end
}
