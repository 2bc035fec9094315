//go:build unix

package sqlfence_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quorumlock/go-redlock/contrib/sqlfence"
	"github.com/quorumlock/go-redlock/integration/examples/payments"
	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/redlock"
)

const (
	// payTTL is the TTL of locks that a busy machine must not lose.
	payTTL = 2 * time.Minute

	// shortTTL is how long an invoice waits after its holder was stopped.
	shortTTL = 2 * time.Second
)

// office is what the processes that pay share.
type office struct {
	task     payTask // without an invoice
	provider *provider
	nodes    []*redistest.Node
	locker   *redlock.Locker
	pool     *pgxpool.Pool
}

func openOffice(t *testing.T) *office {
	t.Helper()
	nodes := redistest.Start(t, 3)
	url := postgres.open(t) + "?sslmode=disable"
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	deadline := time.Now().Add(startsWithin)
	for err := pool.Ping(t.Context()); err != nil; err = pool.Ping(t.Context()) {
		require.True(t, time.Now().Before(deadline), "the database or the machine failed, and not the library: no answer after its start: %v", err)
		time.Sleep(20 * time.Millisecond)
	}
	fences, err := sqlfence.New(sqlfence.Config{Dialect: sqlfence.Postgres, Namespace: "payments"})
	require.NoError(t, err)
	for _, statement := range []string{fences.Schema(), payments.Schema} {
		_, err := pool.Exec(t.Context(), statement)
		require.NoError(t, err)
	}
	p := &provider{results: make(map[string]string), charges: make(map[int64]int)}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	return &office{
		task:     payTask{Nodes: redistest.URLs(nodes), Postgres: url, Provider: server.URL, Key: keyOfInvoice, TTL: payTTL},
		provider: p,
		nodes:    nodes,
		locker:   openWith(t, nodes, redlock.WithFencing()),
		pool:     pool,
	}
}

// service returns a service inside of this process. wait is that of its fences.
func (o *office) service(t *testing.T, wait time.Duration) *payments.Service {
	t.Helper()
	s, err := newService(o.locker, o.pool, wait, payTTL, keyOfInvoice, &providerClient{url: o.task.Provider, http: http.DefaultClient})
	require.NoError(t, err)
	return s
}

// payer is a process that pays an invoice.
type payer struct {
	*exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
	log   bytes.Buffer
}

func (o *office) start(t *testing.T, change func(*payTask)) *payer {
	t.Helper()
	task := o.task
	change(&task)
	text, err := json.Marshal(task)
	require.NoError(t, err)
	p := &payer{Cmd: exec.CommandContext(t.Context(), os.Args[0])}
	p.Env = append(os.Environ(), payVariable+"="+string(text))
	p.Stderr = &p.log
	p.stdin, err = p.StdinPipe()
	require.NoError(t, err)
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	p.lines = bufio.NewScanner(out)
	require.NoError(t, p.Start())
	return p
}

// line returns what the process prints: that it has stopped, or its steps when it has paid. It is empty
// after an error.
func (p *payer) line() string {
	p.lines.Scan()
	return p.lines.Text()
}

// pay pays an invoice in a process that is not stopped, and returns its steps.
func (o *office) pay(t *testing.T, change func(*payTask)) (steps []string) {
	t.Helper()
	p := o.start(t, change)
	list, paid := strings.CutPrefix(p.line(), stepsTaken)
	err := p.Wait()
	require.True(t, paid, "%v: %s", err, &p.log)
	require.NoError(t, err, "%s", &p.log)
	return strings.Split(list, ", ")
}

// killed kills a process at a step, and reports whether it got there. Its lock is then broken, as an operator
// may do: no test has to wait until it expires.
func (o *office) killed(t *testing.T, invoice int64, change func(*payTask)) bool {
	t.Helper()
	p := o.start(t, func(task *payTask) {
		task.Invoice = invoice
		change(task)
	})
	reached := p.line() == stopped
	require.NoError(t, p.Process.Kill())
	_ = p.Wait() // it was killed
	for _, n := range o.nodes {
		n.Do(t, "DEL", fmt.Sprintf("invoice/%d", invoice))
	}
	return reached
}

// progress is how far an invoice is.
type progress struct {
	intended, charged, recorded bool
}

func (o *office) progress(t *testing.T, invoice int64) progress {
	t.Helper()
	var result *string
	err := o.pool.QueryRow(t.Context(), "SELECT result FROM payment WHERE invoice = $1", invoice).Scan(&result)
	if err != nil {
		require.ErrorIs(t, err, pgx.ErrNoRows)
	}
	return progress{err == nil, o.provider.charged(invoice) > 0, result != nil}
}

// requirePaidOnce requires that an invoice was charged once, and that the result is stored.
func (o *office) requirePaidOnce(t *testing.T, invoice int64) {
	t.Helper()
	assert.Equal(t, 1, o.provider.charged(invoice), "invoice %d", invoice)
	var result string
	require.NoError(t, o.pool.QueryRow(t.Context(), "SELECT result FROM payment WHERE invoice = $1", invoice).Scan(&result))
	assert.Equal(t, fmt.Sprintf("charge 1 of %d cents", centsOf(invoice)), result)
}

// payUntilPaid pays an invoice, as often as it takes.
func payUntilPaid(ctx context.Context, s *payments.Service, invoice int64) error {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	for {
		err := s.Pay(ctx, invoice, centsOf(invoice))
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// These are the claims of docs/payments.md.
func TestPayments(t *testing.T) {
	t.Parallel()
	o := openOffice(t)
	t.Run("an invoice is paid once wherever its holder is killed", func(t *testing.T) { testKilled(t, o) })
	t.Run("only a key of the invoice keeps a crash from charging twice", func(t *testing.T) { testKeys(t, o) })
	t.Run("a holder that is stopped", func(t *testing.T) { testStopped(t, o) })
	t.Run("an intent that is there", func(t *testing.T) { testIntents(t, o) })
}

// A process is killed before each message that it sends to the database or the provider, and after each
// that it receives. Another one finishes its work.
func testKilled(t *testing.T, o *office) {
	t.Helper()
	steps := o.pay(t, func(task *payTask) { task.Invoice = 1 })
	o.requirePaidOnce(t, 1)
	t.Logf("%d steps: %s", len(steps), strings.Join(steps, ", "))
	invoiceOf := func(step int) int64 { return int64(1 + step) }

	var mu sync.Mutex
	seen := map[progress]bool{}
	kill := func(t *testing.T, step int) (reached bool) {
		t.Helper()
		reached = o.killed(t, invoiceOf(step), func(task *payTask) { task.Stop = step })
		mu.Lock()
		defer mu.Unlock()
		seen[o.progress(t, invoiceOf(step))] = true
		return reached
	}
	t.Run("killed", func(t *testing.T) {
		for i, name := range steps {
			step := i + 1
			t.Run(fmt.Sprint(step, " ", name), func(t *testing.T) {
				t.Parallel()
				kill(t, step)
			})
		}
	})
	// What comes in one read at one time may come in two at another. So a later process may take fewer steps than the first one, or more.
	killed := len(steps) + 1
	for kill(t, killed) {
		killed++
	}
	for _, p := range []progress{{}, {intended: true}, {intended: true, charged: true}, {true, true, true}} {
		require.True(t, seen[p], "no process was killed at %+v", p)
	}

	service := o.service(t, sqlfence.DefaultWait)
	for range 2 { // the second time there is nothing to do
		var all sync.WaitGroup
		errs := make([]error, killed)
		for i := range killed {
			all.Go(func() { errs[i] = payUntilPaid(t.Context(), service, invoiceOf(i+1)) })
		}
		all.Wait()
		require.NoError(t, errors.Join(errs...))
		for i := range killed {
			o.requirePaidOnce(t, invoiceOf(i+1))
		}
	}
}

// A process is killed when the provider has answered. The next one sends the charge again.
func testKeys(t *testing.T, o *office) {
	t.Helper()
	for invoice, test := range map[int64]struct {
		key     keyKind
		charges int
	}{
		1001: {keyOfInvoice, 1},
		1002: {noKey, 2},
		1003: {keyOfFence, 2},
	} {
		t.Run(string(test.key), func(t *testing.T) {
			require.True(t, o.killed(t, invoice, func(task *payTask) { task.Key, task.StopAt = test.key, fromProvider }))
			require.Equal(t, progress{intended: true, charged: true}, o.progress(t, invoice))
			o.pay(t, func(task *payTask) { task.Invoice, task.Key = invoice, test.key })
			require.Equal(t, test.charges, o.provider.charged(invoice))
		})
	}
}

// A process is stopped before it commits transaction 1, in which it has checked its fence, or before it calls
// the provider. Its lock expires, and the next holder goes on.
func testStopped(t *testing.T, o *office) {
	t.Helper()
	stop := func(t *testing.T, invoice int64, before, setting string) *payer {
		t.Helper()
		for range 5 {
			p := o.start(t, func(task *payTask) {
				task.Invoice, task.StopBefore, task.TTL = invoice, before, shortTTL
				task.Postgres += "&application_name=stopped" + setting
			})
			if p.line() == stopped {
				require.NoError(t, p.Process.Signal(syscall.SIGSTOP))
				t.Cleanup(func() { _ = p.Process.Kill() })
				return p
			}
			require.Error(t, p.Wait())
			// A busy machine may be slower than the TTL, or than the bound of PostgreSQL, which then ends the connection.
			require.Regexp(t, `\(lost: true\)|SQLSTATE 25P03|unexpected EOF|conn closed|connection reset`, p.log.String())
		}
		require.FailNow(t, "the lock was lost each time")
		return nil
	}
	resume := func(t *testing.T, p *payer) {
		t.Helper()
		require.NoError(t, p.Process.Signal(syscall.SIGCONT))
		_, err := p.stdin.Write([]byte("\n"))
		require.NoError(t, err)
		require.Error(t, p.Wait())
		require.Contains(t, p.log.String(), "(lost: true)")
	}

	t.Run("its successor is told who it is", func(t *testing.T) {
		const invoice = 2001
		p := stop(t, invoice, "commit", "")
		service := o.service(t, 100*time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var err error
		for !errors.Is(err, sqlfence.ErrRetry) {
			err = service.Pay(ctx, invoice, centsOf(invoice))
			require.Error(t, err)
			require.NoError(t, ctx.Err(), "%v", err)
		}
		require.Regexp(t, regexp.MustCompile(
			`\(fence \d+ of lock [0-9a-f]{24} on "invoice/2001"; open transactions: process \d+ \(idle in transaction, open for \d+s, application "stopped"`), err.Error())
		resume(t, p)
		require.NoError(t, payUntilPaid(t.Context(), service, invoice))
		o.requirePaidOnce(t, invoice)
	})

	t.Run("PostgreSQL ends its transaction", func(t *testing.T) {
		const invoice = 2002
		p := stop(t, invoice, "commit", "&idle_in_transaction_session_timeout=1s")
		require.NoError(t, payUntilPaid(t.Context(), o.service(t, 100*time.Millisecond), invoice))
		o.requirePaidOnce(t, invoice)
		resume(t, p)
		o.requirePaidOnce(t, invoice)
	})

	t.Run("before it calls the provider", func(t *testing.T) {
		const invoice = 2003
		p := stop(t, invoice, "POST ", "")
		require.NoError(t, payUntilPaid(t.Context(), o.service(t, sqlfence.DefaultWait), invoice))
		resume(t, p)
		o.requirePaidOnce(t, invoice)
	})
}

// Another amount than that of the first intent is an error, also when the invoice is paid. An intent that is
// older than the provider's keys is not charged.
func testIntents(t *testing.T, o *office) {
	t.Helper()
	const recent, old = 3001, 3002
	for invoice, age := range map[int64]string{recent: "22 hours", old: "24 hours"} {
		_, err := o.pool.Exec(t.Context(), "INSERT INTO payment (invoice, cents, intended_at) VALUES ($1, $2, now() - $3::text::interval)",
			invoice, centsOf(invoice), age)
		require.NoError(t, err)
	}
	service := o.service(t, sqlfence.DefaultWait)
	require.ErrorContains(t, service.Pay(t.Context(), recent, 1), "1 cents are asked for, and an earlier call asked for")
	require.Equal(t, progress{intended: true}, o.progress(t, recent))
	require.NoError(t, service.Pay(t.Context(), recent, centsOf(recent)))
	require.ErrorContains(t, service.Pay(t.Context(), recent, 1), "an earlier call asked for")
	o.requirePaidOnce(t, recent)
	require.ErrorContains(t, service.Pay(t.Context(), old, centsOf(old)), "the provider may have forgotten the key")
	require.Equal(t, progress{intended: true}, o.progress(t, old))
}

// The page shows the example that the tests run.
func TestThePageOfPaymentsShowsTheExample(t *testing.T) {
	page, err := os.ReadFile("../../docs/payments.md")
	require.NoError(t, err)
	source, err := os.ReadFile("../examples/payments/pay.go")
	require.NoError(t, err)
	require.Contains(t, string(page), "```go\n"+string(source)+"```\n")
}
