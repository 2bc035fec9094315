// Package scripts_test runs the scripts of this folder where a mistake in one would
// not be seen otherwise.
package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// executable writes a program for the shell into a folder of the test.
func executable(t *testing.T, name, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o777))
	return path
}

// unreachable is how govulncheck ends where it finds no database.
const unreachable = `echo 'govulncheck: fetching vulnerabilities: Get "https://vuln.go.dev/": no such host' >&2; exit 1`

func TestAnUnreachableDatabaseIsDistinguishedFromAVulnerability(t *testing.T) {
	for name, c := range map[string]struct {
		body, environment string
		fails             bool
		says              string
	}{
		"nothing known":              {"exit 0", "", false, "nothing known"},
		"vulnerable":                 {"echo 'Vulnerability #1: GO-2099-0001'; exit 3", "", true, "GO-2099-0001"},
		"unreachable":                {unreachable, "", false, "NOT CHECKED"},
		"unreachable for a release":  {unreachable, "VULN_REQUIRED=true", true, "NOT CHECKED"},
		"silence for too long":       {"exec sleep 600", "VULN_TIMEOUT=0.2", false, "NOT CHECKED"},
		"code that does not compile": {"echo 'undefined: x' >&2; exit 1", "", true, "failed with status 1"},
		"no such program":            {"exit 127", "", true, "failed with status 127"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath("timeout"); err != nil && c.environment == "VULN_TIMEOUT=0.2" {
				t.Skip("this machine has no timeout(1), and govulncheck runs without a bound")
			}
			cmd := exec.Command("./vuln", executable(t, "govulncheck", c.body), ".")
			cmd.Env = append(os.Environ(), c.environment, "VULN_RECORD="+recorded(t, time.Now()))
			out, err := cmd.CombinedOutput()
			assert.Equal(t, c.fails, err != nil, "%s", out)
			assert.Contains(t, string(out), c.says)
		})
	}
}

// recorded returns a record of a check on a day.
func recorded(t *testing.T, day time.Time) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "checked")
	require.NoError(t, os.WriteFile(path, []byte(day.UTC().Format(time.DateOnly)+"\n"), 0o666))
	return path
}

// vuln runs the script over three modules, and tells which of them were asked about.
func vuln(t *testing.T, body string) (asked, says string, err error) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "asked")
	check := executable(t, "govulncheck", `echo "$2" >>"$ASKED"`+"\n"+body)
	cmd := exec.Command("./vuln", check, ".", "one", "two")
	cmd.Env = append(os.Environ(), "ASKED="+log, "VULN_RECORD="+recorded(t, time.Now()))
	out, err := cmd.CombinedOutput()
	text, readErr := os.ReadFile(log)
	require.NoError(t, readErr)
	return string(text), string(out), err
}

func TestEveryModuleIsChecked(t *testing.T) {
	asked, says, err := vuln(t, "exit 0")
	require.NoError(t, err)
	require.Equal(t, ".\none\ntwo\n", asked)
	require.Contains(t, says, "vuln: two: nothing known")

	asked, says, err = vuln(t, `if [ "$2" = two ]; then exit 3; fi`)
	require.Error(t, err)
	require.Equal(t, ".\none\ntwo\n", asked)
	require.Contains(t, says, "vuln: two: vulnerable")
}

func TestADatabaseThatCannotBeReachedIsQueriedOnce(t *testing.T) {
	asked, says, err := vuln(t, `if [ "$2" = one ]; then `+unreachable+`; fi`)
	require.NoError(t, err)
	require.Equal(t, ".\none\n", asked)
	require.Contains(t, says, "vuln: .: nothing known")
	require.Contains(t, says, "NOT CHECKED: the database of vulnerabilities could not be reached for one two\n")
}

func TestWithoutGovulncheckNothingIsChecked(t *testing.T) {
	cmd := exec.Command("./vuln", "/nowhere/govulncheck", ".")
	cmd.Env = append(os.Environ(), "VULN_RECORD="+recorded(t, time.Now()))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err)
	assert.Contains(t, string(out), "NOT CHECKED: govulncheck could not be installed")
}

// The date of the last look-up is recorded. If no look-up is possible for longer than 30 days, that
// is an error.
func TestALookupThatFailedForTooLongIsAnError(t *testing.T) {
	awaitMidnight()
	record := filepath.Join(t.TempDir(), "checked")
	run := func(body string) (string, error) {
		cmd := exec.Command("./vuln", executable(t, "govulncheck", body), ".")
		cmd.Env = append(os.Environ(), "VULN_RECORD="+record)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	says, err := run(unreachable)
	require.Error(t, err, "there is no record")
	require.Contains(t, says, "there is no "+record)
	_, err = run("exit 0")
	require.NoError(t, err)
	text, err := os.ReadFile(record)
	require.NoError(t, err)
	require.Contains(t, string(text), "\n"+daysAgo(0)+"\n")
	_, err = run(unreachable)
	require.NoError(t, err, "looked up today")

	for _, c := range []struct{ text, says string }{
		{daysAgo(30), ""},
		{"# a comment\n" + daysAgo(30), ""},
		{daysAgo(31), record + " is of " + daysAgo(31) + ", more than 30 days ago"},
		{daysAgo(-2), "no date up to today"},
		{"", "no date up to today"},
		{"yesterday", "no date up to today"},
		{"2026-13-45", "no date up to today"},
		{daysAgo(1) + "\n" + daysAgo(0), "no date up to today"},
	} {
		require.NoError(t, os.WriteFile(record, []byte(c.text+"\n"), 0o666))
		says, err := run(unreachable)
		require.Equal(t, c.says != "", err != nil, "%q: %s", c.text, says)
		require.Contains(t, says, c.says)
	}
	_, err = run("exit 0")
	require.NoError(t, err, "a look-up needs no record")
}

// awaitMidnight waits for the next day if less than a minute of this one is left: the script and the
// test must see the same day.
func awaitMidnight() {
	for time.Now().UTC().Add(time.Minute).Day() != time.Now().UTC().Day() {
		time.Sleep(100 * time.Millisecond)
	}
}

func daysAgo(n int) string { return time.Now().UTC().AddDate(0, 0, -n).Format(time.DateOnly) }

func TestTheRecordOfTheRepositoryIsValid(t *testing.T) {
	text, err := os.ReadFile("vuln.checked")
	require.NoError(t, err)
	lines := slices.DeleteFunc(strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), func(line string) bool { return strings.HasPrefix(line, "#") })
	require.Len(t, lines, 1)
	_, err = time.Parse(time.DateOnly, lines[0])
	require.NoError(t, err)
}

func TestADatabaseOfFilesIsUsedWhileItIsFresh(t *testing.T) {
	for name, c := range map[string]struct {
		modified time.Time
		says     string
	}{
		"fresh": {time.Now(), "-db file://"},
		"old":   {time.Now().AddDate(0, 0, -31), "NOT CHECKED: the database in VULN_DB is of "},
		"none":  {time.Time{}, "NOT CHECKED: the folder in VULN_DB has no index/db.json"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			if !c.modified.IsZero() {
				require.NoError(t, os.Mkdir(filepath.Join(folder, "index"), 0o777))
				text := `{"modified":"` + c.modified.UTC().Format(time.RFC3339) + `"}`
				require.NoError(t, os.WriteFile(filepath.Join(folder, "index/db.json"), []byte(text), 0o666))
			}
			cmd := exec.Command("./vuln", executable(t, "govulncheck", `echo "$@"; exit 3`), ".")
			cmd.Env = append(os.Environ(), "VULN_DB="+folder, "VULN_RECORD="+recorded(t, time.Now()))
			out, err := cmd.CombinedOutput()
			require.Equal(t, name == "fresh", err != nil, "%s", out)
			require.Contains(t, string(out), c.says)
		})
	}
}
