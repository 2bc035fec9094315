// Package scripts_test runs the scripts of this folder where a mistake in one would
// not be seen otherwise.
package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
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

// The day of the last check is recorded, and the lookup fails 30 days later if it can't be repeated.
func TestALookupThatFailedForTooLongIsAnError(t *testing.T) {
	record := filepath.Join(t.TempDir(), "checked")
	run := func(body string) (string, error) {
		cmd := exec.Command("./vuln", executable(t, "govulncheck", body), ".")
		cmd.Env = append(os.Environ(), "VULN_RECORD="+record)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	today, old := time.Now().UTC().Format(time.DateOnly), time.Now().UTC().AddDate(0, 0, -31).Format(time.DateOnly)
	t.Setenv("VULN_DEPENDENCIES_OF", today)
	_, err := run(unreachable)
	require.NoError(t, err, "never checked, but the dependencies changed today")
	t.Setenv("VULN_DEPENDENCIES_OF", old)
	says, err := run(unreachable)
	require.Error(t, err)
	require.Contains(t, says, "no check is recorded, and the dependencies are of "+old+", more than 30 days ago")
	_, err = run("exit 0")
	require.NoError(t, err)
	_, err = run(unreachable)
	require.NoError(t, err, "checked today")
	require.NoError(t, os.WriteFile(record, []byte(old+"\n"), 0o666))
	says, err = run(unreachable)
	require.Error(t, err)
	require.Contains(t, says, "the last check was on "+old+", more than 30 days ago")
	_, err = run("exit 0")
	require.NoError(t, err)
	text, err := os.ReadFile(record)
	require.NoError(t, err)
	require.Equal(t, today+"\n", string(text))
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
			cmd.Env = append(os.Environ(), "VULN_DB="+folder, "VULN_RECORD="+filepath.Join(t.TempDir(), "checked"))
			out, err := cmd.CombinedOutput()
			require.Equal(t, name == "fresh", err != nil, "%s", out)
			require.Contains(t, string(out), c.says)
		})
	}
}
