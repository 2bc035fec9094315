package sqlfence

import (
	"context"
	"fmt"
	"strings"
)

// openTransactions describes at most five open transactions that have written to the table, the oldest
// first. It is empty if there are none, or if the server does not answer the question.
//
// PostgreSQL tells which transactions block another one only while that one waits. Then this transaction
// cannot ask, and when the wait is over it has failed. So it is rolled back and begun again, without
// leaving the connection (PostgreSQL 12 and later). It must not be committed.
func openTransactions(ctx context.Context, tx session, table string) string {
	if err := tx.exec(ctx, "ROLLBACK AND CHAIN"); err != nil {
		return ""
	}
	var list []string
	err := tx.query(ctx, func(scan scanner) error {
		var p process
		err := scan(&p.pid, &p.state, &p.seconds, &p.application, &p.client, &p.waitsFor)
		list = append(list, p.String())
		return err
	}, strings.ReplaceAll(selectTransactions, "%table%", table))
	if err != nil {
		return ""
	}
	return strings.Join(list, ", ")
}

// A transaction that has written to a table holds this lock on it until it ends. A user without the right to see a
// session gets its process and application alone. Process 0 is a prepared transaction, as in pg_blocking_pids: it may be old.
const selectTransactions = `SELECT coalesce(l.pid, 0), coalesce(a.state, ''), coalesce(extract(epoch FROM clock_timestamp() - a.xact_start), -1)::bigint,
  coalesce(a.application_name, ''), coalesce(host(a.client_addr), ''), coalesce(array_to_string(pg_blocking_pids(l.pid), ', '), '')
FROM pg_locks AS l LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted AND l.relation = '%table%'::regclass
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
ORDER BY a.xact_start NULLS FIRST LIMIT 5`

// process is a server process of PostgreSQL that has an open transaction.
type process struct {
	pid                                  int64
	state, application, client, waitsFor string
	seconds                              int64
}

func (p process) String() string {
	var facts []string
	for _, fact := range []struct {
		known bool
		text  string
	}{
		{p.state != "", p.state},
		{p.seconds >= 0, fmt.Sprintf("open for %ds", p.seconds)},
		{p.application != "", fmt.Sprintf("application %q", p.application)},
		{p.client != "", "client " + p.client},
		{p.waitsFor != "", "waits for " + p.waitsFor},
	} {
		if fact.known {
			facts = append(facts, fact.text)
		}
	}
	text := fmt.Sprintf("process %d", p.pid)
	if len(facts) > 0 {
		text += " (" + strings.Join(facts, ", ") + ")"
	}
	return text
}
