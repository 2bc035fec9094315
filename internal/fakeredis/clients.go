package fakeredis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

// clientCommand answers the subcommands of CLIENT that miniredis lacks; under m.mu, for the client
// whose command executes.
func (m *Master) clientCommand(c *Client, p *server.Peer, args []string) {
	switch strings.ToUpper(args[0]) {
	case "ID":
		p.WriteInt(int(c.id))
	case "INFO":
		p.WriteBulk(c.describe())
	case "LIST":
		var text strings.Builder
		for _, id := range slices.Sorted(maps.Keys(m.clients)) {
			text.WriteString(m.clients[id].describe())
		}
		p.WriteBulk(text.String())
	case "KILL":
		m.clientKill(c, p, args[1:])
	}
}

// describe returns a client's line in CLIENT INFO and CLIENT LIST; under m.mu.
func (c *Client) describe() string {
	subs := 0
	if c.subscribed {
		subs = 1
	}
	return fmt.Sprintf("id=%d addr=%s laddr=%s name=%s flags=N db=%d sub=%d user=default resp=2\n",
		c.id, c.conn.RemoteAddr(), c.master.addr, c.peer.ClientName, c.db, subs)
}

// clientKill answers CLIENT KILL with filters (ID, TYPE, SKIPME) by the number of clients that it
// killed. It does not kill the caller unless SKIPME is no.
func (m *Master) clientKill(c *Client, p *server.Peer, args []string) {
	match, skip, err := killFilter(args)
	if err != "" {
		p.WriteError(err)
		return
	}
	killed := 0
	for _, other := range m.clients {
		switch {
		case other.killed || !match(other) || other == c && skip:
		case other == c:
			p.Close() // after the reply
			killed++
		default:
			other.kill()
			killed++
		}
	}
	p.WriteInt(killed)
}

func killFilter(args []string) (match func(*Client) bool, skip bool, err string) {
	id, kind, skip := int64(0), "", true
	if len(args) == 0 || len(args)%2 != 0 {
		return nil, false, "ERR syntax error"
	}
	for pair := range slices.Chunk(args, 2) {
		switch value := strings.ToLower(pair[1]); strings.ToUpper(pair[0]) {
		case "ID":
			n, e := strconv.ParseInt(value, 10, 64)
			if e != nil || n <= 0 {
				return nil, false, "ERR client-id should be greater than 0"
			}
			id = n
		case "TYPE":
			kind = value
		case "SKIPME":
			skip = value != "no"
		default:
			return nil, false, "ERR syntax error"
		}
	}
	return func(c *Client) bool {
		own := "normal"
		if c.subscribed {
			own = "pubsub"
		}
		return c.id == cmp.Or(id, c.id) && own == cmp.Or(kind, own)
	}, skip, ""
}
