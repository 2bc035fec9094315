package doctor_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/redlock/doctor"
)

func TestGradesAreWordsInJSON(t *testing.T) {
	for grade, word := range map[doctor.Grade]string{doctor.Note: "note", doctor.Warning: "warning", doctor.Error: "error"} {
		f := doctor.Finding{Grade: grade, Code: "c", Text: "t"}
		text, err := json.Marshal(f)
		require.NoError(t, err)
		require.JSONEq(t, `{"grade":"`+word+`","code":"c","text":"t"}`, string(text))
		var back doctor.Finding
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, f, back)
	}
}

func TestAReportIsAnObjectInJSON(t *testing.T) {
	r := &doctor.Report{Nodes: []doctor.Node{
		{
			Node: "a", Address: "redis://a:6379/0", Answered: true, Version: "7.0.15", RunID: "r", Uptime: 90 * time.Second,
			Role: "master", Persistence: "none", Eviction: "noeviction", ClockRead: true, RoundTrip: 1500 * time.Microsecond,
			MissingRights: []string{"ping"}, Findings: []doctor.Finding{{Grade: doctor.Warning, Code: "rights", Text: "t"}},
		},
		{Node: "b", Findings: []doctor.Finding{{Grade: doctor.Error, Code: "unreachable", Text: "u"}}},
	}, ClockSpread: time.Millisecond}
	text, err := json.Marshal(r)
	require.NoError(t, err)
	require.JSONEq(t, `{"ok": false, "clock_spread_us": 1000, "findings": [], "nodes": [
		{"node": "a", "address": "redis://a:6379/0", "answered": true, "version": "7.0.15", "run_id": "r", "uptime_s": 90,
		 "role": "master", "persistence": "none", "eviction": "noeviction", "clock_offset_us": 0, "round_trip_us": 1500,
		 "missing_rights": ["ping"], "findings": [{"grade": "warning", "code": "rights", "text": "t"}]},
		{"node": "b", "answered": false, "findings": [{"grade": "error", "code": "unreachable", "text": "u"}]}
	]}`, string(text))
}
