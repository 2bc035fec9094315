package doctor

import (
	"encoding/json"
	"time"

	"github.com/quorumlock/go-redlock/internal/examine"
)

// reportJSON and nodeReportJSON are the documented JSON form. Durations are whole numbers in the
// unit that ends the name.
type reportJSON struct {
	OK            bool             `json:"ok"`
	Nodes         []nodeReportJSON `json:"nodes"`
	ClockSpreadUS int64            `json:"clock_spread_us"`
	Findings      []Finding        `json:"findings"`
}

type nodeReportJSON struct {
	Node          string    `json:"node"`
	Address       string    `json:"address,omitempty"`
	Answered      bool      `json:"answered"`
	Version       string    `json:"version,omitempty"`
	RunID         string    `json:"run_id,omitempty"`
	UptimeS       int64     `json:"uptime_s,omitempty"`
	Role          string    `json:"role,omitempty"`
	Replicas      int       `json:"replicas,omitempty"`
	Persistence   string    `json:"persistence,omitempty"`
	Eviction      string    `json:"eviction,omitempty"`
	MaxMemory     int64     `json:"max_memory,omitempty"`
	ClockOffsetUS *int64    `json:"clock_offset_us,omitempty"`
	RoundTripUS   int64     `json:"round_trip_us,omitempty"`
	MissingRights []string  `json:"missing_rights,omitempty"`
	Guard         string    `json:"guard,omitempty"`
	QuarantineMS  *int64    `json:"quarantine_ms,omitempty"`
	Findings      []Finding `json:"findings"`
}

// MarshalJSON returns an object for programs. "ok" reports that no finding is an error. Times are
// whole numbers: of seconds if the name ends in _s, milliseconds in _ms, microseconds in _us.
// Unknown values are omitted.
func (r *Report) MarshalJSON() ([]byte, error) {
	out := reportJSON{OK: !r.Failed(), ClockSpreadUS: r.ClockSpread.Microseconds(), Findings: nonNil(r.Findings)}
	for _, n := range r.Nodes {
		j := nodeReportJSON{
			Node: n.Node, Address: n.Address, Answered: n.Answered, Version: n.Version, RunID: n.RunID,
			UptimeS: int64(n.Uptime / time.Second), Role: n.Role, Replicas: n.Replicas, Persistence: n.Persistence,
			Eviction: n.Eviction, MaxMemory: n.MaxMemory, RoundTripUS: n.RoundTrip.Microseconds(),
			MissingRights: n.MissingRights, Guard: n.Guard, Findings: nonNil(n.Findings),
		}
		if n.ClockRead {
			us := n.ClockOffset.Microseconds()
			j.ClockOffsetUS = &us
		}
		if n.Guard == examine.StateQuarantined {
			left := n.Quarantine.Milliseconds()
			j.QuarantineMS = &left
		}
		out.Nodes = append(out.Nodes, j)
	}
	return json.Marshal(out)
}

// nonNil returns a copy of all that is not nil, so that JSON shows an empty list.
func nonNil(all []Finding) []Finding { return append([]Finding{}, all...) }
