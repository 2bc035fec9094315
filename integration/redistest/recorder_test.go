package redistest_test

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// recorder is a test that may fail. It records the text of Fatalf, and ends the goroutine as a test
// would.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func runIDOf(t *testing.T, info string) string {
	t.Helper()
	for line := range strings.Lines(info) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			return strings.TrimSpace(id)
		}
	}
	require.Fail(t, "INFO server has no run_id")
	return ""
}

// ownAddresses returns the addresses at which other machines could reach this one.
func ownAddresses(t *testing.T) []string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	require.NoError(t, err)
	var ips []string
	for _, addr := range addrs {
		if ip, ok := addr.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			ips = append(ips, ip.IP.String())
		}
	}
	return ips
}
