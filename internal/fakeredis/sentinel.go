package fakeredis

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
)

// Sentinel is a Redis Sentinel as clients see it. It names the masters that a test has set, and
// announces failovers. It has all faults of a [Master], and no data.
type Sentinel struct {
	*Master

	mu      sync.Mutex // guards what follows
	masters map[string]string
	others  int
}

// NewSentinel creates a Sentinel without a listener, as New creates a master. The Sentinel knows no
// master, and the given number of other Sentinels.
func NewSentinel(name string, others int) *Sentinel { return newSentinel(New(name), others) }

// StartSentinel is NewSentinel with a listener, as Start makes a master.
func StartSentinel(name string, others int) (*Sentinel, error) {
	m, err := Start(name)
	if err != nil {
		return nil, err
	}
	return newSentinel(m, others), nil
}

func newSentinel(m *Master, others int) *Sentinel {
	s := &Sentinel{Master: m, masters: map[string]string{}, others: others}
	s.SetInfo("redis_mode", "sentinel")
	s.Hook(s.reply)
	return s
}

// SetMaster sets the address of a master. With an empty address the Sentinel does not know the
// master. SetMaster announces nothing.
func (s *Sentinel) SetMaster(master, address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.masters[master] = address
}

// Failover is SetMaster with an announcement.
func (s *Sentinel) Failover(master, address string) {
	s.mu.Lock()
	from := s.masters[master]
	s.mu.Unlock()
	s.SetMaster(master, address)
	fromHost, fromPort, _ := net.SplitHostPort(from)
	toHost, toPort, _ := net.SplitHostPort(address)
	s.redis.Publish("+switch-master", strings.Join([]string{master, fromHost, fromPort, toHost, toPort}, " "))
}

func (s *Sentinel) reply(_ int64, cmd string, args []string) (reply string, handled bool) {
	switch {
	case cmd == "GET" || cmd == "EVAL" || cmd == "EVALSHA" || cmd == "SCRIPT" || cmd == "SET":
		return "ERR unknown command '" + cmd + "'", true
	case cmd != "SENTINEL":
		return "", false
	case len(args) != 2:
		return "ERR wrong number of arguments", true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	address := s.masters[args[1]]
	switch strings.ToUpper(args[0]) {
	case "GET-MASTER-ADDR-BY-NAME":
		if address == "" {
			return "*-1\r\n", true
		}
		host, port, _ := net.SplitHostPort(address)
		return bulks(host, port), true
	case "MASTER":
		if address == "" {
			return "ERR No such master with that name", true
		}
		return bulks("name", args[1], "num-other-sentinels", strconv.Itoa(s.others)), true
	}
	return "ERR unknown subcommand", true
}

// bulks returns an array of bulk strings.
func bulks(words ...string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&text, "$%d\r\n%s\r\n", len(w), w)
	}
	return text.String()
}
