package sqlfence_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/contrib/sqlfence"
	"github.com/quorumlock/go-redlock/integration/redistest"
)

const readme = "../../contrib/sqlfence/README.md"

// blocks returns the README's blocks in a language.
func blocks(t *testing.T, language string) (texts []string) {
	t.Helper()
	page, err := os.ReadFile(readme)
	require.NoError(t, err)
	for _, block := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllSubmatch(page, -1) {
		texts = append(texts, string(block[1]))
	}
	return texts
}

// The quick start runs as a reader runs it, in several processes at once. The first one also creates
// the tables.
func TestTheQuickStartSellsEveryAppleOnce(t *testing.T) {
	t.Parallel()
	programs := blocks(t, "go")
	require.Len(t, programs, 3, "the quick start, that of pgx, and a test")
	nodes := redistest.Start(t, 3)
	url := postgres.open(t)
	db, err := sql.Open("pgx", url)
	require.NoError(t, err)
	defer db.Close()
	(&database{DB: db}).awaitReady(t)
	binary := build(t, programs[0], redistest.URLs(nodes), url)

	var processes [11]*exec.Cmd
	var outputs, logs [len(processes)]bytes.Buffer
	for i := range processes {
		processes[i] = exec.CommandContext(t.Context(), binary)
		processes[i].Stdout, processes[i].Stderr = &outputs[i], &logs[i]
		require.NoError(t, processes[i].Start())
	}
	failed := 0
	fences := map[int]int64{} // by what was left
	for i, process := range processes {
		if err := process.Wait(); err != nil {
			require.Contains(t, logs[i].String(), "there are no apples")
			failed++
			continue
		}
		var left int
		var fence int64
		_, err := fmt.Sscanf(outputs[i].String(), "%d apples left, sold with fence %d\n", &left, &fence)
		require.NoError(t, err, "%s", &outputs[i])
		fences[left] = fence
	}
	require.Equal(t, 1, failed, "there are 10 apples")
	require.Len(t, fences, 10, "each was sold once")
	for left := range 9 {
		require.Greater(t, fences[left], fences[left+1])
	}
	d := &database{DB: db, dialect: sqlfence.Postgres}
	fence, _ := d.row(t, "locks-1", "stock:apples")
	require.Equal(t, fences[0], fence)
}

// The README's test for a service passes.
func TestTheTestForAServicePasses(t *testing.T) {
	t.Parallel()
	programs := blocks(t, "go")
	require.Len(t, programs, 3)
	file := filepath.Join(t.TempDir(), "service_test.go")
	require.NoError(t, os.WriteFile(file, []byte(programs[2]), 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: TestALateHolderIsRejected")
}

// build builds the program, with the addresses of these servers, which may be busy.
func build(t *testing.T, source string, nodes []string, postgres string) (binary string) {
	t.Helper()
	replace := func(original, address string) {
		require.Contains(t, source, original)
		source = strings.ReplaceAll(source, original, address)
	}
	for i, url := range nodes {
		replace(fmt.Sprintf("redis://127.0.0.1:700%d", i+1), url)
	}
	replace("redlock.WithFencing())", fmt.Sprintf("redlock.WithFencing(), redlock.WithNodeTimeout(%d))", nodeTimeout))
	replace("postgres://postgres:fences@127.0.0.1:5432/postgres", postgres)
	folder := t.TempDir()
	file := filepath.Join(folder, "main.go")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	binary = filepath.Join(folder, "program")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

// The README's statements for a new set of servers: the first rejects all locks of the old set, and
// the second deletes its rows.
func testNewServers(t *testing.T, s *suite) {
	t.Helper()
	statements := blocks(t, " *sql")
	require.Len(t, statements, 4)
	const name = "new servers"
	lock := acquire(t, s.first, name)
	old, next := s.database.fences(t, "locks-1"), s.database.fences(t, "locks-2")
	for _, s.fences = range []*sqlfence.Fences{old, next} {
		require.NoError(t, s.write(t.Context(), lock, sql.LevelDefault))
	}

	s.exec(t, statements[1])
	s.fences = old
	require.ErrorIs(t, s.write(t.Context(), lock, sql.LevelDefault), sqlfence.ErrStale)
	s.fences = next
	require.NoError(t, s.write(t.Context(), lock, sql.LevelDefault))

	s.exec(t, statements[2])
	fence, _ := s.row(t, "locks-1", name)
	require.Zero(t, fence)
	s.namespace = "locks-2"
	s.requireRow(t, name, lock)
}

// The README's statement for old rows deletes those that were not checked for two days.
func testOldRows(t *testing.T, s *suite) {
	t.Helper()
	line := map[sqlfence.Dialect]int{sqlfence.Postgres: 0, sqlfence.MySQL: 1, sqlfence.SQLite: 2}[s.dialect]
	statement, _, _ := strings.Cut(strings.Split(blocks(t, " *sql")[3], "\n")[line], "--")
	s.namespace = "locks-1"
	s.fences = s.database.fences(t, s.namespace)
	hours := map[sqlfence.Dialect]string{
		sqlfence.Postgres: "now() - interval '%d hours'",
		sqlfence.MySQL:    "UTC_TIMESTAMP() - INTERVAL %d HOUR",
		sqlfence.SQLite:   "datetime('now', '-%d hours')",
	}[s.dialect]
	for name, age := range map[string]string{"old": fmt.Sprintf(hours, 49), "young": fmt.Sprintf(hours, 47), "new": "checked_at"} {
		require.NoError(t, s.write(t.Context(), acquire(t, s.first, name), sql.LevelDefault))
		s.exec(t, s.statement("UPDATE redlock_fences SET checked_at = "+age+" WHERE namespace = ? AND name = ?"), s.namespace, name)
	}
	s.exec(t, statement)
	for name, kept := range map[string]bool{"old": false, "young": true, "new": true} {
		fence, _ := s.row(t, s.namespace, name)
		require.Equal(t, kept, fence != 0, name)
	}
}
