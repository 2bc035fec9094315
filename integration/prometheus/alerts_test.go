package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// alerts is what is read of the rules for Prometheus. promtool tests when they fire: make test-alerts.
type alerts struct {
	Groups []struct {
		Rules []struct {
			Alert, Expr         string
			Labels, Annotations map[string]string
		}
	}
}

const operations = "https://github.com/quorumlock/go-redlock/blob/main/docs/operations.md#"

var heading = regexp.MustCompile(`(?m)^##+ (.*)$`)

func TestTheAlertsQueryExportedMetricsAndLeadToTheRunbook(t *testing.T) {
	text, err := os.ReadFile("../../docs/telemetry/alerts.yaml")
	require.NoError(t, err)
	var all alerts
	require.NoError(t, yaml.Unmarshal(text, &all))
	require.Len(t, all.Groups, 1)
	require.Len(t, all.Groups[0].Rules, 4)
	served, sections := example(t), sections(t)
	for _, r := range all.Groups[0].Rules {
		requireServed(t, served, r.Alert, r.Expr)
		require.NotEmpty(t, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.NotEmpty(t, r.Annotations["description"], r.Alert)
		section, found := strings.CutPrefix(r.Annotations["runbook_url"], operations)
		require.True(t, found, r.Alert)
		require.Contains(t, sections, section, r.Alert)
	}
}

// sections lists the anchors of docs/operations.md.
func sections(t *testing.T) (list []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	for _, h := range heading.FindAllStringSubmatch(string(page), -1) {
		list = append(list, strings.ReplaceAll(strings.ToLower(h[1]), " ", "-"))
	}
	return list
}
