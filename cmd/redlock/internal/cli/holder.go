package cli

import (
	"strconv"
	"time"
)

// Holder returns the label of a holder as messages show it.
func Holder(owner string) string {
	if owner == "" {
		return "a client without a label"
	}
	return strconv.Quote(owner)
}

// WithID shows the ID of a lock, by which its log lines are found. A lock of another library has none.
func WithID(id string) string {
	if id == "" {
		return ""
	}
	return " (id " + id + ")"
}

// Left returns how long a lock is held, behind the word "for".
func Left(d time.Duration) string {
	if d < 0 {
		return "ever: it has no expiry"
	}
	return d.Round(time.Millisecond).String()
}

// Milliseconds returns a time as objects have it: -1 without an end.
func Milliseconds(d time.Duration) *int64 {
	ms := int64(-1)
	if d >= 0 {
		ms = d.Milliseconds()
	}
	return &ms
}
