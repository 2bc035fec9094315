package node

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The bounds of settings.
const (
	MinWait = time.Millisecond
	MaxWait = 5 * time.Minute
	MaxName = 255
)

// CheckHostPort returns an error unless the address has a host and a port.
func CheckHostPort(setting, address string) error {
	if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
		return BadSetting(setting, address, "host:port")
	}
	return nil
}

// BadSetting returns the error for a setting with a wrong value.
func BadSetting(setting, value, want string) error {
	return fmt.Errorf("%s is %q, must be %s", setting, value, want)
}

// InRange returns an error unless low <= v <= high.
func InRange[T int | time.Duration](setting string, v, low, high T) error {
	if v >= low && v <= high {
		return nil
	}
	return fmt.Errorf("%s is %v, must be %v to %v", setting, v, low, high)
}

// CheckText returns an error if s contains a character that is not allowed, or if its length is not
// 1 to most bytes.
func CheckText(setting, s string, most int, allowed func(rune) bool) error {
	for _, r := range s {
		if !allowed(r) {
			return fmt.Errorf("%s contains an invalid character", setting)
		}
	}
	return InRange(setting+"'s length", len(s), 1, most)
}

// Printable refuses control characters, which would garble a log line.
func Printable(r rune) bool { return r >= ' ' && r != 0x7f }

// Graphic refuses also spaces and everything beyond ASCII, as Redis does in a client's name.
func Graphic(r rune) bool { return r > ' ' && r <= '~' }

// ErrIsURL rejects a URL in place of an address or a name. It does not show the URL, which may
// contain a password.
var ErrIsURL = errors.New(`contains "@" or "://" (value not shown: for a URL use ParseURL)`)

// NotShown replaces such a URL in texts.
const NotShown = "(not shown: URL in place of an address)"

// NotURL returns an error if a value looks like a URL. The error names the setting and not the
// value.
func NotURL(setting, value string) error {
	if strings.Contains(value, "@") || strings.Contains(value, "://") {
		return fmt.Errorf("%s %w", setting, ErrIsURL)
	}
	return nil
}

// SchemeOf returns the scheme for servers with TLS, or without.
func SchemeOf(scheme string, encrypted bool) string {
	if encrypted {
		return strings.Replace(scheme, "redis", "rediss", 1)
	}
	return scheme
}

// MasterURL returns how one master is reached, without the password.
func MasterURL(encrypted bool, user, address string, database int) string {
	return fmt.Sprintf("%s://%s%s/%d", SchemeOf("redis", encrypted), UserPart(user), address, database)
}

// UserPart returns a user as it is in a URL.
func UserPart(user string) string {
	if user == "" {
		return ""
	}
	return user + "@"
}

// Duration reads a setting of a URL that is a duration.
func Duration(name, value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	// Zero in a Config means the default, which is not what the URL says.
	if err != nil || d == 0 {
		return 0, fmt.Errorf("the setting %s must be a duration of %v to %v, as in 1.5s", name, MinWait, MaxWait)
	}
	return d, nil
}

// HostPort returns the URL's host and port, or the usual port if the URL has none.
func HostPort(u *url.URL, usual string) (string, error) {
	host, port := u.Hostname(), cmp.Or(u.Port(), usual)
	// Without this check the address would be that of the local machine.
	if host == "" {
		return "", errors.New("no host")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > math.MaxUint16 {
		return "", errors.New("the port must be 1 to 65535")
	}
	return net.JoinHostPort(host, port), nil
}
